"""What can go wrong with a store; stdlib only, the bottom of every import.

The class says whose move it is, the text says what happened, to which key, and
what to do next. Stores raise nothing else for reasons that lie in the store.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlreadyExists",
    "Damaged",
    "Denied",
    "Inconclusive",
    "InvalidKey",
    "NotFound",
    "StorageError",
    "Throttled",
    "Unavailable",
    "Unsafe",
    "Unsupported",
]


class StorageError(Exception):
    """A store could not do what it was asked; above every error of this package."""

    summary: ClassVar[str] = "the store failed"
    next_step: ClassVar[str] = ""

    def __init__(self, key: str | None = None, detail: str = "") -> None:
        # args are exactly the parameters, so that the error survives pickling.
        super().__init__(key, detail)
        self.key = key
        self.detail = detail

    def __str__(self) -> str:
        """Tell what happened, to which key, and what to do next."""
        subject = "store" if self.key is None else f"key {self.key!r}"
        reason = f" ({self.detail})" if self.detail else ""
        return f"{subject}: {self.summary}{reason}. {self.next_step}".rstrip()


class AlreadyExists(StorageError):
    """Somebody else created the key before; the first body stands."""

    summary = "exists already; its first body stands, nothing was written"
    next_step = "Read the key to see what stands there."


class NotFound(StorageError):
    """There is no such key, and the store is sure of it."""

    summary = "does not exist"
    next_step = "It was never created, or it was deleted; list its prefix to see."


class Denied(StorageError):
    """The store will not tell: the key is missing or you are not permitted."""

    summary = "missing or not permitted; nothing was written"
    next_step = "Check who this process runs as and what the store lets it do."


class Throttled(StorageError):
    """The store asks for fewer requests; nothing was written."""

    summary = "the store asked to slow down; nothing was written"
    next_step = "Wait a little and ask again."


class Unavailable(StorageError):
    """The store could not be reached or failed; nothing was written."""

    summary = "the store is not available; nothing was written"
    next_step = "Mend what the reason names and ask again; asking again is safe."


class Inconclusive(StorageError):
    """The create may or may not have landed, and reading it back did not tell."""

    summary = "the reply was lost, so the body may or may not be stored"
    next_step = "Read the key when the store answers again: it tells who won."


class Damaged(StorageError):
    """The store holds something under the key but cannot give its bytes whole."""

    summary = "is damaged in the store; it was left untouched"
    next_step = "Check the disk or bucket and restore the object from a backup."


class Unsafe(StorageError):
    """The store does not honour put-if-absent, so it must not be used."""

    summary = "this store cannot keep the promise that a create never overwrites"
    next_step = "Use another store; with this one two processes could both win."


class InvalidKey(StorageError, ValueError):
    """The text is not a key that every store can hold; nothing was done."""

    summary = "is not a legal key"
    next_step = (
        "Keys are segments of 1 to 255 of [A-Za-z0-9._@=~-], joined by '/', "
        "none of them '.' or '..', 900 bytes in all."
    )


class Unsupported(StorageError, ValueError):
    """The store's URL names a store that this version does not have."""

    summary = "cannot open such a store"
    next_step = "Use file:path, memory:, memory:name or s3://bucket/prefix."

    def __init__(self, url: str, detail: str = "") -> None:
        super().__init__(url, detail)
        self.url = url

    def __str__(self) -> str:
        """Tell which URL was refused and which ones are understood."""
        return f"{self.url!r}: {self.summary} ({self.detail}). {self.next_step}"
