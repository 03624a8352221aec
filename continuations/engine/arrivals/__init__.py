"""Arrivals of a run that are due, and the changes that they make."""
