"""The routes of the HTTP API: the paths of the operations, and their functions.

Deciding must stay cheap in a cold process, so everything else is imported when needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from continuations.core.rows.decisions import Decision
from continuations.ledger import layout
from continuations.present import json_forms
from continuations.serve.http import decision_bodies, request_fields
from continuations.serve.http.request_context import HTTP, RequestContext, RouteHandler
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.operations import OPERATIONS, THREADS, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Route:
    """One path and its operations.

    Attributes:
        path: The path, with parameters as `{name}`; a parameter is one path segment.
        operations: The operation of each HTTP method.
        is_public: The route needs no identity.
        is_html_page: Errors are pages, not problem details.
    """

    def __init__(self, path: str, operations: Sequence[Operation]) -> None:
        self.path = path
        self.operations = {each.method: each for each in operations}
        self.is_public = operations[0].is_public
        self.is_html_page = operations[0].is_html_page

    @property
    def methods(self) -> str:
        """The supported methods, as the header `Allow` lists them."""
        head = ["HEAD"] if "GET" in self.operations else []
        return ", ".join(sorted([*self.operations, *head, "OPTIONS"]))


def match_path(path: str, segments: Sequence[str]) -> dict[str, str] | None:
    """Return the parameters of a path, or `None` if the segments are not of this path.

    A parameter `{name}` is one segment that is not empty. A segment of a raw path may
    contain a slash.
    """
    own = path.split("/")
    if len(own) != len(segments):
        return None
    path_params: dict[str, str] = {}
    for name, segment in zip(own, segments, strict=True):
        if name.startswith("{") and segment:
            path_params[name[1:-1]] = segment
        elif name != segment:
            return None
    return path_params


def _routes() -> tuple[Route, ...]:
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    return tuple(Route(path, operations) for path, operations in by_path.items())


ROUTES = _routes()


def find_route(path: str, raw_path: str) -> tuple[Route, Mapping[str, str]] | None:
    """Return the route of a path and its parameters, or `None`.

    Args:
        path: The decoded path.
        raw_path: The percent-encoded path.
    """
    segments = path.split("/")
    if path.startswith(THREADS):
        try:
            segments = [unquote(s, errors="strict") for s in raw_path.split("/")]
        except UnicodeDecodeError:
            return None
    for route in ROUTES:
        path_params = match_path(route.path, segments)
        if path_params is not None:
            return route, path_params
    return None


def handler_of(operation: Operation) -> RouteHandler:
    """Return the function that answers requests for an operation."""
    own = {"decide": decide, "healthz": healthz}.get(operation.id)
    if own is not None:
        return own
    if operation.is_public:
        return _handler_with_secret(operation)
    if operation.call:
        return call_runner
    return _handler_in_module(operation)


def _handler_in_module(operation: Operation) -> RouteHandler:
    """Return a function from the only module that its request needs."""
    if operation.subject == "thread":
        from continuations.serve.http import thread_handlers  # noqa: PLC0415

        return thread_handlers.HANDLERS[operation.id]
    if operation.id == "downloadFile":
        from continuations.serve.http import file_routes  # noqa: PLC0415

        return file_routes.download
    if operation.method == "GET":
        from continuations.serve.http import reading_handlers  # noqa: PLC0415

        return reading_handlers.HANDLERS[operation.id]
    from continuations.serve.http import run_handlers  # noqa: PLC0415

    return run_handlers.HANDLERS[operation.id]


def _handler_with_secret(operation: Operation) -> RouteHandler:
    """Return the function for a path whose token or signature is the identity."""
    if operation.is_html_page:
        from continuations.serve.http import link_pages  # noqa: PLC0415 - only of links

        return link_pages.show if operation.method == "GET" else link_pages.decide
    from continuations.serve.http import callbacks  # noqa: PLC0415 - rarely used

    return callbacks.HANDLERS[operation.id]


async def decide(context: RequestContext) -> Response:
    """Record a decision, then give the run to the dispatcher.

    After a vote, the wait may still be open. Then no run is resumed.
    """
    wait_id = context.path_params["wait_id"]
    posted = decision_bodies.decision_from_json(context.request, context.identity)
    result = await context.runner.decide(
        wait_id, posted.verdict, shown=posted.shown, door=HTTP
    )
    decided = isinstance(result, Decision)
    woken = decided and await context.wake(layout.parse_wait_id(wait_id).run_id)
    return json_response(json_forms.decide_json(result, woken=woken))


async def healthz(_: RequestContext) -> Response:
    """Report that this process answers; the store is not used."""
    return json_response({"status": "ok"})


async def call_runner(context: RequestContext) -> Response:
    """Answer a request for an operation that is one call of the runner."""
    # Not to decide.
    from continuations.serve.operation_calls import (  # noqa: PLC0415
        FORMS,
        Sender,
        arguments_of,
        goes_on,
        plain_form,
    )

    operation = context.operation
    given = {**context.path_params, **_fields(context)}
    run_id: str = given["run_id"]
    sender = Sender(context.identity, HTTP)
    values, named = arguments_of(operation, given, sender)
    result = await getattr(context.runner, operation.call)(*values, **named)
    woken: dict[str, bool] = {}
    if operation.wakes:
        woken["woken"] = goes_on(result) and await context.wake(run_id)
    show_form = FORMS.get(operation.form, plain_form)
    shown = await show_form(context, run_id, result)
    # A run shows its status itself.
    return json_response(shown if operation.form == "run" else {**shown, **woken})


def _fields(context: RequestContext) -> Mapping[str, Any]:
    if not context.operation.body:
        return request_fields.query(context) if context.operation.query else {}
    fields = request_fields.body(context)
    if "files" not in fields:
        return fields
    own = {name: fields[name] for name in fields if name != "files"}
    return {**own, "text": request_fields.text_with_files(fields, fields["text"])}
