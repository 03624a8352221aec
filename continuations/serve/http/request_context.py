"""The sender of a request, and one request of the HTTP API for its handler."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from asyncio import Semaphore, gather
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from continuations.core.rows.decisions import Door
from continuations.errors import RunBusy, StaleRun
from continuations.serve.http import problems
from continuations.serve.rights import Act, Rights, name_of
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from continuations.core.identity import Identity
    from continuations.core.messages import Detail
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.cursors import Cursors, ListPage
    from continuations.serve.http.links import Links
    from continuations.serve.http.request_response import Request, Response
    from continuations.serve.http.webhook_receiver import WebhookReceiver
    from continuations.serve.operations import Operation

RouteHandler: TypeAlias = "Callable[[RequestContext], Awaitable[Response]]"
"""Answers a request for an operation."""


class OfRun(Protocol):
    """A row of a list that belongs to a run."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...


Row = TypeVar("Row", bound=OfRun)

_log = logging.getLogger("continuations")
# The door of a request whose sender the verifier knows.
HTTP = Door("http", "verifier")
# How many runs one request wakes, and how many at a time.
MAX_WOKEN_RUNS = 100
_PARALLEL_WAKES = 10


class Caller(ABC):
    """The sender of a request, and what the application allows.

    A request of the HTTP API is one, and a page of the console.

    Attributes:
        runner: The runner.
        dispatcher: Resumes runs, if there is one.
        cursors: Returns what seals and reads the cursors of lists.
    """

    __slots__ = ()
    runner: AsyncRunner
    dispatcher: Dispatcher | None
    cursors: Callable[[], Cursors]

    @abstractmethod
    async def may(self, act: Act, run_id: str | None) -> bool:
        """Return whether the sender may do something with a run."""

    async def may_all(self, act: Act, run_ids: Iterable[str | None]) -> bool:
        """Return whether the sender may do something with each of some runs."""
        for run_id in dict.fromkeys(run_ids):
            if not await self.may(act, run_id):
                return False
        return True

    async def require(self, act: Act, run_id: str | None) -> None:
        """Refuse the request with status 403 unless the sender may do something."""
        if not await self.may(act, run_id):
            raise problems.forbidden(act)

    async def detail(self, run_id: str) -> Detail:
        """Return which texts of a run the sender may read."""
        return "transcript" if await self.may("read", run_id) else "states"

    async def read_list(
        self,
        items: AsyncIterator[Row],
        *,
        limit: int,
        max_read: int | None = None,
        cursor_of: Callable[[Row], str],
    ) -> ListPage[Row]:
        """Read a page of a list whose rows have a run that the sender may view.

        Args:
            items: The rows after the cursor of the page.
            limit: The largest number of rows of the page.
            max_read: The largest number of rows that are read; at least `limit` are.
                Default: `cursors.MAX_READ`.
            cursor_of: Returns the cursor of a row.
        """
        from continuations.serve.http import cursors  # noqa: PLC0415 - not to decide

        most = max(limit, cursors.MAX_READ if max_read is None else max_read)
        rows: list[Row] = []
        cursor, read, was_shown = "", 0, True
        async for item in items:
            if len(rows) == limit or read == most:
                following = cursor if was_shown else self.cursors().seal(cursor)
                return cursors.ListPage(rows=tuple(rows), next=following)
            cursor, read = cursor_of(item), read + 1
            was_shown = await self.may("view", item.run_id)
            if was_shown:
                rows.append(item)
        return cursors.ListPage(rows=tuple(rows), next=None)

    async def wake(self, run_id: str) -> bool:
        """Give a run to the dispatcher; return whether that worked; see `wake_run`."""
        return await wake_run(self.dispatcher, run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext(Caller):
    """One request and everything that its handler needs.

    Attributes:
        operation: The operation that the request asks for.
        request: The request.
        path_params: The values of the route's path parameters.
        identity: The verified identity; an empty text on a public route.
        runner: The runner.
        links: Reads signed links, if the API has any.
        webhooks: The receivers of webhooks by name.
        dispatcher: Resumes runs, if the API has one.
        clock: The clock for deadlines.
        cursors: Returns what seals and reads the cursors of lists.
        rights: The application's rights; `None`: every identity may do everything.
    """

    operation: Operation
    request: Request
    path_params: Mapping[str, str]
    identity: str | Identity
    runner: AsyncRunner
    links: Links | None
    webhooks: Mapping[str, WebhookReceiver]
    dispatcher: Dispatcher | None
    clock: Clock
    cursors: Callable[[], Cursors]
    rights: Rights | None = None

    async def may(self, act: Act, run_id: str | None) -> bool:
        """Return whether the identity may do something with a run."""
        if self.rights is None:
            return True
        return await self.rights.allow(self.identity, act, run_id)

    @property
    def identity_name(self) -> str:
        """The name of the verified identity; empty on a public route."""
        return name_of(self.identity)

    async def wake_all(self, run_ids: Sequence[str]) -> list[str]:
        """Give runs to the dispatcher, some at a time; return those that it took.

        At most `MAX_WOKEN_RUNS` are given, so that the client gets its response. The
        next sweep resumes the others.
        """
        free_slots = Semaphore(_PARALLEL_WAKES)

        async def wake(run_id: str) -> bool:
            async with free_slots:
                return await self.wake(run_id)

        chosen = run_ids[:MAX_WOKEN_RUNS] if self.dispatcher is not None else ()
        woken = await gather(*map(wake, chosen))
        return [run_id for run_id, done in zip(chosen, woken, strict=True) if done]


async def wake_run(dispatcher: Dispatcher | None, run_id: str) -> bool:
    """Give a run to the dispatcher; return whether that worked.

    The decision is recorded in any case. A failure is logged, and the next sweep
    resumes the run.
    """
    if dispatcher is None:
        return False
    try:
        await dispatcher.wake(run_id)
    except (RunBusy, StaleRun):
        # The worker that holds the run reads new decisions before it stops.
        return False
    except Exception:  # noqa: BLE001 - a recorded decision is never an error
        text = "run %s is decided but was not resumed; the next sweep resumes it"
        _log.warning(text, run_id, exc_info=True)
        return False
    return True
