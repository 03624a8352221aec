"""Requests to one run from outside: messages, signals, cancellation, pauses.

They need no agents: a process that cannot resume a run can send to it and cancel it. A
request is recorded first. Then this process changes the run, unless another process
works on it, or a worker died: then a worker does it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Literal

from continuations.core.changes import operator_changes
from continuations.core.operator_request import OperatorRequest
from continuations.core.rows.decisions import PYTHON, Decision
from continuations.core.rows.event_matching import awaited_signals
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.engine.arrivals.arrival_reducer import with_signals
from continuations.engine.arrivals.readiness import is_runnable
from continuations.engine.journal.job_cancellation import jobs_to_cancel
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.requests import request_checks
from continuations.engine.requests.request_checks import checked_person, optional_text
from continuations.engine.start.new_run import parse_user_message
from continuations.errors import InvalidInput, StaleRun, StoreDenied
from continuations.ledger import markers
from continuations.ledger.arrivals import inbox, run_signals
from continuations.ledger.arrivals.arrival_logs import REQUESTS, SIGNALS
from continuations.ledger.arrivals.arrivals import Arrivals, read_cancel_request
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.arrivals import CancelRequest, InboxMessage, Signal
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from continuations.core.operator_request import OperatorAction
    from continuations.core.rows.decisions import Door
    from continuations.core.rows.event_matching import UntakenSignal
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.engine.start.new_run import UserText
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequests:
    """Sends to one run, cancels it or its calls, pauses it, and drops its signals."""

    objects: Objects
    ports: Ports
    options: WorkerOptions
    run_id: str

    @property
    def _versions(self) -> Versions:
        return Versions(self.objects, self.run_id)

    async def _newest_run(self) -> RunRow:
        return (await self._versions.load_newest()).state.run

    def _facts(self, by: str | None, door: Door) -> dict[str, Any]:
        """Return what every request has: an id, its time, who sent it, and how."""
        now = self.ports.clock.now()
        return {
            "id": self.ports.ids.new_ulid(now),
            "at": now,
            "by": by,
            "door": door.name,
            "authentication": door.authentication,
        }

    # Messages, signals, grants ------------------------------------------------

    async def send(
        self, text: UserText, *, by: str | None, message_id: str | None
    ) -> int:
        """Append a user message to the inbox and return its number.

        Raises `InvalidInput` if the run has ended, and `InboxFull`. A repeat of a
        recorded message, by its id, is a success also after the end.
        """
        user_message, by = parse_user_message(text), checked_person("by", by)
        own_id = own_id_of(message_id)
        state = (await self._versions.load_newest()).state
        run = state.run
        _check_reads_messages(state)
        is_repeat = (
            run.has_ended
            and own_id is not None
            and await inbox.has_id(self.objects, run.id, own_id)
        )
        now = self.ports.clock.now()
        ulid = self.ports.ids.new_ulid(now)
        message = InboxMessage(
            id=ulid if own_id is None else own_id,
            number=0,
            at=now,
            message=user_message,
            by=by,
        )
        post = MessagePost(self.objects, run.id, message, run.last_inbox_number)
        if not is_repeat:
            _check_accepts(run, "messages", 0, 0)
            await post.store_attachments(text, self._newest_run)
        posted = await post.post(ulid)
        run = await self._newest_run()
        _check_accepts(run, "messages", posted.number, run.last_inbox_number)
        return posted.number

    async def signal(
        self,
        name: str,
        data: object,
        *,
        by: str | None,
        signal_id: str | None,
        door: Door,
    ) -> int:
        """Record a signal and return its number.

        Raises `InvalidInput` if the run has ended, or keeps too many signals. A repeat
        of a recorded signal, by its id, is a success also after the end.
        """
        checked_name = request_checks.event_name(name)
        data_json = request_checks.json_text(data)
        by, own_id = checked_person("by", by), own_id_of(signal_id)
        state = (await self._versions.load_newest()).state
        run, facts = state.run, self._facts(by, door)
        ulid = facts["id"]
        facts["id"] = own_id or ulid
        signal = Signal(number=0, name=checked_name, data=data_json, **facts)
        if run.has_ended and own_id is not None:
            repeated = await run_signals.find_repeat(self.objects, run.id, signal)
            if repeated is not None:
                return repeated.number
        _check_accepts(run, "signals", 0, 0)
        posted = await run_signals.post(
            self.objects, state, signal, nonce=ulid, may_repeat=own_id is not None
        )
        run = await self._newest_run()
        _check_accepts(run, "signals", posted.number, run.last_signal_number)
        return posted.number

    async def wake(self, *, by: str | None, door: Door) -> int:
        """End the waits for models of the newest version; return their number.

        A wait stays if `wake` ended the one before it, and the clock has not come to
        its deadline: a limited model is asked early once in a period.
        """
        by = checked_person("by", by)
        state = (await self._versions.load_newest()).state
        waits = [wait for wait in state.waits.values() if _may_wake(state, wait)]
        await asyncio.gather(*(self._wake(wait, by, door) for wait in waits))
        return len(waits)

    async def _wake(self, wait: Wait, by: str | None, door: Door) -> None:
        """Record that the deadline of a wait has come, unless it is recorded already.

        The marker comes first, so a sweep asks the model also after a crash.
        """
        facts = self._facts(by, door)
        marker = markers.for_decision(wait.id, facts["id"])
        await markers.create(self.objects, marker)
        proposed = Decision(
            wait_id=wait.id,
            kind="expire",
            digest=wait.digest,
            marker=marker.key,
            **facts,
        )
        if (await record_decision(self.objects, proposed)).id != proposed.id:
            await self.objects.delete(marker.key)

    async def revoke(
        self, grant: str, *, by: str | None, reason: str | None, door: Door
    ) -> None:
        """Record the revocation of a grant; raises `InvalidInput` without a grant."""
        from continuations.ledger.decisions import run_grants  # noqa: PLC0415 - rarely needed
        from continuations.wire.arrivals import Revocation  # noqa: PLC0415

        grant_id = optional_text("grant", grant) or ""
        facts = self._facts(checked_person("by", by), door)
        reason = optional_text("reason", reason)
        revocation = Revocation(number=0, grant=grant_id, reason=reason, **facts)
        await run_grants.post(self.objects, self.run_id, revocation)

    # The end of a run ---------------------------------------------------------

    async def cancel(
        self, *, by: str | None, reason: str | None, door: Door
    ) -> Continuation:
        """Record a cancel request and end the run, unless another process holds it.

        A process that may not write versions only records the request.
        """
        by, reason = checked_person("by", by), optional_text("reason", reason)
        newest = await self._versions.load_newest()
        if newest.state.run.has_ended:
            return _as_continuation(newest)
        request = CancelRequest(reason=reason, **self._facts(by, door))
        await inbox.record_cancel_request(self.objects, self.run_id, request)
        while True:
            try:
                ended = await self.end_if_cancelled()
                if ended.status in ENDED_STATUSES:
                    return ended
                return await self._tell_worker_of_cancellation()
            except StaleRun:
                continue
            except StoreDenied:
                # The request and its marker are stored: a worker ends the run.
                _log.info("run %s: a worker ends it, not this process", self.run_id)
                return _as_continuation(newest)

    async def end_if_cancelled(self) -> Continuation:
        """End the run if a cancel request is recorded and no claim lasts.

        Returns the newest state. Raises `StaleRun` if another process wrote a version
        at the same time.
        """
        loaded = await self._versions.load_newest()
        run = loaded.state.run
        busy = run.claim is not None and run.claim.until > self.ports.clock.now()
        if run.has_ended or busy:
            return _as_continuation(loaded)
        # Decisions are not read here: a damaged one must not keep the run alive.
        request = await read_cancel_request(self.objects, self.run_id)
        if request is None:
            return _as_continuation(loaded)
        if await jobs_to_cancel(self.objects, loaded.state.waits.values()):
            # A worker calls `on_cancel`, then ends the run.
            return _as_continuation(loaded)

        async def end(ender: RunEnder) -> RunState:
            return await ender.end_as_cancelled(loaded.state, request)

        return await self._commit(loaded, end, Arrivals(cancel_request=request))

    async def _tell_worker_of_cancellation(self) -> Continuation:
        """Tell the worker of a busy run that the run has a cancel request."""
        newest = await self._versions.load_newest()
        run = newest.state.run
        if run.has_ended or run.claim is None:
            return _as_continuation(newest)
        pending = await self._pending(newest)
        if not any(each.action == "cancel" and not each.call_id for each in pending):
            number = run.last_operator_number + len(pending) + 1
            await self._post("cancel", number, PYTHON)
        return _as_continuation(await self._versions.load_newest())

    async def _commit(
        self,
        loaded: LoadedVersion,
        change: Callable[[RunEnder], Awaitable[RunState]],
        taken_in: Arrivals,
    ) -> Continuation:
        """Write the next version of a run on which no worker works.

        `change` closes waits and returns the state. Raises `StaleRun` if another
        process wrote a version at the same time.
        """
        journal = StoreJournal(
            self.objects, self._versions, loaded, self.ports, lease=self.options.lease
        )
        await journal.ensure_guarded()
        after = await change(RunEnder(self.objects, self.ports))
        goes_on = is_runnable(after) or after.run.rests or awaited_signals(after)
        if goes_on and not after.run.has_ended:
            # Messages that stand behind the turn may have no marker of their own. The
            # markers of the signals that were taken in go.
            await journal.make_release_marker()
        publisher = Publisher(self.objects, self.ports)
        await publisher.commit_and_publish(journal, loaded.state, after, taken_in)
        return Continuation(after, journal.version_number)

    # Requests of an operator --------------------------------------------------

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
        if operator_changes.operator_waits(after):
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
        found = operator_changes.find_open_calls(after, call)
        if len(found) != 1:
            is_open = operator_changes.is_open_call
            which = found or [each for each in after.calls if is_open(after, each)]
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
        name = None if name is None else request_checks.event_name(name)
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
            return _as_continuation(newest)  # nothing to interrupt
        number = await self._post(
            action, number, door, by=by, reason=reason, message_number=message_number
        )
        return await self._applied("changed", number)

    async def _read(self, participle: str) -> tuple[LoadedVersion, RunState, int]:
        """Return the newest version, its state after all requests, and a free number.

        Raises `InvalidInput` if the run has ended.
        """
        newest = await self._versions.load_newest()
        self._check_goes_on(newest.state, participle)
        pending = await self._pending(newest)
        number = newest.state.run.last_operator_number + len(pending) + 1
        taken = with_signals(newest.state, await self._dropped(newest.state, pending))
        after = operator_changes.with_operator_requests(taken, pending)
        return newest, after, number

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
        if run.has_ended and not was_taken:
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
        facts = {**self._facts(by, door), **subject}
        request = OperatorRequest(number=number, action=action, reason=reason, **facts)
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
                return _as_continuation(newest)

    async def _apply(self, loaded: LoadedVersion) -> Continuation:
        """Apply the recorded requests; leave a claimed run to a worker.

        Raises `StaleRun` if another process wrote a version at the same time.
        """
        state = loaded.state
        if state.run.has_ended or state.run.claim is not None:
            return _as_continuation(loaded)
        requests = await self._pending(loaded)
        if not requests:
            return _as_continuation(loaded)
        signals = await self._dropped(state, requests)
        taken = with_signals(state, signals)
        after = operator_changes.with_operator_requests(taken, requests)
        ended = state.waits_gone_in(after)
        if await jobs_to_cancel(self.objects, ended):
            return _as_continuation(loaded)  # a worker calls `on_cancel`

        async def close(ender: RunEnder) -> RunState:
            by_reason = operator_changes.cancelled_waits(state, ended, requests)
            await ender.close_cancelled_waits(state, by_reason)
            return after

        taken_in = Arrivals(operator_requests=requests, signals=signals)
        return await self._commit(loaded, close, taken_in)


def _as_continuation(loaded: LoadedVersion) -> Continuation:
    return Continuation(loaded.state, loaded.number)


# Ids of callers begin with this, so none is equal to an id that we made.
_OWN_ID = "id:"


def own_id_of(value: object) -> str | None:
    """Return the stored form of an id that a caller chose; raises `InvalidInput`."""
    checked = request_checks.own_id(value)
    return None if checked is None else f"{_OWN_ID}{checked}"


@dataclass(frozen=True, slots=True)
class MessagePost:
    """Posts one message to the inbox of a run, once if its sender chose its id.

    Attributes:
        last_read: Number of a message that exists for certain, or 0.
    """

    objects: Objects
    run_id: str
    message: InboxMessage
    last_read: int

    @property
    def has_own_id(self) -> bool:
        """Whether the sender chose the id, so that a repeat posts nothing."""
        return self.message.id.startswith(_OWN_ID)

    async def store_attachments(
        self, text: object, run_row: Callable[[], Awaitable[RunRow]]
    ) -> None:
        """Store the attachments of the message, before the message is posted.

        A repeat, or another message with its id, stores nothing: it would stay until
        the run is erased.

        Args:
            text: The message as the caller gave it.
            run_row: Reads the row of the run, if there is an attachment.

        Raises:
            InvalidInput: The run would have too many bytes.
            InboxFull: The run has too many unread messages.
        """
        if isinstance(text, str):
            return
        where = self.objects, self.run_id
        if self.has_own_id and await inbox.is_posted(*where, self.message.id):
            return
        from continuations.engine.start import input_parts  # noqa: PLC0415 - rarely needed
        from continuations.ledger.repair.run_files import RunFiles  # noqa: PLC0415

        contents = input_parts.contents_of(text)
        if contents:
            await inbox.check_room(*where, self.message, self.last_read)
            await RunFiles.of(self.objects, await run_row()).add(contents)

    async def post(self, nonce: str) -> InboxMessage:
        """Post the message; `nonce` is new random text, for an id of its sender."""
        place = self.objects, self.run_id, self.message, self.last_read
        if self.has_own_id:
            return await inbox.post_once(*place, nonce)
        return await inbox.post(*place)


def _may_wake(state: RunState, wait: Wait) -> bool:
    if not wait.rules.may_wake:
        return False
    # One early attempt in a period may fail. A poll without a reply does not count.
    return state.frames[wait.frame_id].woken_until is None


def _check_reads_messages(state: RunState) -> None:
    if state.frames[ROOT_FRAME_ID].step:
        run_id = state.run.id
        msg = (
            f"run {run_id} did not get the message: {state.run.agent} is a workflow, "
            "and its code reads no messages. Let it await wait_for(name), and call "
            f"signal({run_id!r}, name, data)."
        )
        raise InvalidInput(msg, run_id=run_id)


def _check_accepts(
    run: RunRow, what: Literal["messages", "signals"], number: int, last_taken: int
) -> None:
    """Raise `InvalidInput` if a run has ended before it took this number in.

    The number is 0 before the message or signal has one.
    """
    if run.has_ended and (number == 0 or last_taken < number):
        msg = (
            f"run {run.id} is {run.status} and does not accept {what}. Start a new run."
        )
        raise InvalidInput(msg, run_id=run.id)
