"""The plain face of asynchronous classes."""
