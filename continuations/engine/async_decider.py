"""The methods of AsyncRunner that need no agents: decide, inspect, send, cancel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from continuations.core.decisions import Decision
from continuations.core.doors import PYTHON, Door
from continuations.engine.async_catalog import AsyncCatalog
from continuations.engine.async_events import AsyncEvents
from continuations.engine.async_jobs import AsyncJobs
from continuations.engine.async_operator import AsyncOperator
from continuations.engine.batches import Flattened
from continuations.errors import InvalidInput
from continuations.ledger import decision_errors, decisions, layout, waits
from continuations.ledger.recorded_decisions import read_decision

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Collection,
        Mapping,
        Sequence,
    )
    from typing import Never

    from continuations.core.decisions import Verdict
    from continuations.core.identity import Identity
    from continuations.core.quorum import Vote
    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.new_run import UserText
    from continuations.ledger.decisions import DigestCheck
    from continuations.wire.continuation import Continuation

# A process that only decides should start fast: it imports neither the engine nor the
# agents. The methods that need more import it themselves.
# ruff: noqa: PLC0415

_TOO_MANY = (
    "decide was called with too many arguments: the id of a wait names its run. Write "
    "decide(wait_id, Approve(by=...))."
)


def _check_call(
    verdict: object, unexpected: Collection[object], unknown: Mapping[str, object]
) -> None:
    """Raise `InvalidInput` for arguments that belong elsewhere."""
    if unexpected or (isinstance(verdict, str) and "@" in verdict):
        raise InvalidInput(_TOO_MANY)
    for name in unknown:
        in_verdict = name in ("by", "reason", "arguments", "form", "remember")
        why = " beside the verdict" if in_verdict else ""
        example = f"Approve({name}=...)" if in_verdict else "Approve(by=...)"
        msg = f"decide has no option {name!r}{why}. Write decide(wait_id, {example})."
        raise InvalidInput(msg)


class AsyncDecider(AsyncCatalog, AsyncEvents, AsyncOperator, AsyncJobs):
    """Decides the waits of a store, looks at its runs, sends to them and cancels them.

    A process without the runs' agents can call every method of this class.
    """

    async def decide(
        self,
        wait_id: str,
        verdict: Verdict,
        *_unexpected: Never,
        shown: str | None = None,
        check_digest: DigestCheck | None = None,
        door: Door = PYTHON,
        **_unknown: Never,
    ) -> Decision | Vote:
        """Record the decision of a wait; the first decision wins.

        The run does not continue before the next `resume` or `sweep`. If several
        persons must agree, each verdict is a vote, and one `Deny` ends the wait. The
        first vote of a person counts. If the tool rejected the answer of a job, the id
        that the job knows stands for the wait that was opened again.

        Args:
            wait_id: Id of the wait.
            verdict: `Approve`, `Deny`, `Answer` or `Fail`.
            shown: The digest of the wait that the person saw (`Wait.digest`). If the
                wait has another one, nothing is recorded. `None`: not compared.
            check_digest: Called with the wait's digest before anything is recorded, to
                compare it in another way. Its exceptions are raised.
            door: The way by which the decision came, for the audit.

        Returns:
            The recorded decision, or the `Vote` if the wait is still open after it. A
            second, equal call returns the same.

        Raises:
            WaitNotFound: There is no such wait.
            DecisionRefused: The verdict is invalid for the wait, the person saw another
                wait, or may not decide it, or has voted otherwise. Nothing was
                recorded. Exceptions of the runner's `groups` function are raised as
                they are.
            AlreadyDecided: Another decision is recorded; the error contains it.
            WaitExpired: The deadline has passed.
            Cancelled: The run was cancelled, has failed or was repaired.
            StoreError: The store failed. Call again with the same verdict.
        """
        _check_call(verdict, _unexpected, _unknown)
        now = self._ports.clock.now()
        decide = partial(
            decisions.decide,
            self._objects,
            verdict=verdict,
            now=now,
            decision_id=self._ports.ids.new_ulid(now),
            check_digest=check_digest,
            shown=shown,
            door=door,
            groups_of=self._groups_function,
        )
        # A person who saw the digest of a wait decides no other wait.
        if check_digest is not None or shown is not None:
            return await decide(wait_id)
        return await self._for_newest_wait(wait_id, decide)

    def waiting(
        self,
        *,
        after: str = "",
        kinds: Collection[str] | None = None,
        approver: str | Identity | None = None,
    ) -> AsyncIterator[WaitSummary]:
        """Iterate over the open waits of all runs, sorted by id.

        Only keys are read. Waits of the kinds `timer`, `model` and `operator` have no
        object: if they are asked for, each run with a deadline is loaded, and for
        `operator` each live run. A pause is listed once a worker has read it. After a
        crash the list may be out of date until the next sweep; `decide` and `look` are
        always exact.
        A wait whose deadline has passed is listed as `expired` until a sweep records
        the expiry.

        With `approver`, the objects of the waits are read too, and the votes of waits
        that take votes. A wait is listed if the person is one of its approvers, or if
        it has none, and neither excludes the requester nor has a vote of the person.
        Waits whose deadline has passed are left out.

        Args:
            after: Return only waits after this wait id.
            kinds: Return only waits of these kinds. `None`: of the kinds that ask a
                person, which are `approval`, `question` and `unknown`.
            approver: Return only waits that this person may decide: a name or an
                `Identity`. The groups come from `Runner(groups=...)` and the
                `Identity`. Without both, no wait for a group is listed.

        Returns:
            An asynchronous iterator over a summary of each open wait.

        Raises:
            InvalidInput: `kinds` has an unknown kind, or `approver` is no name.
                Exceptions of the runner's `groups` function are raised as they are.
            Corrupt: With `approver`: a wait or a vote is damaged.
            StoreError: The store failed; raised during the iteration.
        """
        from continuations.ledger.store_clock import StoreClock

        clock = StoreClock(self._ports.clock)
        chosen = waits.wait_kinds(kinds)
        if approver is None:
            return Flattened(waits.list_open(self._objects, clock, after, chosen))
        from continuations.ledger.decidable_waits import Approver, list_decidable

        person = Approver.from_argument(approver, self._groups_function)
        listed = list_decidable(self._objects, clock, person, after, chosen)
        return Flattened(listed)

    def open_waits(
        self, *, after: str = "", kinds: Collection[str] | None = None
    ) -> AsyncIterator[Wait]:
        """Iterate over the open waits of all runs, with arguments and all other fields.

        The objects of the waits are read in parallel: one request for each wait.
        `waiting` needs one request for a thousand waits. After a crash, a decided wait
        may be listed until the next sweep, also of a finished run. After an escalation,
        a wait has the approvers and the deadline with which it was opened. `decide`
        and `wait` are always exact.

        Args:
            after: Return only waits after this wait id.
            kinds: Return only waits of these kinds. `None`: of the kinds that ask a
                person, which are `approval`, `question` and `unknown`.

        Returns:
            An asynchronous iterator over the waits, sorted by id.

        Raises:
            InvalidInput: `kinds` has an unknown kind.
            StoreError: The store failed; raised during the iteration.
            Corrupt: A wait is damaged; `waiting` and `wait` show the others.
        """
        return waits.read_open(self._objects, after, waits.wait_kinds(kinds))

    async def wait(self, wait_id: str) -> Wait:
        """Return an open wait, with everything that a decider needs.

        A wait whose deadline has passed is returned until its expiry is recorded. If a
        wait can have votes, or a later deadline, they are read too.

        Args:
            wait_id: Id of the wait.

        Returns:
            The wait, with its arguments, schema, deadline, note and votes.

        Raises:
            WaitNotFound: There is no such wait.
            AlreadyDecided: The wait is decided; the error contains the decision.
            WaitExpired: The wait has expired.
            Cancelled: The run was cancelled, has failed or was repaired.
            StoreError: The store failed.
        """
        wait = await decisions.find_open_wait(self._objects, wait_id)
        recorded = await read_decision(self._objects, wait_id)
        if recorded is None and wait is not None and wait.has_slots:
            from continuations.ledger import wait_slots

            after = await wait_slots.follow(self._objects, wait)
            if isinstance(after, Decision):
                recorded = await decisions.record_decision(self._objects, after)
            else:
                wait = after
        if recorded is not None:
            raise decision_errors.not_open_error(recorded)
        assert wait is not None  # noqa: S101 - it is open or decided
        return wait

    async def notify(self, wait_id: str) -> None:
        """Call `notify` once more for an open wait.

        Args:
            wait_id: Id of the wait.

        Raises:
            InvalidInput: The runner has no `notify`.
            WaitNotFound, AlreadyDecided, WaitExpired, Cancelled, StoreError: As for
                `wait`. Exceptions of the function itself are raised too.
        """
        from continuations.authoring import callables

        if self._ports.notify is None:
            msg = "This runner has no notify function. Pass Runner(..., notify=...)."
            raise InvalidInput(msg)
        await callables.call(self._ports.notify, await self.wait(wait_id))

    async def look(self, run_id: str, *, version: int | None = None) -> Continuation:
        """Return the state of a run; writes nothing.

        The frame of a sub-agent that has returned is in earlier versions only. Without
        `version`, the waits have their newest deadlines, approvers and votes.

        Args:
            run_id: Id of the run.
            version: Number of a version, by default the newest.

        Returns:
            The state, with messages, calls and waits.

        Raises:
            RunNotFound: The store has no such run or version.
            RunErased: The run was erased.
            InvalidInput: `version` is not an integer.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
        """
        from continuations.ledger.versions import Versions
        from continuations.wire.continuation import Continuation

        versions = Versions(self._objects, layout.check_run_id(run_id))
        if version is not None and type(version) is not int:
            msg = f"version must be an integer, got {type(version).__name__}."
            raise InvalidInput(msg)
        if version is None:
            loaded = await versions.load_newest()
        else:
            loaded = await versions.load(version)
        state = loaded.state
        if version is None and any(wait.has_slots for wait in state.waits.values()):
            from continuations.ledger import wait_slots

            state = await wait_slots.with_followed_waits(self._objects, state)
        return Continuation(state, loaded.number)

    async def send(
        self,
        run_id: str,
        text: UserText,
        *,
        by: str | None = None,
        id: str | None = None,  # noqa: A002 - as in `signal`
    ) -> int:
        """Send a user message to a run.

        The root agent reads it at the next resume or sweep, or before a worker finishes
        the run, and never between a call and its result. A message that arrives between
        the worker's last look and the end of the run is not read.

        Args:
            run_id: Id of the run.
            text: The message, not empty; or texts and attachments.
            by: Name of the sender, for the record.
            id: Your id of the message: a repeat sends nothing, and returns the number
                of the first one.

        Returns:
            The number of the message in the run's inbox, from 1.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, an argument is not a text, or `id` names
                a message with another text or sender.
            InboxFull: The run has too many unread messages.
            AttachmentsTooLarge: The run would have too many bytes of attachments.
            StoreError: The store failed.
        """
        layout.check_run_id(run_id)
        return await self._run_requests(run_id).send(text, by=by, message_id=id)

    async def cancel(
        self,
        run_id: str,
        *,
        call: str | Sequence[str] | None = None,
        reason: str | None = None,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> Continuation:
        """End a run, or one of its calls, and close its open waits; idempotent.

        If another process works on the run, that process ends it at its next commit, or
        before the run finishes. The request is stored first: after a crash, a sweep or
        resume ends the run. A request that arrives between the worker's last look and
        the end of the run comes too late; only the status "cancelled" is a promise.

        With `call`, only this call ends, with all calls of its agent and of the agents
        below. The model reads that it was cancelled, and the run goes on. A call that
        has begun to run is not stopped: it returns, and its result is kept. A call that
        has not begun never begins.

        Args:
            run_id: Id of the run.
            call: Id of an open call, or its path (`"boss/hr/transfer"`, or a list of
                the names). `None`: the whole run.
            reason: Why, for the record, for later deciders and for the model.
            by: Name of the person who cancels, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            The newest state: cancelled, running in another process, or ended before.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: `reason` or `by` is not a text. Or `call` names no open call
                or several, or the run has ended. Then nothing was recorded.
            StoreError: The store failed.
        """
        layout.check_run_id(run_id)
        if call is not None:
            commands = self._operator_commands(run_id)
            return await commands.cancel_call(call, reason=reason, by=by, door=door)
        requests = self._run_requests(run_id)
        return await requests.cancel(by=by, reason=reason, door=door)
