"""Commands of an operator to one run: pause, unpause, and cancel one call.

They need no agents. The request is recorded first. Then this process changes the run,
unless another process works on it, or a worker died: then a worker does it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from continuations.core.changes.operator_changes import (
    find_open_calls,
    is_open_call,
    operator_waits,
    with_operator_requests,
)
from continuations.core.operator_request import OperatorRequest
from continuations.core.rows.decisions import PYTHON
from continuations.core.rows.event_matching import awaited_signals
from continuations.core.rows.run import ENDED_STATUSES
from continuations.engine.arrivals.arrival_reducer import with_signals
from continuations.engine.arrivals.readiness import is_runnable
from continuations.engine.journal.job_cancellation import jobs_to_cancel
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.requests.request_checks import (
    checked_person,
    event_name,
    optional_text,
)
from continuations.errors import InvalidInput, StaleRun, StoreDenied
from continuations.ledger.arrivals import run_signals
from continuations.ledger.arrivals.arrival_logs import REQUESTS, SIGNALS
from continuations.ledger.arrivals.arrivals import Arrivals
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.operator_request import OperatorAction
    from continuations.core.rows.decisions import Door
    from continuations.core.rows.event_matching import UntakenSignal
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion
    from continuations.wire.arrivals import Signal

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommands:
    """Pauses one run, unpauses it, cancels its calls, and drops its signals."""

    objects: Objects
    ports: Ports
    options: WorkerOptions
    run_id: str

    async def pause(
        self, *, reason: str | None, by: str | None, door: Door
    ) -> Continuation:
        """Record a pause, unless the run is paused; raises `InvalidInput` if ended."""
        reason, by = optional_text("reason", reason), checked_person("by", by)
        newest, after, number = await self._read("paused")
        if not after.is_suspended:
            number = await self._post("pause", number, door, by=by, reason=reason)
            return await self._applied("paused", number)
        return await self._apply_or_leave(newest)

    async def unpause(self, *, by: str | None, door: Door) -> Continuation:
        """Record the end of all waits for an operator, if there are any."""
        by = checked_person("by", by)
        newest, after, number = await self._read("unpaused")
        if operator_waits(after):
            number = await self._post("unpause", number, door, by=by)
            return await self._applied("unpaused", number)
        return await self._apply_or_leave(newest)

    async def cancel_call(
        self,
        call: str | Sequence[str],
        *,
        reason: str | None,
        by: str | None,
        door: Door,
    ) -> Continuation:
        """Record that a call is cancelled; raises `InvalidInput` if it is not open."""
        reason, by = optional_text("reason", reason), checked_person("by", by)
        _, after, number = await self._read("changed")
        found = find_open_calls(after, call)
        if len(found) != 1:
            which = found or [each for each in after.calls if is_open_call(after, each)]
            name = call if isinstance(call, str) else "/".join(map(str, call))
            why = "names several open calls" if found else "is not an open call"
            msg = (
                f"call {name[:80]!r} was not cancelled: it {why} of run {self.run_id}. "
                f"Nothing was recorded. Open calls: {', '.join(which) or 'none'}."
            )
            raise InvalidInput(msg, run_id=self.run_id)
        number = await self._post(
            "cancel", number, door, by=by, reason=reason, call_id=found[0]
        )
        return await self._applied("changed", number)

    async def signals(self) -> list[UntakenSignal]:
        """Return the signals that no wait has taken, without those to be dropped."""
        newest = await self._versions.load_newest()
        pending = await self._pending(newest)
        return await run_signals.list_untaken(self.objects, newest.state, pending)

    async def drop_signals(
        self, name: str | None, *, reason: str | None, by: str | None, door: Door
    ) -> int:
        """Record that signals are dropped; return their number, 0 without a record."""
        reason, by = optional_text("reason", reason), checked_person("by", by)
        name = None if name is None else event_name(name)
        newest, _, number = await self._read("changed")
        pending = await self._pending(newest)
        found = await run_signals.list_untaken(self.objects, newest.state, pending)
        numbers = [each.number for each in found if name in (None, each.name)]
        if numbers:
            number = await self._post(
                "drop",
                number,
                door,
                by=by,
                reason=reason,
                signal_name=name,
                signal_number=max(numbers),
            )
            await self._applied("changed", number)
        return len(numbers)

    async def end_turn(
        self,
        action: Literal["stop", "interrupt"],
        message_number: int,
        *,
        reason: str | None,
        by: str | None,
        door: Door,
    ) -> Continuation:
        """Record that the turn of a thread ends, for a message that names it."""
        reason, by = optional_text("reason", reason), checked_person("by", by)
        newest, after, number = await self._read("changed")
        last = after.run.last_inbox_number
        if action == "interrupt" and after.run.rests and message_number <= last + 1:
            return Continuation(newest.state, newest.number)  # nothing to interrupt
        number = await self._post(
            action, number, door, by=by, reason=reason, message_number=message_number
        )
        return await self._applied("changed", number)

    async def tell_worker_of_cancellation(self) -> Continuation:
        """Tell the worker of a busy run that the run has a cancel request."""
        newest = await self._versions.load_newest()
        run = newest.state.run
        if run.status in ENDED_STATUSES or run.claim is None:
            return Continuation(newest.state, newest.number)
        pending = await self._pending(newest)
        if not any(each.action == "cancel" and not each.call_id for each in pending):
            number = run.last_operator_number + len(pending) + 1
            await self._post("cancel", number, PYTHON)
        newest = await self._versions.load_newest()
        return Continuation(newest.state, newest.number)

    @property
    def _versions(self) -> Versions:
        return Versions(self.objects, self.run_id)

    async def _read(self, participle: str) -> tuple[LoadedVersion, RunState, int]:
        """Return the newest version, its state after all requests, and a free number.

        Raises `InvalidInput` if the run has ended.
        """
        newest = await self._versions.load_newest()
        self._check_goes_on(newest.state, participle)
        pending = await self._pending(newest)
        number = newest.state.run.last_operator_number + len(pending) + 1
        taken = with_signals(newest.state, await self._dropped(newest.state, pending))
        return newest, with_operator_requests(taken, pending), number

    async def _dropped(
        self, state: RunState, requests: Sequence[OperatorRequest]
    ) -> tuple[Signal, ...]:
        """Return the new signals up to the last one that requests drop."""
        first = state.run.last_signal_number + 1
        last = max((each.signal_number for each in requests), default=0)
        numbers = range(first, last + 1)
        return tuple(await SIGNALS.read_all(self.objects, self.run_id, numbers))

    async def _pending(self, newest: LoadedVersion) -> tuple[OperatorRequest, ...]:
        last = newest.state.run.last_operator_number
        return await REQUESTS.read_from(self.objects, self.run_id, last + 1)

    def _check_goes_on(
        self, state: RunState, participle: str, number: int | None = None
    ) -> None:
        """Raise `InvalidInput` if the run ended before it took a request in."""
        run = state.run
        was_taken = number is not None and run.last_operator_number >= number
        if run.status in ENDED_STATUSES and not was_taken:
            msg = (
                f"run {self.run_id} was not {participle}: it is {run.status}. "
                "Start a new run."
            )
            raise InvalidInput(msg, run_id=self.run_id)

    async def _post(
        self,
        action: OperatorAction,
        number: int,
        door: Door,
        *,
        by: str | None = None,
        reason: str | None = None,
        **subject: Any,
    ) -> int:
        """Record a request; return its number, which may be a later one.

        `subject` has the attributes of what the request is about.
        """
        now = self.ports.clock.now()
        request = OperatorRequest(
            id=self.ports.ids.new_ulid(now),
            number=number,
            at=now,
            action=action,
            by=by,
            reason=reason,
            door=door.name,
            authentication=door.authentication,
            **subject,
        )
        posted = await REQUESTS.append(
            self.objects, self.run_id, request, number, nonce=request.id
        )
        return posted.number

    async def _applied(self, participle: str, number: int) -> Continuation:
        """Apply the recorded requests; raise `InvalidInput` if they came too late."""
        newest = await self._versions.load_newest()
        after = await self._apply_or_leave(newest)
        self._check_goes_on(after.run_state, participle, number)
        return after

    async def _apply_or_leave(self, newest: LoadedVersion) -> Continuation:
        while True:
            try:
                return await self._apply(newest)
            except StaleRun:
                newest = await self._versions.load_newest()
            except StoreDenied:
                # The request and its marker are stored: a worker takes it in.
                _log.info("run %s: a worker changes it, not this process", self.run_id)
                return Continuation(newest.state, newest.number)

    async def _apply(self, loaded: LoadedVersion) -> Continuation:
        """Apply the recorded requests; leave a claimed run to a worker.

        Raises `StaleRun` if another process wrote a version at the same time.
        """
        state = loaded.state
        unchanged = Continuation(state, loaded.number)
        if state.run.status in ENDED_STATUSES or state.run.claim is not None:
            return unchanged
        requests = await self._pending(loaded)
        if not requests:
            return unchanged
        signals = await self._dropped(state, requests)
        after = with_operator_requests(with_signals(state, signals), requests)
        ended = [wait for key, wait in state.waits.items() if key not in after.waits]
        if await jobs_to_cancel(self.objects, ended):
            return unchanged  # a worker calls `on_cancel`
        journal = StoreJournal(
            self.objects, self._versions, loaded, self.ports, lease=self.options.lease
        )
        await journal.ensure_guarded()
        ender = RunEnder(self.objects, self.ports)
        await ender.close_cancelled_waits(state, ended, requests)
        if is_runnable(after) or after.run.rests or awaited_signals(after):
            # Messages that stand behind the turn may have no marker of their own. The
            # markers of the signals that were taken in go.
            await journal.make_release_marker()
        await Publisher(self.objects, self.ports).commit_and_publish(
            journal,
            state,
            after,
            Arrivals(operator_requests=requests, signals=signals),
        )
        return Continuation(after, journal.version_number)
