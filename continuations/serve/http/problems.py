"""Error responses: problem details (RFC 9457).

A client error contains the text of the error. A server error contains only an error id:
its text may name keys, buckets and machines, so it goes to the log under that id.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from continuations import errors
from continuations.present.problems import (
    INTERNAL_ERROR,
    TYPE_PREFIX,
    ProblemType,
    find_problem_type,
)
from continuations.serve.http.links import CallbackInvalid, LinkInvalid
from continuations.serve.http.request_response import Response, json_response
from continuations.value_class import dataclass
from continuations.wire.report import to_json, utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping


SERVER_ERROR = 500
# How long a client waits before it asks again while a store or model is down, seconds.
_RETRY_AFTER_SECONDS = "5"

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error response.

    Attributes:
        type: The status, the name for programs and the title.
        detail: The text of the error, and what to do next.
        members: More members of the JSON object.
        headers: More headers of the response.
    """

    type: ProblemType
    detail: str | None = None
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def response(self) -> Response:
        """Return the problem as `application/problem+json`."""
        headers = {**self.headers, "content-type": "application/problem+json"}
        return json_response(self.body(), self.type.status, **headers)

    def body(self) -> dict[str, Any]:
        """Return the problem as JSON values (`problem`)."""
        body: dict[str, Any] = {
            "type": TYPE_PREFIX + self.type.slug,
            "title": self.type.title,
            "status": self.type.status,
        }
        if self.detail is not None:
            body["detail"] = self.detail
        return {**body, **self.members}


class RequestRefused(Exception):
    """A request was refused before it had any effect; contains its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.type.title)
        self.problem = problem


_UNIDENTIFIED_DETAIL = "Send credentials that the verifier of the application accepts."
# Most verifiers expect a bearer token (RFC 6750); others may ignore the challenge.
_CHALLENGE_HEADERS = {"www-authenticate": "Bearer"}


# The problems of requests. Errors of the SDK have theirs in `present.problems`.


def _refusal(
    status: int, slug: str, title: str, detail: str | None = None
) -> RequestRefused:
    return RequestRefused(Problem(type=ProblemType(status, slug, title), detail=detail))


def malformed(detail: str) -> RequestRefused:
    """Return the refusal of a malformed request."""
    return _refusal(400, "malformed", "The request is malformed", detail)


def unknown_cursor() -> RequestRefused:
    """Return the refusal of a sealed cursor that this process cannot read."""
    return malformed(
        "The place in the list is not known to this process. List again from the "
        "beginning. If several processes serve the list, give each the same secret."
    )


def unsupported_media_type(expected: str) -> RequestRefused:
    """Return the refusal of a body with another media type."""
    title = "The body has the wrong media type"
    detail = f"Send the body as {expected}."
    return _refusal(415, "unsupported-media-type", title, detail)


def no_such_message() -> RequestRefused:
    """Return the refusal for a thread without messages, or for an unknown number."""
    title = "The thread or message does not exist"
    detail = "Post a message first, and use the number of its response."
    return _refusal(404, "message-not-found", title, detail)


def no_such_file() -> RequestRefused:
    """Return the refusal for a digest that no attachment of the run has."""
    title = "The run has no such attachment"
    detail = "Use the digest of an attachment in a message of this run."
    return _refusal(404, "file-not-found", title, detail)


def link_forbids() -> RequestRefused:
    """Return the refusal of a decision that the signed link does not allow."""
    return _refusal(403, "link-forbids", "This link does not allow this decision")


def forbidden(act: str) -> RequestRefused:
    """Return the refusal of an act that the application does not allow to a person."""
    detail = (
        f'The application does not give you the right "{act}" here. Nothing was '
        "changed. Ask the person who administers it."
    )
    return _refusal(403, "forbidden", "You may not do this", detail)


def foreign_post() -> RequestRefused:
    """Return the refusal of a POST that may come from a page of another site."""
    title = "This request did not come from a page of this console"
    detail = (
        "Nothing was changed. Open the page again in this browser, and send its form "
        "from there."
    )
    return _refusal(403, "foreign-post", title, detail)


def too_many_streams(limit: int) -> RequestRefused:
    """Return the refusal of one more stream for a person who has many."""
    title = "Too many streams of events are open"
    detail = (
        f"A person has at most {limit} open streams in one process. Close a page. "
        "Pages without a stream show everything when they are loaded again."
    )
    return _refusal(429, "too-many-streams", title, detail)


def webhook_refused() -> RequestRefused:
    """Return the refusal of a webhook; one text for every reason."""
    title = "The signature of the webhook is not valid"
    detail = (
        "The webhook is unknown, its signature is not valid, or its time differs too "
        "much. Nothing was recorded. Check the secret and the clock of the sender."
    )
    return _refusal(401, "webhook-refused", title, detail)


def callback_too_late() -> RequestRefused:
    """Return the refusal of a result for a job that has another one.

    The holder of a callback URL may not read the recorded decision.
    """
    return _decided_before(
        "The job has another result already, which was not changed. Send no more."
    )


def decided_already() -> RequestRefused:
    """Return the refusal of a decision about a wait that has another one.

    A person who may not view the run may not read the recorded decision either.
    """
    return _decided_before(
        "The wait has a decision already, which was not changed. Ask a person who may "
        "view the run."
    )


def _decided_before(detail: str) -> RequestRefused:
    known = find_problem_type(errors.AlreadyDecided)
    return RequestRefused(Problem(type=known, detail=detail))


def unidentified(detail: str = _UNIDENTIFIED_DETAIL) -> Problem:
    """Return the problem of a request without a verified identity."""
    found = ProblemType(401, "unidentified", "The request has no valid identity")
    return Problem(type=found, detail=detail, headers=_CHALLENGE_HEADERS)


def no_such_path(detail: str = "/openapi.json describes all paths.") -> Problem:
    """Return the problem of an unknown path."""
    found = ProblemType(404, "no-such-path", "This path does not exist")
    return Problem(type=found, detail=detail)


def method_not_allowed(methods: str) -> Problem:
    """Return the problem of a method that the path does not support."""
    title = "The path does not support this method"
    return Problem(
        type=ProblemType(405, "method-not-allowed", title),
        detail=f"The path supports {methods}.",
        headers={"allow": methods},
    )


def too_large(max_bytes: int) -> Problem:
    """Return the problem of a body with more than `max_bytes` bytes."""
    detail = (
        f"The limit is {max_bytes} bytes (`max_body_bytes` of the server). Send a "
        "shorter body."
    )
    found = ProblemType(413, "too-large", "The body is too large")
    return Problem(type=found, detail=detail)


def from_error(
    error: Exception, operation: str, now: datetime | None = None
) -> Problem:
    """Return the problem of an error; log a server error under its error id.

    `operation` names the request for the log and contains no secret. `now` is the time
    of this machine by default.
    """
    if isinstance(error, RequestRefused):
        return error.problem
    if isinstance(error, LinkInvalid):
        found = ProblemType(404, "link-invalid", "This link is not valid")
        return Problem(type=found, detail=str(error))
    if isinstance(error, CallbackInvalid):
        found = ProblemType(404, "callback-invalid", "This callback URL is not valid")
        return Problem(type=found, detail=str(error))
    problem_type = find_problem_type(type(error))
    if problem_type.status >= SERVER_ERROR:
        return _server_problem(error, problem_type, operation)
    return Problem(
        type=problem_type,
        detail=str(error),
        members=_members(error),
        headers=_headers(error, now or datetime.now(UTC)),
    )


def _server_problem(
    error: Exception, problem_type: ProblemType, operation: str
) -> Problem:
    error_id = os.urandom(8).hex()
    _log.error("%s failed, error id %s", operation, error_id, exc_info=error)
    is_temporary = problem_type.status > INTERNAL_ERROR.status
    return Problem(
        type=problem_type,
        detail=f"The log has the details under error id {error_id}. The request may be "
        "sent again.",
        members={"error_id": error_id},
        headers={"retry-after": _RETRY_AFTER_SECONDS} if is_temporary else {},
    )


def _members(error: Exception) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if isinstance(error, errors.ContinuationsError):
        ids = {"run_id": error.run_id, "wait_id": error.wait_id}
        members |= {name: value for name, value in ids.items() if value is not None}
    if isinstance(error, errors.AlreadyDecided):
        members["decision"] = to_json(error.decision)
    if isinstance(error, errors.RunBusy):
        members["until"] = utc_text(error.until)
    return members


def _headers(error: Exception, now: datetime) -> dict[str, str]:
    if not isinstance(error, errors.RunBusy):
        return {}
    seconds = math.ceil((error.until - now).total_seconds())
    return {"retry-after": str(max(1, seconds))}
