"""Every exception that continuations raises, above the standard library only.

The class says whose move it is; the text says what happened, to which run and
wait, and what to do next. An error never carries a message of a conversation, an
argument of a call or a secret: its text may end in a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


class ContinuationsError(Exception):
    """Above all errors of this library.

    `run_id` and `wait_id` name what it happened to, where it happened to one.
    """

    def __init__(
        self, message: str, *, run_id: str | None = None, wait_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.wait_id = wait_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it be pickled: other processes raise it to their parents."""
        return _rebuild_error, (type(self), self.args, self.__dict__)


def _rebuild_error(
    kind: type[ContinuationsError], args: tuple[Any, ...], state: dict[str, Any]
) -> ContinuationsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


# What was asked for ---------------------------------------------------------


class RunNotFound(ContinuationsError):
    """The store holds no run of this id."""


class WaitNotFound(ContinuationsError):
    """No open or decided wait has this id; nothing was recorded."""


class InvalidId(ContinuationsError, ValueError):
    """A run id is 1 to 200 of `[A-Za-z0-9._-]`, the first one alphanumeric."""


class InvalidInput(ContinuationsError, ValueError):
    """What was given cannot start, stand in or be stored in a run."""


# The state of a run ---------------------------------------------------------


class RunExists(ContinuationsError):
    """A run of this id was started with another input."""


class RunErased(ContinuationsError):
    """The run was erased; its id is never used again."""


class RunBusy(ContinuationsError):
    """Another process holds the claim on the run, at the latest until `until`."""

    def __init__(self, message: str, *, run_id: str, until: datetime) -> None:
        super().__init__(message, run_id=run_id)
        self.until = until


class StaleRun(ContinuationsError):
    """Another process moved the run on; this one stopped and wrote nothing more."""


class ClockOff(ContinuationsError):
    """This machine's clock is too far from the store's to hold a claim."""


class Cancelled(ContinuationsError):
    """The run was cancelled, and the wait was closed with it."""


# Deciding -------------------------------------------------------------------


class AlreadyDecided(ContinuationsError):
    """Another decision stands; `decision` is the one that was recorded."""

    def __init__(
        self, message: str, *, run_id: str, wait_id: str, decision: object
    ) -> None:
        super().__init__(message, run_id=run_id, wait_id=wait_id)
        self.decision = decision


class DecisionRefused(ContinuationsError, ValueError):
    """The decision does not fit its wait; nothing was recorded, decide again."""


class WaitExpired(ContinuationsError):
    """The deadline of the wait has passed; the call does not run."""


# Moving a run on ------------------------------------------------------------


class ModelError(ContinuationsError):
    """The model gave no usable reply; the run stays resumable.

    `retryable` says whether the same request may do better later, `status` is the
    HTTP status where there was one. Without a store, `continuation` holds all that
    was done until then: resume it.
    """

    continuation: object = None

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        status: int | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.status = status
        self.retryable = retryable


class AgentChanged(ContinuationsError):
    """The code of a pending call is missing or means something else now.

    Nothing ran and nothing was written: the run resumes once compatible code is
    back, or it is cancelled.
    """


class TranscriptInvalid(ContinuationsError):
    """A list of messages that every provider would refuse; it was not sent."""


class IllegalTransition(ContinuationsError):
    """The table of a call's life has no such move: a fault in continuations."""


# Bytes and stores -----------------------------------------------------------


class FormatError(ContinuationsError, ValueError):
    """Bytes that are not a continuation of a format that this version reads."""


class Corrupt(FormatError):
    """Bytes of ours that were damaged or tampered with; they were left untouched."""


class StoreError(ContinuationsError):
    """The store did not do what was asked; what was committed before stands."""


class Inconclusive(StoreError):
    """A write whose reply was lost: it may have landed. Look before you repeat it."""


class StoreDenied(StoreError):
    """The store does not permit it, or cannot tell missing from not permitted."""


class StoreUnavailable(StoreError):
    """The store does not answer or has no room; try again later."""


class StoreUnsafe(StoreError):
    """The store does not honour put-if-absent; nothing may be kept in it."""
