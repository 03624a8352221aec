"""Requests of operators and applications to a run."""
