"""The desk: where waits are shown and decided over HTTP, whatever carries the HTTP.

    desk = Desk(AsyncRunner(agents, store="s3://bucket/runs"), verify=who_asks)
    response = await desk.answer(request)

It is closed by default: without a verifier nothing is answered but `/healthz` and
signed links, which carry a right of their own. It keeps nothing between two requests.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.engine.ports import SystemClock
from continuations.serve.http import problems
from continuations.serve.http.request_response import (
    NO_STORE_HEADERS,
    Request,
    Response,
)
from continuations.serve.http.routes import ROUTES, RequestContext, Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.engine.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.links import Links

__all__ = ["HttpApi", "Request", "Response", "Verifier"]

# Who asks, as a name that decisions are recorded under; `None` for a stranger.
Verifier: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]

MAX_BODY_BYTES = 1 << 20


class HttpApi:
    """Answers HTTP requests about the runs of a runner.

    `verify` tells who asks, from the raw request; what it returns is who decides. It
    may be async; if it raises, the request is not answered. Everybody whom it knows
    may ask everything: let it look at method and path where that is too much.
    One that trusts cookies must see to it that the request is no foreign page's.
    `links` makes signed links work. `dispatcher` is woken after a decision; without
    one the run moves on at the next resume or sweep. `prefix` is stripped from every
    path, where the door does not do that. `max_body_bytes` bounds a body, in bytes.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        *,
        verify: Verifier | None = None,
        links: Links | None = None,
        dispatcher: Dispatcher | None = None,
        prefix: str = "",
        max_body_bytes: int = MAX_BODY_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self.max_body_bytes = max_body_bytes
        self._runner = runner
        self._verify = verify
        self._links = links
        self._dispatcher = dispatcher
        self._prefix = prefix.rstrip("/")
        self._clock = clock or SystemClock()

    async def handle(self, request: Request) -> Response:
        """Answer a request; raises nothing but what ends the process or the task.

        The body of an answer to HEAD is empty.
        """
        response = await self._respond(request)
        return replace(response, body="") if request.method == "HEAD" else response

    async def _respond(self, request: Request) -> Response:
        found = self._find_route(request.path)
        if found is None:
            return problems.no_such_path().response()
        route, names = found
        try:
            return await self._call_route(route, names, request)
        except Exception as error:  # noqa: BLE001 - a door tells every error its own way
            # Not the path itself: that of a link is a secret.
            doing = f"{request.method} {route.path}"
            problem = problems.from_error(error, now=self._clock.now(), operation=doing)
        return _problem_response(problem, route)

    async def _call_route(
        self, route: Route, names: Mapping[str, str], request: Request
    ) -> Response:
        if len(request.body) > self.max_body_bytes:
            return _problem_response(problems.too_large(self.max_body_bytes), route)
        by = "" if route.is_public else await self._identify(request)
        if by is None:
            return self._unidentified().response()
        if request.method == "OPTIONS":
            return Response(
                status=204, headers={**NO_STORE_HEADERS, "allow": route.methods}
            )
        # HEAD is answered as GET is (RFC 9110, section 9.3.2).
        method = "GET" if request.method == "HEAD" else request.method
        answer = route.handlers.get(method)
        if answer is None:
            return _problem_response(problems.method_not_allowed(route.methods), route)
        return await answer(
            RequestContext(
                request=request,
                path_params=names,
                by=by,
                runner=self._runner,
                links=self._links,
                dispatcher=self._dispatcher,
                clock=self._clock,
            )
        )

    def _unidentified(self) -> problems.Problem:
        if self._verify is not None:
            return problems.unidentified()
        return problems.unidentified(
            "This API has no verifier, so it refuses every request. Pass verify= to "
            "HttpApi."
        )

    async def _identify(self, request: Request) -> str | None:
        if self._verify is None:
            return None
        who: Any = self._verify(request)
        if inspect.isawaitable(who):
            who = await who
        if who is not None and type(who) is not str:
            # `True` would be a name that nobody has: a verifier says who, not whether.
            msg = f"verify returned a {type(who).__name__}, not a name or None"
            raise TypeError(msg)
        return who or None

    def _find_route(self, path: str) -> tuple[Route, Mapping[str, str]] | None:
        if not path.startswith(self._prefix):
            return None
        inside = path[len(self._prefix) :]
        for route in ROUTES:
            names = route.match(inside)
            if names is not None:
                return route, names
        return None


def _problem_response(problem: problems.Problem, route: Route) -> Response:
    if not route.is_html_page:
        return problem.response()
    from continuations.serve.http import pages  # noqa: PLC0415 - only people need them

    return pages.problem_page(problem)
