"""The index: open waits, live and ended runs."""
