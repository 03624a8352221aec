"""Sweeps find runs that can go on without a caller, and continue them."""
