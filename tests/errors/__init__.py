"""Every error that a user can see, provoked once: `python -m tests.errors`."""
