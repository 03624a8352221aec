"""A command line that cannot be meant: whoever typed it can mend it."""


class UsageError(Exception):
    """Nothing was done; the text says what to type instead."""
