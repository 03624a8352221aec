"""Errors of every class, and the step that each asks for: `python -m tests.errors`."""
