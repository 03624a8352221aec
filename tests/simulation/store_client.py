"""A simulated process's connection to the store, with delays and faults."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from continuations_storage.contract import PAGE_SIZE, Changes, Committed, Listing, Page
from continuations_storage.errors import (
    Inconclusive,
    StorageError,
    Throttled,
    Unavailable,
)
from continuations_storage.keys import check_key, check_prefix
from tests.simulation.fault_schedule import OperationPlan
from tests.simulation.processes import Process, ProcessKilled, wall_time
from tests.simulation.sim_environment import SimEnvironment
from tests.simulation.virtual_loop import NO_PROCESS
from tests.simulation.watches.actors import SimWatch

T = TypeVar("T")

# The age of the state that a stale listing of waits shows, in seconds.
LISTING_LAG = 8.0
# More store operations than any process needs: one that makes more is in a loop.
MAX_OPERATIONS = 20_000


# How often the steps after the creates of a commit fail.
_STEPS_FAIL = 0.1


class _Steps(NamedTuple):
    """The steps of the server after the creates of a commit, some seconds later."""

    finish: Callable[[Any], Committed]
    delay: float


def _unfinished(time: datetime) -> Committed:
    return Committed(store_time=time)


class StoreClient:
    """A process's connection to the store, with faults.

    A request that was sent reaches the store even if its process dies after that.
    """

    def __init__(self, environment: SimEnvironment, process: Process) -> None:
        self._environment = environment
        self._process = process
        self._sent = 0
        self.commit = self._commit if environment.has_commits else None
        self.keys_with_bodies = (
            self._keys_with_bodies if environment.has_commits else None
        )

    async def create(self, key: str, body: bytes) -> datetime | None:
        check_key(key)
        environment, process = self._environment, self._process
        maker = (process.name, self._sent)

        def apply() -> datetime:
            return environment.store.create(
                key, body, maker, environment.next_timestamp
            )

        created: datetime = await self._request("create", key, apply)
        return created

    async def _commit(self, changes: Changes) -> Committed:
        """Make several changes in one request; see `continuations_storage.Changes`.

        The server makes the steps after the creates later, or not at all. Requests of
        other processes may come in between.
        """
        store, process = self._environment.store, self._process
        maker = (process.name, self._sent)
        rng = random.Random(f"{self._environment.seed}/{maker}/steps")  # noqa: S311 - not for secrets

        def timestamp() -> float:
            return self._environment.next_timestamp

        def finish(time: datetime) -> Committed:
            page = None
            if changes.listing is not None:
                page = store.keys(
                    changes.listing.prefix, changes.listing.after, changes.listing.limit
                )
            is_cleaned = bool(changes.deletes) and store.is_first(
                changes.key, changes.only_if_first, maker
            )
            for key in changes.deletes if is_cleaned else ():
                store.delete(key, process.name, timestamp())
            return Committed(store_time=time, page=page, is_cleaned=is_cleaned)

        steps = _Steps(finish, rng.random() * self._environment.faults.latency)
        if rng.random() < _STEPS_FAIL:
            steps = _Steps(_unfinished, steps.delay)
        committed: Committed = await self._request(
            "create",
            changes.key,
            lambda: store.commit(changes, maker, timestamp),
            steps,
        )
        return committed

    async def read(self, key: str) -> bytes:
        store = self._environment.store
        body: bytes = await self._request("read", key, lambda: store.read(key))
        return body

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return a page of keys; a listing of waits may be stale."""
        check_prefix(prefix)
        self._note_listing(prefix, after)
        is_stale = (
            prefix == "waits/" and self._process.draw_fault("stale_listing") is not None
        )

        def apply() -> list[str]:
            if is_stale:
                return self._stale_page(after, limit)
            return self._page(prefix, after, limit)

        page: list[str] = await self._request("keys", prefix, apply)
        return page

    async def _keys_with_bodies(
        self, listing: Listing, first_of: str, last_of: str = ""
    ) -> Page:
        """Return a page of keys and two bodies."""
        self._note_listing(listing.prefix, listing.after)
        store = self._environment.store

        def apply() -> Page:
            page = Page(store.keys(listing.prefix, listing.after, listing.limit))
            if self._environment.listings_tell_time:
                page.store_time = wall_time(self._environment.next_timestamp)
            ends = store.keys(first_of, limit=1), last_of and store.keys(last_of)[-1:]
            page.bodies = {key: store.read(key) for end in ends for key in end}
            return page

        page: Page = await self._request("keys", listing.prefix, apply)
        return page

    def _note_listing(self, prefix: str, after: str) -> None:
        """Record a request that shows everything that arrived for a run."""
        if prefix == "markers/" and not after:
            listing = (self._process.name, self._process.awake_seconds)
            self._environment.marker_listings.append(listing)
        parts = prefix.split("/")
        if parts[0] == "runs" and parts[2:] in ([""], ["in", ""]) and not after:
            environment = self._environment
            environment.arrival_listings.append(
                (self._process.name, parts[1], environment.loop.time())
            )

    async def delete(self, key: str) -> None:
        environment, name = self._environment, self._process.name
        await self._request(
            "delete",
            key,
            lambda: environment.store.delete(key, name, environment.next_timestamp),
        )

    def watch(self, prefix: str) -> AbstractAsyncContextManager[SimWatch] | None:
        """Watch the creates of a prefix, in the schedules that have watches."""
        return self._watching(prefix) if self._environment.has_watches else None

    @asynccontextmanager
    async def _watching(self, prefix: str) -> AsyncGenerator[SimWatch]:
        watch = SimWatch(self._environment, self._process, prefix)
        on_create = self._environment.store.on_create
        on_create.append(watch.tell)
        try:
            yield watch
        finally:
            on_create.remove(watch.tell)

    async def probe(self) -> None:
        """Do nothing: this store keeps the contract."""

    # Requests ----------------------------------------------------------------------

    async def _request(
        self,
        verb: str,
        key: str,
        apply: Callable[[], Any],
        steps: _Steps | None = None,
    ) -> Any:
        environment, process = self._environment, self._process
        if environment.closed:
            raise ProcessKilled
        self._sent += 1
        if self._sent > MAX_OPERATIONS:
            msg = f"{process.name} made {MAX_OPERATIONS} store operations: a loop"
            environment.unexpected_errors.append(msg)
            raise ProcessKilled(msg)
        if environment.faults.stopped:
            value = self._apply(verb, key, apply)
            return value if steps is None else steps.finish(value)
        name = f"{process.name}/{self._sent}"
        plan = environment.faults.plan_operation(name, process.rng, verb)
        await self._inject_fault(plan, "before")
        if plan.kind == "refused":
            environment.log_event(process.name, verb, key, "refused")
            error_type = Throttled if plan.phase == "before" else Unavailable
            raise error_type(key, "simulated")
        reply: asyncio.Future[Any] = environment.loop.create_future()
        self._send(verb, key, apply, plan, reply, steps)
        await self._inject_fault(plan, "flight")
        value, error = await reply
        await self._inject_fault(plan, "after")
        if error is not None:
            raise error
        return value

    def _send(
        self,
        verb: str,
        key: str,
        apply: Callable[[], Any],
        plan: OperationPlan,
        reply: asyncio.Future[Any],
        steps: _Steps | None,
    ) -> None:
        loop, kind = self._environment.loop, plan.kind

        def arrive() -> None:
            value, error = self._reply_for(verb, key, apply, kind)
            if steps is None or value is None:
                return_later((value, error))
            else:
                loop.call_later(steps.delay, go_on, value, error, context=NO_PROCESS)
            if kind == "lost_reply":
                self._finish_alone(steps)

        def go_on(value: Any, error: Exception | None) -> None:
            assert steps is not None
            return_later((steps.finish(value), error))

        def return_later(outcome: tuple[Any, Exception | None]) -> None:
            if plan.reply_delay:
                loop.call_later(plan.reply_delay, answer, outcome, context=NO_PROCESS)
            else:
                answer(outcome)

        def answer(outcome: tuple[Any, Exception | None]) -> None:
            if not reply.done():
                reply.set_result(outcome)

        loop.call_later(plan.request_delay, arrive, context=NO_PROCESS)
        delay = {
            "late_request": plan.request_delay + plan.freeze_seconds / 4,
            "sent_twice": plan.request_delay + plan.reply_delay / 2,
        }.get(kind or "")
        if delay is not None:
            alone = (verb, key, apply, steps)
            loop.call_later(delay, self._arrive_alone, *alone, context=NO_PROCESS)

    def _arrive_alone(
        self, verb: str, key: str, apply: Callable[[], Any], steps: _Steps | None
    ) -> None:
        """Make a request whose reply no one gets."""
        self._apply_or_error(verb, key, apply)
        self._finish_alone(steps)

    def _finish_alone(self, steps: _Steps | None) -> None:
        if steps is not None:
            environment = self._environment
            now = wall_time(environment.next_timestamp)
            environment.loop.call_later(
                steps.delay, steps.finish, now, context=NO_PROCESS
            )

    def _reply_for(
        self, verb: str, key: str, apply: Callable[[], Any], kind: str | None
    ) -> tuple[Any, Exception | None]:
        if kind not in ("lost_request", "late_request"):
            value, error = self._apply_or_error(verb, key, apply)
            if kind != "lost_reply":
                return value, error
        else:
            value = None
        error_type = Inconclusive if verb == "create" else Unavailable
        return value, error_type(key, "simulated")

    def _apply_or_error(
        self, verb: str, key: str, apply: Callable[[], Any]
    ) -> tuple[Any, Exception | None]:
        try:
            return self._apply(verb, key, apply), None
        except StorageError as error:
            return None, error

    def _apply(self, verb: str, key: str, apply: Callable[[], T]) -> T:
        log_event, name = self._environment.log_event, self._process.name
        try:
            value = apply()
        except StorageError as error:
            log_event(name, verb, key, type(error).__name__)
            raise
        log_event(name, verb, key)
        return value

    async def _inject_fault(self, plan: OperationPlan, phase: str) -> None:
        if plan.phase != phase:
            return
        if plan.kind == "crash":
            await self._process.die_here()
        if plan.kind == "freeze":
            self._process.freeze(plan.freeze_seconds)
            await asyncio.sleep(0)

    def _page(self, prefix: str, after: str, limit: int) -> list[str]:
        keys = self._environment.store.keys(prefix, after, limit)
        if not self._environment.listings_tell_time:
            return keys
        page = Page(keys)
        page.store_time = wall_time(self._environment.next_timestamp)
        return page

    def _stale_page(self, after: str, limit: int) -> list[str]:
        """Return the keys of waits as they were some seconds ago."""
        keys = set(self._environment.store.keys("waits/"))
        since = self._environment.loop.time() - LISTING_LAG
        for change in reversed(self._environment.store.changes):
            if change.at < since:
                break
            if change.key.startswith("waits/"):
                (keys.discard if change.verb == "create" else keys.add)(change.key)
        return sorted(key for key in keys if key > after)[:limit]
