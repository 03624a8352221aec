"""The console as a Starlette application, by itself or mounted in another one.

app = console.app(runner, verify=verify)                 # uvicorn module:app
fastapi_app.mount("/agents", console.app(runner, verify=verify))

It also sends the server-sent events of one viewer: of the open waits, or of one run.
An event of waits, and `run`, has the new cursor as its id and no content: the page then
loads its parts again, with the rights of its person. `words` has the words of a reply
that is being written. `gone` says that the store does not have the run any more.

The identity and the rights are checked again at least every 15 seconds, also while
nothing happens. A person who may not view the run any more gets no more events, and one
who may not read it gets no words.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request

from continuations.ledger import layout
from continuations.serve.console.console import Console, make_console
from continuations.serve.console.live import Away
from continuations.serve.console.live_pages import (
    EVENTS_PATH,
    LiveMode,
    open_place,
    seal_place,
)
from continuations.serve.console.live_runs import Changed, RunNews, Words
from continuations.serve.http import asgi, problems
from continuations.serve.http.api import HttpApi, Verifier
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response
    from starlette.types import Lifespan, Receive, Scope, Send

    from continuations.core.identity import Identity
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.console.identities import LocalIdentity
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.links import Links
    from continuations.serve.http.request_response import Request as PlainRequest
    from continuations.serve.rights import Act, Can

__all__ = ["app"]

_PING_SECONDS = 15

T = TypeVar("T")


def app(  # noqa: PLR0913 - one parameter for each option
    runner: AsyncRunner,
    *,
    verify: Verifier | LocalIdentity | None = None,
    can: Can | None = None,
    dispatcher: Dispatcher | None = None,
    links: Links | None = None,
    origin: str | None = None,
    secret: str | None = None,
    live: LiveMode = "events",
    clock: Clock | None = None,
    lifespan: Lifespan[Starlette] | None = None,
) -> Starlette:
    """Return a Starlette application that serves the console and the HTTP API.

    A path is a page for a browser, and JSON for a client that asks for JSON.

    Args:
        runner: The runner whose runs are shown. Only threads need its agents.
        verify: Returns the identity of a request, as for `HttpApi`, or one of the
            ready-made identities. `None` refuses every request.
        can: Returns whether an identity may do something with a run. `None`: each
            identity may do everything.
        dispatcher: Resumes a run after a decision, before the next sweep does.
        links: Makes signed links work; the same secret as the notifier's.
        origin: The public origin, such as `https://agents.example`, if a proxy changes
            the `Host` header. It also says that browsers come over TLS.
        secret: The secret of the forms of browsers that send no `Sec-Fetch-Site`, 32
            bytes or more, the same in all processes. By default a random one.
        live: `events`: open pages get server-sent events. `poll`, for servers without
            open connections: they ask every 10 seconds.
        clock: The clock for deadlines; the system clock by default.
        lifespan: Starlette's lifespan, for an application that is not mounted.

    Returns:
        The application, to be served by itself or mounted under any prefix.

    Raises:
        InvalidInput: An option is invalid.
    """
    api = HttpApi(
        runner,
        verify=verify,
        can=can,
        links=links,
        dispatcher=dispatcher,
        clock=clock,
    )
    console = make_console(
        runner,
        api,
        verify=verify,
        can=can,
        dispatcher=dispatcher,
        origin=origin,
        secret=secret,
        live=live,
        clock=clock,
    )
    return _application(console, lifespan)


def _application(console: Console, lifespan: Lifespan[Starlette] | None) -> Starlette:
    application = Starlette(lifespan=lifespan)
    application.router.redirect_slashes = False
    application.router.default = _Endpoint(console)
    # A server that stops calls `live.close()`, so that its streams end.
    application.state.live = console.live
    return application


class _Endpoint:
    """Answers all requests of a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await asgi.refuse_websocket(send)
            return
        starlette_request = Request(scope, receive)
        path = asgi.path_below_mount(scope)
        root: str = scope.get("root_path", "")
        if self._is_stream(path, starlette_request.method):
            request = asgi.plain_request(starlette_request, path, b"")
            stream = await self._events(request, root)
            await stream(scope, receive, send)
            return
        api = self._console.api
        try:
            body = await asgi.read_body(starlette_request, api.max_body_bytes)
        except ClientDisconnect:
            return
        request = asgi.plain_request(starlette_request, path, body or b"")
        if body is None:
            response = problems.too_large(api.max_body_bytes).response()
        else:
            response = await self._console.handle(request, root)
        outgoing = asgi.to_starlette(response, request.method)
        await outgoing(scope, receive, send)

    def _is_stream(self, path: str, method: str) -> bool:
        is_live = self._console.live.mode == "events"
        return is_live and path == EVENTS_PATH and method == "GET"

    async def _events(self, request: PlainRequest, root: str) -> Response:
        """Return the stream of changes for a known person."""
        console = self._console
        try:
            person = await console.identify(request)
            if person is None:
                refused = await console.handle(request, root)
                return asgi.to_starlette(refused, request.method)
            events = await open_stream(console, request, person)
        except Exception as error:  # noqa: BLE001 - every error is a page
            refused = console.error_response(request, root, error)
            return asgi.to_starlette(refused, request.method)
        return EventSourceResponse(
            events, headers=console.headers(request, {}), ping=_PING_SECONDS
        )


# Server-sent events of one viewer ---------------------------------------------------

# Seconds after which the rights are checked again: while nothing happens, and while
# words are sent. Any other event is checked itself.
IDLE_SECONDS, WORDS_SECONDS = 15.0, 5.0


async def open_stream(
    console: Console, request: PlainRequest, person: Identity
) -> AsyncGenerator[ServerSentEvent]:
    """Return the events of one viewer.

    Raises:
        RequestRefused: The person may not view the run, or has too many streams.
        InvalidId: The query names no run id.
    """
    console.streams.check(person)
    run_id = request.query.get("run") or None
    if run_id is not None:
        layout.check_run_id(run_id)
        if not await console.rights.allow(person, "view", run_id):
            raise problems.forbidden("view")
    return _events(_Viewer(console, request, person, run_id))


@dataclass(frozen=True, slots=True)
class _Viewer:
    """One open stream, and who reads it."""

    console: Console
    request: PlainRequest
    person: Identity
    run_id: str | None

    @property
    def after(self) -> str:
        """The cursor that the viewer has."""
        request = self.request
        return request.headers.get("last-event-id") or request.query.get("after", "")

    def changes(self) -> AsyncGenerator[str | RunNews]:
        """Return the changes, for as long as the viewer stays."""
        live, is_limited = self.console.live, self.console.rights.are_limited
        if self.run_id is not None:
            return live.runs.changes(self.run_id, self.after)
        is_of_runs = self.request.query.get("list") == "runs"
        if not (is_of_runs or is_limited):
            return live.waits.changes(self.after)
        log = live.waits.changed_runs if is_of_runs else live.waits.changed_waits
        after = open_place(self.console.api.cursors(), self.after)
        return live.waits.changes_of(log, after, self.sees if is_limited else None)

    def event(self, news: str | RunNews) -> ServerSentEvent:
        """Return the event of some news. Its id is the cursor, if it has one."""
        if isinstance(news, str):
            cursor = seal_place(self.console.api.cursors(), news)
            return ServerSentEvent("", event="waits", id=cursor)
        if isinstance(news, Away):
            since = "" if news.since is None else news.since.isoformat()
            return ServerSentEvent(since, event="away")
        if isinstance(news, Changed):
            return ServerSentEvent("", event="run", id=news.cursor)
        if isinstance(news, Words):
            return ServerSentEvent(json.dumps(news.json()), event="words")
        return ServerSentEvent("", event="gone")

    async def sees(self, run_id: str) -> bool:
        """Return whether the viewer may see a run."""
        return await self.console.rights.allow(self.person, "view", run_id)

    async def may(self, act: Act) -> bool:
        """Return whether the request still has its identity, and has a right."""
        now = await self.console.identify(self.request)
        if now is None or now.name != self.person.name:
            return False
        return self.run_id is None or await self.console.rights.allow(
            now, act, self.run_id
        )


async def _events(viewer: _Viewer) -> AsyncGenerator[ServerSentEvent]:
    streams = viewer.console.streams
    if streams.is_full(viewer.person):
        return  # others were opened since
    with streams.opened(viewer.person):
        async with aclosing(_checked_events(viewer)) as events:
            async for event in events:
                yield event


async def _checked_events(viewer: _Viewer) -> AsyncGenerator[ServerSentEvent]:
    loop = asyncio.get_running_loop()
    checked = loop.time()
    may_read: bool | None = None
    async with aclosing(with_ticks(viewer.changes(), IDLE_SECONDS)) as changes:
        async for news in changes:
            is_words = isinstance(news, Words)
            if not is_words or loop.time() - checked >= WORDS_SECONDS:
                if not await viewer.may("view"):
                    return
                checked, may_read = loop.time(), None
            if is_words and may_read is None:
                may_read = await viewer.may("read")
            if news is not None and (may_read or not is_words):
                yield viewer.event(news)


async def with_ticks(
    items: AsyncGenerator[T], seconds: float
) -> AsyncGenerator[T | None]:
    """Yield items, and `None` after so many seconds without an item."""
    next_item: asyncio.Task[T] | None = None
    try:
        while True:
            if next_item is None:
                next_item = asyncio.create_task(_next(items))
            done, _ = await asyncio.wait({next_item}, timeout=seconds)
            if not done:
                yield None
                continue
            try:
                item = next_item.result()
            except _End:
                return
            next_item = None
            yield item
    finally:
        if next_item is not None:
            next_item.cancel()
            await asyncio.wait({next_item})
        await items.aclose()


class _End(Exception):
    """There are no more items."""


async def _next(items: AsyncGenerator[T]) -> T:
    # A task cannot raise `StopAsyncIteration`.
    try:
        return await anext(items)
    except StopAsyncIteration:
        raise _End from None
