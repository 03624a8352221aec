"""The errors that a store may raise.

The class says what kind of failure it is and who can fix it. The text says what failed,
for which key, why, and what to do next. This module imports only the standard library.
"""

from __future__ import annotations

from typing import ClassVar, Literal

__all__ = [
    "AlreadyExists",
    "Damaged",
    "Denied",
    "Inconclusive",
    "InvalidKey",
    "NoTransaction",
    "NotFound",
    "OutOfTime",
    "StorageError",
    "Throttled",
    "Unavailable",
    "Unsafe",
    "Unsupported",
]


_PREDICATES = ("already ", "does ", "is ")
_MAX_SHOWN_CHARS = 120

Operation = Literal["create", "read", "list", "delete"]


def _shortened(key: str) -> str:
    return key if len(key) <= _MAX_SHOWN_CHARS else f"{key[: _MAX_SHOWN_CHARS - 1]}…"


class StorageError(Exception):
    """A store operation failed. Every error of this package is a subclass.

    The text is `<what failed>: <why> (<detail>). <what to do next>`. Errors survive
    pickling.

    Attributes:
        key: The key or prefix of the operation, or None if the error concerns the
            whole store.
        detail: The cause, for example the error code and message of the server.
        operation: The verb that failed, or None if the store does not say it.
        place: The bucket, prefix and endpoint, or "" if the store does not say it.
    """

    summary: ClassVar[str] = "the store operation failed"
    next_step: ClassVar[str] = "Check the store and try again."

    def __init__(
        self, key: str | None = None, detail: str = "", *, advice: str = ""
    ) -> None:
        """Make the error.

        Args:
            key: The key or prefix of the operation; None for the whole store.
            detail: The cause. It must not contain credentials or bodies.
            advice: The next step; by default that of the class.
        """
        # Pickling keeps args and the attributes.
        super().__init__(key, detail)
        self.key = key
        self.detail = detail
        self.operation: Operation | None = None
        self.place = ""
        self._advice = advice

    def locate(self, operation: Operation, place: str) -> None:
        """Add the operation and the place, unless the error has them already.

        Args:
            operation: The verb that failed.
            place: The bucket, prefix and endpoint. It must not contain credentials.
        """
        if self.operation is None:
            self.operation, self.place = operation, place

    def __str__(self) -> str:
        """Return what failed, for which key, why, and what to do next."""
        reason = f" ({self.detail})" if self.detail else ""
        advice = self._advice or self.next_step
        return f"{self._subject()} {self.summary}{reason}. {advice}"

    def _subject(self) -> str:
        place = f" in {self.place}" if self.place else ""
        key = "" if self.key is None else f"key {_shortened(self.key)!r}"
        # "key 'a' does not exist", but "cannot read key 'a': the store is …".
        if self.summary.startswith(_PREDICATES):
            return f"{key or 'store'}{place}"
        if self.operation is None:
            return f"{key or 'store'}:"
        if self.operation == "list":
            key = f"keys that begin with {_shortened(self.key)!r}" if self.key else ""
        return f"cannot {self.operation} {key or 'keys'}{place}:"


class AlreadyExists(StorageError):
    """Another create of the key came first; its body is kept."""

    summary = "already exists, nothing was written"
    next_step = "Read the key to see the body that was created first."


class NotFound(StorageError):
    """The key does not exist, and the store is sure about that."""

    summary = "does not exist"
    next_step = "List its prefix to see which keys exist."


class OutOfTime(StorageError):
    """The time of the store is not between the times of a commit."""

    summary = "the time of the store is another one, nothing was written"
    next_step = "Compare the clock of this machine with the clock of the store."


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
    """It is not known whether a create succeeded, for example after a lost reply."""

    summary = "the create is not confirmed, so the body may or may not be stored"
    next_step = "Read the key when the store is available again."


class Damaged(StorageError):
    """The store has the key but cannot return the whole body."""

    summary = "the stored object is damaged, it was not changed"
    next_step = "Check the disk or the bucket, and restore the object from a backup."


class Unsafe(StorageError):
    """The store does not keep the contract, so it must not be used."""

    summary = "the store does not keep the store contract"
    next_step = "Use another store; in this one, two processes could create one key."


class NoTransaction(StorageError, ValueError):
    """A connection is not in a transaction that could take a write."""

    def __init__(self, detail: str, advice: str) -> None:
        """Make the error.

        Args:
            detail: The cause.
            advice: The next step.
        """
        super().__init__(None, detail, advice=advice)
        self.args = (detail, advice)

    def __str__(self) -> str:
        """Return why nothing was written, and what to do next."""
        return f"connection cannot be used: {self.detail}. {self._advice}"


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
        "Use file:PATH, sqlite:PATH, memory:, memory:NAME, postgresql://HOST/DATABASE, "
        "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX."
    )

    def __init__(self, url: str, detail: str = "", next_step: str = "") -> None:
        """Make the error.

        Args:
            url: The URL that was given.
            detail: The cause.
            next_step: The advice of the text; by default, the valid URLs.
        """
        super().__init__(url, detail, advice=next_step or type(self).next_step)
        self.args = (url, detail, next_step)
        self.url = url

    def __str__(self) -> str:
        """Return the URL, why it cannot be opened, and what to do next."""
        return f"store {self.url!r} {self.summary}: {self.detail}. {self._advice}"
