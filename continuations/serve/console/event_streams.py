"""The server-sent events of one viewer: of the open waits, or of one run.

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

from continuations.ledger import layout
from continuations.serve.console.live_runs import Changed, Words
from continuations.serve.http import problems
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from continuations.core.identity import Identity
    from continuations.serve.console.console import Console
    from continuations.serve.console.live_runs import RunNews
    from continuations.serve.http.request_response import Request
    from continuations.serve.rights import Act

# Seconds after which the rights are checked again: while nothing happens, and while
# words are sent. Any other event is checked itself.
IDLE_SECONDS, WORDS_SECONDS = 15.0, 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageEvent:
    """One server-sent event of a page.

    Attributes:
        name: The name of the event.
        id: The cursor, "" for an event without one.
        data: The content, as JSON text or "".
    """

    name: str
    id: str = ""
    data: str = ""


async def open_stream(
    console: Console, request: Request, person: Identity
) -> AsyncGenerator[PageEvent]:
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
    request: Request
    person: Identity
    run_id: str | None

    @property
    def after(self) -> str:
        """The cursor that the viewer has."""
        request = self.request
        return request.headers.get("last-event-id") or request.query.get("after", "")

    def changes(self) -> AsyncGenerator[str | RunNews]:
        """Return the changes, for as long as the viewer stays."""
        live = self.console.live
        if self.run_id is None and self.console.rights.are_limited:
            return live.waits.changes_of(self.sees)
        if self.run_id is None:
            return live.waits.changes(self.after)
        return live.runs.changes(self.run_id, self.after)

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


async def _events(viewer: _Viewer) -> AsyncGenerator[PageEvent]:
    streams = viewer.console.streams
    if streams.is_full(viewer.person):
        return  # others were opened since
    with streams.opened(viewer.person):
        async with aclosing(_checked_events(viewer)) as events:
            async for event in events:
                yield event


async def _checked_events(viewer: _Viewer) -> AsyncGenerator[PageEvent]:
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
                yield _event(news)


def _event(news: str | RunNews) -> PageEvent:
    if isinstance(news, str):
        return PageEvent("waits", news)
    if isinstance(news, Changed):
        return PageEvent("run", news.cursor)
    if isinstance(news, Words):
        return PageEvent("words", data=json.dumps(news.json()))
    return PageEvent("gone")


async def with_ticks(
    items: AsyncGenerator[T], seconds: float
) -> AsyncGenerator[T | None]:
    """Yield items, and `None` whenever there was none for so many seconds."""
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
