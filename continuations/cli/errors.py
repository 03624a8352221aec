"""The error of an invalid command line."""


class UsageError(Exception):
    """The command line is invalid and nothing was done; the text says how to fix it."""
