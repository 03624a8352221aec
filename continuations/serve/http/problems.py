"""What is answered when something is wrong: problem details (RFC 9457).

One table says which error is whose fault. What is the caller's is told in full; what
is ours is told by an id, which the log has the rest to.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from continuations import errors
from continuations.core.decisions import Decision
from continuations.present.json_forms import decision_json
from continuations.serve.http.links import LinkInvalid
from continuations.serve.http.request_response import json_response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.serve.http.request_response import Response

TYPE_PREFIX = "urn:continuations:problem:"
SERVER_ERROR = 500  # from here on it is not the caller's fault
# How long to stay away from a store or a model that is down, in seconds.
_RETRY_AFTER_SECONDS = "5"

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What went wrong, for programs (`slug`, `status`) and for people."""

    status: int
    slug: str
    title: str
    detail: str | None = None
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def response(self) -> Response:
        """Return the problem as `application/problem+json`."""
        body: dict[str, Any] = {
            "type": TYPE_PREFIX + self.slug,
            "title": self.title,
            "status": self.status,
        }
        if self.detail is not None:
            body["detail"] = self.detail
        headers = {**self.headers, "content-type": "application/problem+json"}
        return json_response({**body, **self.members}, self.status, **headers)


class RequestRefused(Exception):
    """A request that is refused before anything was done; carries its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self.problem = problem


def malformed(detail: str) -> RequestRefused:
    """Return the refusal of a request that does not say what it should."""
    return RequestRefused(_request_problem("malformed", detail))


def method_not_allowed(methods: str) -> Problem:
    """Return the problem of a method that the path does not take."""
    return _request_problem("method-not-allowed", headers={"allow": methods})


def from_slug(slug: str) -> Problem:
    """Return one of the problems that need no more words."""
    return _request_problem(slug)


def too_large(max_bytes: int) -> Problem:
    """Return the problem of a body that is too long."""
    return _request_problem("too-large", f"A body has at most {max_bytes} bytes.")


def unsupported_media_type(expected: str) -> RequestRefused:
    """Return the refusal of a body of another type."""
    return RequestRefused(
        _request_problem("unsupported-media-type", f"Send it as {expected}.")
    )


# What has no error of its own below.
_REQUEST_PROBLEMS: Mapping[str, tuple[int, str]] = {
    "malformed": (400, "The request is malformed; nothing was done"),
    "unidentified": (401, "It is not known who asks"),
    "link-forbids": (403, "This link does not allow that answer"),
    "no-such-path": (404, "There is nothing at this path"),
    "method-not-allowed": (405, "The path does not take this method"),
    "too-large": (413, "The body is too long; nothing was done"),
    "unsupported-media-type": (415, "The body is of another type"),
    "internal": (500, "Something went wrong here"),
}

# An error that is not in it is that of its nearest parent.
_ERROR_PROBLEMS: Mapping[type[Exception], tuple[int, str, str]] = {
    errors.RunNotFound: (404, "run-not-found", "There is no such run"),
    errors.WaitNotFound: (404, "wait-not-found", "There is no such wait"),
    LinkInvalid: (404, "link-invalid", "This link is not valid"),
    errors.InvalidId: (400, "invalid-id", "This is no id of a run"),
    errors.InvalidInput: (400, "invalid-input", "This input cannot be taken"),
    errors.RunExists: (409, "run-exists", "The run exists, with another input"),
    errors.RunErased: (410, "run-erased", "The run was erased"),
    errors.RunBusy: (409, "run-busy", "Another process holds the run"),
    errors.StaleRun: (409, "stale-run", "Another process was quicker"),
    errors.Cancelled: (410, "cancelled", "The run was cancelled"),
    errors.AlreadyDecided: (409, "already-decided", "Another decision stands"),
    errors.DecisionRefused: (422, "decision-refused", "The decision does not fit"),
    errors.WaitExpired: (410, "wait-expired", "The deadline has passed"),
    errors.AgentChanged: (409, "agent-changed", "The code of a pending call changed"),
    errors.ModelError: (502, "model-error", "The model gave no usable reply"),
    errors.ClockOff: (503, "clock-off", "The clock of this machine is off"),
    errors.StoreUnavailable: (503, "store-unavailable", "The store does not answer"),
    errors.Inconclusive: (503, "inconclusive", "A write may or may not have landed"),
    errors.StoreError: (500, "store-error", "The store did not do what was asked"),
    errors.FormatError: (500, "unreadable", "What is stored cannot be read"),
}


def from_error(error: Exception, *, now: datetime, operation: str) -> Problem:
    """Return the problem of an error; one that is ours is logged, under its id.

    `doing` says what was asked for, without anything secret.
    """
    if isinstance(error, RequestRefused):
        return error.problem
    status, slug, title = _find_problem(type(error))
    if status >= SERVER_ERROR:
        return _server_problem(error, status, slug, title, operation)
    return Problem(
        status=status,
        slug=slug,
        title=title,
        detail=str(error),
        members=_members(error),
        headers=_headers(error, now),
    )


def recorded_decision(error: errors.AlreadyDecided) -> Decision:
    """Return the decision that stands."""
    decision = error.decision
    assert isinstance(decision, Decision)  # noqa: S101 - errors know no other room
    return decision


def _server_problem(
    error: Exception, status: int, slug: str, title: str, operation: str
) -> Problem:
    # Its text may name keys, buckets and machines: that is for the log.
    error_id = os.urandom(8).hex()
    _log.error("%s failed, error id %s", operation, error_id, exc_info=error)
    return Problem(
        status=status,
        slug=slug,
        title=title,
        detail=f"It was logged as error {error_id}. Trying again is harmless.",
        members={"error_id": error_id},
        headers={} if status == SERVER_ERROR else {"retry-after": _RETRY_AFTER_SECONDS},
    )


def _find_problem(error_type: type[Exception]) -> tuple[int, str, str]:
    for each in error_type.__mro__:
        if each in _ERROR_PROBLEMS:
            return _ERROR_PROBLEMS[each]
    status, title = _REQUEST_PROBLEMS["internal"]
    return status, "internal", title


def _members(error: Exception) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if isinstance(error, errors.ContinuationsError):
        named = {"run_id": error.run_id, "wait_id": error.wait_id}
        members |= {name: value for name, value in named.items() if value is not None}
    if isinstance(error, errors.AlreadyDecided):
        members["decision"] = decision_json(recorded_decision(error))
    if isinstance(error, errors.RunBusy):
        members["until"] = error.until.isoformat()
    return members


def _headers(error: Exception, now: datetime) -> dict[str, str]:
    if not isinstance(error, errors.RunBusy):
        return {}
    seconds = math.ceil((error.until - now).total_seconds())
    return {"retry-after": str(max(1, seconds))}


def _request_problem(
    slug: str, detail: str | None = None, headers: Mapping[str, str] | None = None
) -> Problem:
    status, title = _REQUEST_PROBLEMS[slug]
    return Problem(
        status=status, slug=slug, title=title, detail=detail, headers=headers or {}
    )
