"""The index: open waits, runs, markers."""
