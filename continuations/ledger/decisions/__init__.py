"""Decisions of waits: their checks, votes and grants, and the worklist."""
