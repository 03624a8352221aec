"""Decisions: verdicts, votes, grants, the worklist."""
