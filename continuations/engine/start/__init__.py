"""A new run: its input, its budget, its description."""
