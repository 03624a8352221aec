"""The errors that a store may raise.

The class says what kind of failure it is and who can fix it. The text says what failed,
for which key, why, and what to do next. This module imports only the standard library.
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


_PREDICATES = ("already ", "does ", "is ")
_MAX_SHOWN_CHARS = 120


def _shortened(key: str) -> str:
    return key if len(key) <= _MAX_SHOWN_CHARS else f"{key[: _MAX_SHOWN_CHARS - 1]}…"


class StorageError(Exception):
    """A store operation failed. Every error of this package is a subclass.

    The text is `<key or store>: <what failed> (<detail>). <what to do next>`. Errors
    survive pickling.

    Attributes:
        key: The key or prefix of the operation, or None if the error concerns the
            whole store.
        detail: The cause, for example the error code and message of the server.
    """

    summary: ClassVar[str] = "the store operation failed"
    next_step: ClassVar[str] = "Check the store and try again."

    def __init__(self, key: str | None = None, detail: str = "") -> None:
        """Make the error.

        Args:
            key: The key or prefix of the operation; None for the whole store.
            detail: The cause. It must not contain credentials or bodies.
        """
        # args are exactly the parameters, so that the error survives pickling.
        super().__init__(key, detail)
        self.key = key
        self.detail = detail

    def __str__(self) -> str:
        """Return what failed, for which key, why, and what to do next."""
        subject = "store" if self.key is None else f"key {_shortened(self.key)!r}"
        # "key 'a' does not exist", but "key 'a': the store is not available".
        colon = "" if self.summary.startswith(_PREDICATES) else ":"
        reason = f" ({self.detail})" if self.detail else ""
        return f"{subject}{colon} {self.summary}{reason}. {self.next_step}"


class AlreadyExists(StorageError):
    """Another create of the key came first; its body is kept."""

    summary = "already exists, nothing was written"
    next_step = "Read the key to see the body that was created first."


class NotFound(StorageError):
    """The key does not exist, and the store is sure about that."""

    summary = "does not exist"
    next_step = "List its prefix to see which keys exist."


class Denied(StorageError):
    """Access is denied; some stores say the same about a missing key."""

    summary = "access is denied or the key is missing, nothing was written"
    next_step = "Check the credentials and the permissions of this process."


class Throttled(StorageError):
    """The store asks for fewer requests; nothing was written."""

    summary = "the store asked for fewer requests, nothing was written"
    next_step = "Wait and try again."


class Unavailable(StorageError):
    """The store cannot be reached or failed; nothing was written."""

    summary = "the store is not available, nothing was written"
    next_step = "Fix the cause and try again; it is safe to repeat the call."


class Inconclusive(StorageError):
    """The reply to a create was lost, and the key could not be read back."""

    summary = "the reply was lost, so the body may or may not be stored"
    next_step = "Read the key when the store is available again."


class Damaged(StorageError):
    """The store has the key but cannot return the whole body."""

    summary = "the stored object is damaged, it was not changed"
    next_step = "Check the disk or the bucket, and restore the object from a backup."


class Unsafe(StorageError):
    """The store does not keep the contract, so it must not be used."""

    summary = "the store does not keep the store contract"
    next_step = "Use another store; in this one, two processes could create one key."


class InvalidKey(StorageError, ValueError):
    """The text is not a valid key, or it is the folder of other keys."""

    summary = "is not a valid key"
    next_step = (
        "A key has segments of 1 to 255 characters of [A-Za-z0-9._@=~-], joined by "
        "'/', except '.' and '..', and at most 900 characters in all. A key cannot be "
        "the folder of other keys."
    )


class Unsupported(StorageError, ValueError):
    """The URL or an option does not name a store that can be opened here.

    Attributes:
        url: The URL, or only its scheme if it contains credentials.
    """

    summary = "cannot be opened"
    next_step = (
        "Use file:PATH, memory:, memory:NAME, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX "
        "or az://CONTAINER/PREFIX."
    )

    def __init__(self, url: str, detail: str = "", next_step: str = "") -> None:
        """Make the error.

        Args:
            url: The URL that was given.
            detail: The cause.
            next_step: The advice of the text; by default, the valid URLs.
        """
        super().__init__(url, detail)
        self.args = (url, detail, next_step)
        self.url = url
        self._next_step = next_step or type(self).next_step

    def __str__(self) -> str:
        """Return the URL, why it cannot be opened, and what to do next."""
        return f"store {self.url!r} {self.summary}: {self.detail}. {self._next_step}"
