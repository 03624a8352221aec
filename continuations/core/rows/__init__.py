"""The rows of a run: frames, calls, waits, and what one row means."""
