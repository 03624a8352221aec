"""Requests to one run from outside: user messages, signals and cancellation.

They need no agents: a process that cannot resume a run can send to it and cancel it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from continuations.core.rows.decisions import Decision
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.engine.journal.job_cancellation import jobs_to_cancel
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.requests.operator_commands import OperatorCommands
from continuations.engine.requests.request_checks import (
    checked_person,
    event_name,
    json_text,
    optional_text,
)
from continuations.engine.requests.request_checks import own_id as checked_id
from continuations.engine.start.new_run import parse_user_message, store_attachments
from continuations.errors import InvalidInput, StaleRun, StoreDenied
from continuations.ledger import markers
from continuations.ledger.arrivals import inbox, run_signals
from continuations.ledger.arrivals.arrivals import Arrivals, read_cancel_request
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.arrivals import CancelRequest, InboxMessage, Signal
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from continuations.core.rows.decisions import Door
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.engine.start.new_run import UserText
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.objects import Objects


_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequests:
    """Sends messages to one run and cancels it."""

    objects: Objects
    ports: Ports
    options: WorkerOptions
    run_id: str

    @property
    def _versions(self) -> Versions:
        return Versions(self.objects, self.run_id)

    async def send(
        self, text: UserText, *, by: str | None, message_id: str | None
    ) -> int:
        """Append a user message to the inbox and return its number.

        Raises `InvalidInput` if the run has ended, and `InboxFull`. A repeat of a
        recorded message, by its id, is a success also after the end.
        """
        user_message, by = parse_user_message(text), checked_person("by", by)
        message_id = checked_id(message_id)
        own_id = None if message_id is None else f"{_OWN_ID}{message_id}"
        state = (await self._versions.load_newest()).state
        run = state.run
        _check_reads_messages(state)
        is_repeat = (
            run.status in ENDED_STATUSES
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
        last_read = run.last_inbox_number
        if not is_repeat:
            _check_accepts_message(run, 0)
            await store_attachments(
                self.objects,
                self._newest_run,
                text,
                partial(inbox.is_posted, self.objects, run.id, own_id)
                if own_id
                else None,
                partial(inbox.check_room, self.objects, run.id, message, last_read),
            )
        if own_id is None:
            posted = await inbox.post(self.objects, run.id, message, last_read)
        else:
            posted = await inbox.post_once(
                self.objects, run.id, message, last_read, ulid
            )
        _check_accepts_message(await self._newest_run(), posted.number)
        return posted.number

    async def _newest_run(self) -> RunRow:
        return (await self._versions.load_newest()).state.run

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
        checked_name, data_json = event_name(name), json_text(data)
        by, signal_id = checked_person("by", by), checked_id(signal_id)
        state = (await self._versions.load_newest()).state
        run = state.run
        now = self.ports.clock.now()
        ulid = self.ports.ids.new_ulid(now)
        signal = Signal(
            id=ulid if signal_id is None else f"{_OWN_ID}{signal_id}",
            number=0,
            at=now,
            name=checked_name,
            data=data_json,
            by=by,
            door=door.name,
            authentication=door.authentication,
        )
        if run.status in ENDED_STATUSES and signal_id is not None:
            repeated = await run_signals.find_repeat(self.objects, run.id, signal)
            if repeated is not None:
                return repeated.number
        _check_accepts_signal(run, 0)
        posted = await run_signals.post(
            self.objects, state, signal, nonce=ulid, may_repeat=signal_id is not None
        )
        run = (await self._versions.load_newest()).state.run
        _check_accepts_signal(run, posted.number)
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
        now = self.ports.clock.now()
        ulid = self.ports.ids.new_ulid(now)
        marker = markers.for_decision(wait.id, ulid)
        await markers.create(self.objects, marker)
        proposed = Decision(
            id=ulid,
            wait_id=wait.id,
            kind="expire",
            at=now,
            digest=wait.digest,
            by=by,
            marker=marker.key,
            door=door.name,
            authentication=door.authentication,
        )
        if (await record_decision(self.objects, proposed)).id != proposed.id:
            await self.objects.delete(marker.key)

    async def revoke(
        self, grant: str, *, by: str | None, reason: str | None, door: Door
    ) -> None:
        """Record the revocation of a grant; raises `InvalidInput` without a grant."""
        from continuations.ledger.decisions import grant_revocations  # noqa: PLC0415 - rarely needed
        from continuations.wire.arrivals import Revocation  # noqa: PLC0415

        grant_id = optional_text("grant", grant) or ""
        now = self.ports.clock.now()
        revocation = Revocation(
            id=self.ports.ids.new_ulid(now),
            number=0,
            at=now,
            grant=grant_id,
            by=checked_person("by", by),
            reason=optional_text("reason", reason),
            door=door.name,
            authentication=door.authentication,
        )
        await grant_revocations.post(self.objects, self.run_id, revocation)

    async def cancel(
        self, *, by: str | None, reason: str | None, door: Door
    ) -> Continuation:
        """Record a cancel request and end the run, unless another process holds it.

        A process that may not write versions only records the request.
        """
        by, reason = checked_person("by", by), optional_text("reason", reason)
        newest = await self._versions.load_newest()
        if newest.state.run.status in ENDED_STATUSES:
            return Continuation(newest.state, newest.number)
        now = self.ports.clock.now()
        request = CancelRequest(
            id=self.ports.ids.new_ulid(now),
            at=now,
            by=by,
            reason=reason,
            door=door.name,
            authentication=door.authentication,
        )
        await inbox.record_cancel_request(self.objects, self.run_id, request)
        while True:
            try:
                ended = await self.end_if_cancelled()
                if ended.status in ENDED_STATUSES:
                    return ended
                return await self._operator_commands.tell_worker_of_cancellation()
            except StaleRun:
                continue
            except StoreDenied:
                # The request and its marker are stored: a worker ends the run.
                _log.info("run %s: a worker ends it, not this process", self.run_id)
                return Continuation(newest.state, newest.number)

    @property
    def _operator_commands(self) -> OperatorCommands:
        return OperatorCommands(
            objects=self.objects,
            ports=self.ports,
            options=self.options,
            run_id=self.run_id,
        )

    async def end_if_cancelled(self) -> Continuation:
        """End the run if a cancel request is recorded and no claim lasts.

        Returns the newest state. Raises `StaleRun` if another process wrote a version
        at the same time.
        """
        loaded = await self._versions.load_newest()
        run = loaded.state.run
        busy = run.claim is not None and run.claim.until > self.ports.clock.now()
        if run.status in ENDED_STATUSES or busy:
            return Continuation(loaded.state, loaded.number)
        # Decisions are not read here: a damaged one must not keep the run alive.
        request = await read_cancel_request(self.objects, self.run_id)
        if request is None:
            return Continuation(loaded.state, loaded.number)
        if await jobs_to_cancel(self.objects, loaded.state.waits.values()):
            # A worker calls `on_cancel`, then ends the run.
            return Continuation(loaded.state, loaded.number)
        journal = StoreJournal(
            self.objects, self._versions, loaded, self.ports, lease=self.options.lease
        )
        await journal.ensure_guarded()
        ender = RunEnder(self.objects, self.ports)
        state = await ender.end_as_cancelled(loaded.state, request)
        await Publisher(self.objects, self.ports).commit_and_publish(
            journal, loaded.state, state, Arrivals(cancel_request=request)
        )
        return Continuation(state, journal.version_number)


# Ids of callers begin with this, so none is equal to an id that we made.
_OWN_ID = "id:"


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


def _check_accepts_message(run: RunRow, message_number: int) -> None:
    if run.status in ENDED_STATUSES and (
        message_number == 0 or run.last_inbox_number < message_number
    ):
        raise _ended_error(run, "messages")


def _check_accepts_signal(run: RunRow, signal_number: int) -> None:
    if run.status in ENDED_STATUSES and (
        signal_number == 0 or run.last_signal_number < signal_number
    ):
        raise _ended_error(run, "signals")


def _ended_error(run: RunRow, what: str) -> InvalidInput:
    msg = f"run {run.id} is {run.status} and does not accept {what}. Start a new run."
    return InvalidInput(msg, run_id=run.id)
