"""The HTTP API, independent of the web framework or gateway that carries it.

    api = HttpApi(AsyncRunner(agents, store="s3://bucket/runs"), verify=verify)
    response = await api.handle(Request(method="GET", path="/waits", headers=headers))

`continuations.serve.http.asgi` serves it as an ASGI application, and
`continuations.serve.aws_lambda` behind a Function URL or API Gateway.

The API is closed by default. Without a verifier it answers only `/healthz` and signed
links, whose token proves the right to decide. It keeps no state between two requests.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from continuations.core import jsontext
from continuations.engine.ports import SystemClock
from continuations.errors import AlreadyDecided, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.objects import Objects, check_folder_exists
from continuations.serve import option_checks
from continuations.serve.http import problems, request_fields
from continuations.serve.http.links import Links
from continuations.serve.http.request_context import RequestContext, RouteHandler
from continuations.serve.http.request_response import (
    NO_STORE_HEADERS,
    Request,
    Response,
    json_response,
)
from continuations.serve.http.routes import Route, find_route, handler_of
from continuations.serve.rights import Act, Can, Rights
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.identity import Identity
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.cursors import Cursors
    from continuations.serve.http.webhook_receiver import WebhookReceiver
    from continuations.serve.operations import Subject

__all__ = ["MAX_BODY_BYTES", "HttpApi", "Request", "Response", "Verifier"]

Verifier: TypeAlias = Callable[
    [Request], "str | Identity | Awaitable[str | Identity | None] | None"
]
"""A function or coroutine function that returns who sends a request, or `None`.

Decisions are recorded under the name that it returns, with the groups of an `Identity`.
"""

MAX_BODY_BYTES = 1 << 20


async def identify(verify: Verifier | None, request: Request) -> str | Identity | None:
    """Return who sends a request.

    Args:
        verify: The verifier; `None` returns `None`.
        request: The request.

    Returns:
        The name or `Identity` that the verifier returned, or `None`. An empty name is
        `None` too.

    Raises:
        TypeError: The verifier returned something else.
    """
    if verify is None:
        return None
    known: Any = verify(request)
    if type(known) is not str and inspect.isawaitable(known):
        known = await known
    if known is None or type(known) is str:
        return known or None
    from continuations.core.identity import Identity  # noqa: PLC0415 - few need it

    if type(known) is not Identity:
        # `True` must not become a name: a verifier says who, not whether.
        raise TypeError(
            "verify must return a name, an Identity or None, got "
            f"{type(known).__name__}. Return the name of the identity."
        )
    return known


class HttpApi:
    """Answer HTTP requests about the runs of a runner.

    Args:
        runner: The runner whose runs are shown, decided, started and resumed.
        verify: Returns the identity of a request, a name or an `Identity` with groups;
            decisions are recorded under it. It may be async. `None` refuses the request
            with status 401; an exception gives status 500. A verifier that trusts
            cookies must also check that no other site sent the request.
        can: Returns whether an identity may do something with a run; see
            `continuations.serve.rights`. `None`: each identity may use every route.
        links: Makes signed links work; the same secret as the notifier's. With `can`,
            it also lets several processes read the cursors of one list.
        webhooks: Receivers of the webhooks of other systems, by the name in the path
            `/webhooks/{name}`.
        dispatcher: Resumes a run after a decision. Without one, the run goes on at the
            next `resume` or `sweep`.
        base_path: A path prefix that is removed from every request path, such as the
            base path of a custom domain. A path without the prefix is served as well:
            API Gateway serves one function under both.
        max_body_bytes: The maximum size of a request body, in bytes.
        clock: The clock for deadlines in responses; the system clock by default.

    Raises:
        InvalidInput: An option has a wrong type.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each option
        self,
        runner: AsyncRunner,
        *,
        verify: Verifier | None = None,
        can: Can | None = None,
        links: Links | None = None,
        webhooks: Mapping[str, WebhookReceiver] | None = None,
        dispatcher: Dispatcher | None = None,
        base_path: str = "",
        max_body_bytes: int = MAX_BODY_BYTES,
        clock: Clock | None = None,
    ) -> None:
        option_checks.check_async_runner(runner)
        option_checks.check_callable(
            "verify", verify, "a function that takes a Request"
        )
        option_checks.check_type("links", links, Links | None, "Links or None")
        expected = "a mapping of names to WebhookReceiver, or None"
        option_checks.check_type("webhooks", webhooks, Mapping | None, expected)
        if dispatcher is not None:
            option_checks.check_dispatcher("dispatcher", dispatcher)
        option_checks.check_type("base_path", base_path, str, "a text")
        option_checks.check_count("max_body_bytes", max_body_bytes)
        self.max_body_bytes = max_body_bytes
        # A console with a secret of its own sets it.
        self.cursor_secret: bytes | None = None
        self._runner = runner
        self._verify = verify
        self._rights = None if can is None else Rights(can)
        self._links = links
        self._webhooks = dict(webhooks or {})
        self._dispatcher = dispatcher
        self._base_path = f"/{base_path.strip('/')}".rstrip("/")
        self._clock = clock or SystemClock()

    async def handle(self, request: Request) -> Response:
        """Answer a request.

        An error is a response, never an exception: problem details (RFC 9457), or a
        page for a signed link. The response to HEAD has an empty body.

        Args:
            request: The request. Its path is decoded.

        Returns:
            The response.
        """
        path = self._path_below_base(request.path)
        raw_path = request.raw_path
        raw = quote(path) if raw_path is None else self._path_below_base(raw_path)
        found = find_route(path, raw)
        if found is None:
            return _without_body_for_head(request, problems.no_such_path().response())
        route, path_params = found
        return await self.handle_route(route, path_params, request)

    async def handle_route(
        self, route: Route, path_params: Mapping[str, str], request: Request
    ) -> Response:
        """Answer a request that a framework has routed already; see `handle`.

        Args:
            route: One of `continuations.serve.http.routes.ROUTES`.
            path_params: The values of the route's path parameters.
            request: The request.

        Returns:
            The response.
        """
        try:
            response = await self._call_handler(route, path_params, request)
        except Exception as error:  # noqa: BLE001 - every error is a response
            # The route's path, because the path of a signed link is a secret.
            operation = f"{request.method} {route.path}"
            problem = problems.from_error(error, operation, self._clock.now())
            response = _problem_response(problem, route)
        return _without_body_for_head(request, response)

    def refuse_large_body(self, route: Route) -> Response:
        """Return the response to a body with more than `max_body_bytes` bytes.

        Args:
            route: One of `continuations.serve.http.routes.ROUTES`.

        Returns:
            A problem with status 413, or a page for a signed link.
        """
        return _problem_response(problems.too_large(self.max_body_bytes), route)

    def cursors(self) -> Cursors:
        """Return the object that seals and reads the cursors of lists.

        Returns:
            The cursors of this API.
        """
        from continuations.serve.http.cursors import Cursors  # noqa: PLC0415 - not to decide

        return Cursors.of(self.cursor_secret, self._links, self._rights)

    async def _call_handler(
        self, route: Route, path_params: Mapping[str, str], request: Request
    ) -> Response:
        if len(request.body) > self.max_body_bytes:
            return self.refuse_large_body(route)
        identity = "" if route.is_public else await identify(self._verify, request)
        if identity is None:
            return self._unidentified().response()
        if request.method == "OPTIONS":
            headers = {**NO_STORE_HEADERS, "allow": route.methods}
            return Response(status=204, headers=headers)
        # HEAD is GET without the body (RFC 9110, section 9.3.2).
        method = "GET" if request.method == "HEAD" else request.method
        operation = route.operations.get(method)
        if operation is None:
            return _problem_response(problems.method_not_allowed(route.methods), route)
        if not operation.works_without_folder:
            check_folder_exists(self._runner.store)
        context = RequestContext(
            operation=operation,
            request=request,
            path_params=path_params,
            identity=identity,
            runner=self._runner,
            links=self._links,
            webhooks=self._webhooks,
            dispatcher=self._dispatcher,
            clock=self._clock,
            rights=self._rights,
            cursors=self.cursors,
        )
        handler = handler_of(operation)
        if self._rights is None or operation.is_public:
            return await handler(context)
        return await answer_by_rights(context, handler)

    def _unidentified(self) -> problems.Problem:
        if self._verify is not None:
            return problems.unidentified()
        return problems.unidentified(
            "This API has no verifier, so it refuses every request. Pass verify= to "
            "HttpApi."
        )

    def _path_below_base(self, path: str) -> str:
        if self._base_path and f"{path}/".startswith(f"{self._base_path}/"):
            return path[len(self._base_path) :] or "/"
        return path


def _without_body_for_head(request: Request, response: Response) -> Response:
    if request.method != "HEAD":
        return response
    return replace(response, body="", data=None)


def _problem_response(problem: problems.Problem, route: Route) -> Response:
    if not route.is_html_page:
        return problem.response()
    from continuations.serve.http import link_pages  # noqa: PLC0415 - only of links

    return link_pages.problem_page(problem)


# Rights --------------------------------------------------------------------------

_ACCEPTED = 202
# The sender may know these members of a response without the right to view the run.
_OWN_MEMBERS = ("run_id", "number")
_READING_ACTS: Sequence[Act] = ("view", "read")


async def answer_by_rights(context: RequestContext, handler: RouteHandler) -> Response:
    """Call the handler of a request whose sender has the right.

    The right is asked for the run that the operation concerns. Lists ask for each row
    instead: `waits`, `runs` and `drift` have the rows that the sender may view. A
    sender who may not view the run learns only that the request is recorded.

    Args:
        context: The request.
        handler: The handler of its operation.

    Returns:
        The response of the handler, or only that the request is recorded.

    Raises:
        RequestRefused: The sender lacks the right (status 403), or the body is invalid.
        ContinuationsError: The handler failed.
    """
    operation = context.operation
    if operation.right is None:
        return await handler(context)
    run_ids = await _require(context, operation.right)
    if not operation.hides_content:
        return await handler(context)
    # The words of a run while they are written are a part of its transcript.
    if context.request.wants_live_events and not (
        await context.may_all("view", run_ids)
        and await context.may_all("read", run_ids)
    ):
        request = replace(context.request, can_stream=False)
        context = replace(context, request=request)
    try:
        response = await handler(context)
    except AlreadyDecided:
        if await context.may_all("view", run_ids):
            raise
        raise problems.decided_already() from None
    if response.chunks is not None or await context.may_all("view", run_ids):
        return response
    body = json.loads(response.body)
    own = {name: body[name] for name in _OWN_MEMBERS if name in body}
    return json_response({**own, "recorded": True}, _ACCEPTED)


async def _require(context: RequestContext, right: Act) -> list[str | None]:
    """Refuse a request with status 403 unless its sender has the right.

    A request whose body names no run is left to its handler, which refuses it.
    """
    run_ids = await _run_ids(context, context.operation.subject)
    # The transcript is a part of the run.
    acts: Sequence[Act] = _READING_ACTS if right == "read" else (right,)
    for run_id in run_ids:
        for act in acts:
            await context.require(act, run_id)
    known = context.request.headers.get("last-event-id")
    if known is not None:
        # Stored events are sent, also those of an earlier run of a thread.
        earlier, _, _ = known.rpartition("/")
        run_ids = [*run_ids, *filter(None, [earlier])]
        for run_id in run_ids:
            await context.require("view", run_id)
    return run_ids


async def _run_ids(context: RequestContext, subject: Subject) -> list[str | None]:
    params = context.path_params
    if subject == "store":
        return [None]
    if subject == "run":
        return [params["run_id"]]
    if subject == "wait":
        return [layout.parse_wait_id(params["wait_id"]).run_id]
    if subject == "thread":
        return [*await _thread_run_ids(context)]
    fields = request_fields.parse_json_object(context.request)
    if subject == "body":
        run_id = fields.get("run_id")
        return [run_id] if isinstance(run_id, str) else []
    decisions = jsontext.as_array(fields.get("decisions")) or ()
    ids = [(jsontext.as_object(each) or {}).get("wait_id") for each in decisions]
    runs: set[str] = set()
    for wait_id in ids:
        with suppress(WaitNotFound):  # the result of this decision says so
            runs.add(layout.parse_wait_id(wait_id).run_id)
    return [*sorted(runs)]


async def _thread_run_ids(context: RequestContext) -> set[str]:
    """Return the newest run of a thread, or its first; and that of the query.

    Most routes use the newest run, whatever the query says.
    """
    agent, key = context.path_params["agent"], context.path_params["key"]
    from continuations.ledger.arrivals import thread_arrivals  # noqa: PLC0415 - not to decide

    objects = Objects(context.runner.store)
    newest = await thread_arrivals.newest_generation(objects, agent, key)
    run_id = newest.run_id or layout.thread_run_id(agent, key, 1)
    asked = context.request.query.get("run_id")
    return {run_id} if asked is None else {run_id, asked}
