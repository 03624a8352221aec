"""Problem details (RFC 9457): one name, title and HTTP status for each error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations import errors
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPE_PREFIX = "urn:continuations:problem:"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem.

    Attributes:
        status: The HTTP status.
        slug: The name for programs: the last part of `type`.
        title: The name for people, the same for every problem of this type.
    """

    status: int
    slug: str
    title: str


INTERNAL_ERROR = ProblemType(500, "internal", "Internal error")

# An error that is not in the table has the problem type of its nearest base class.
_BY_ERROR: Mapping[type[Exception], ProblemType] = {
    errors.RunNotFound: ProblemType(404, "run-not-found", "Run not found"),
    errors.VersionNotFound: ProblemType(
        404, "version-not-found", "The run has no such version"
    ),
    errors.WaitNotFound: ProblemType(404, "wait-not-found", "Wait not found"),
    errors.InvalidId: ProblemType(400, "invalid-id", "Invalid run id"),
    errors.InvalidInput: ProblemType(400, "invalid-input", "Invalid input"),
    errors.AttachmentsTooLarge: ProblemType(
        413, "attachments-too-large", "The attachments of the run are too large"
    ),
    errors.RunExists: ProblemType(
        409, "run-exists", "The run exists with another input"
    ),
    errors.ThreadClosed: ProblemType(
        410, "thread-closed", "The thread was closed before the message"
    ),
    errors.InboxFull: ProblemType(
        429, "inbox-full", "The run has too many unread messages"
    ),
    errors.RunErased: ProblemType(410, "run-erased", "The run was erased"),
    errors.RunBusy: ProblemType(409, "run-busy", "Another process holds the run"),
    errors.StaleRun: ProblemType(
        409, "stale-run", "Another process advanced the run first"
    ),
    errors.Cancelled: ProblemType(410, "cancelled", "The wait was closed with its run"),
    errors.AlreadyDecided: ProblemType(
        409, "already-decided", "The wait was decided before"
    ),
    errors.DecisionRefused: ProblemType(
        422, "decision-refused", "The decision does not fit the wait"
    ),
    errors.WaitExpired: ProblemType(410, "wait-expired", "The deadline has passed"),
    errors.AgentChanged: ProblemType(
        409, "agent-changed", "The code of a pending call changed"
    ),
    errors.ToolsUnavailable: ProblemType(
        503, "tools-unavailable", "The tools of a source could not be listed"
    ),
    errors.ModelError: ProblemType(
        502, "model-error", "The model gave no usable reply"
    ),
    errors.ClockOff: ProblemType(
        503, "clock-off", "The clock of this machine is wrong"
    ),
    errors.StoreUnavailable: ProblemType(
        503, "store-unavailable", "The store is not available"
    ),
    errors.Inconclusive: ProblemType(
        503, "inconclusive", "A write may or may not have taken effect"
    ),
    errors.StoreError: ProblemType(500, "store-error", "The store failed"),
    errors.FormatError: ProblemType(
        500, "unreadable", "A stored object cannot be read"
    ),
}


def find_problem_type(error_type: type[BaseException]) -> ProblemType:
    """Return the problem type of an error's class, by default `INTERNAL_ERROR`."""
    for base in error_type.__mro__:
        if base in _BY_ERROR:
            return _BY_ERROR[base]
    return INTERNAL_ERROR
