"""Arrivals of a run: decisions, signals, slots, messages, requests of operators."""

from __future__ import annotations

from dataclasses import field
from itertools import chain, islice
from typing import TYPE_CHECKING

from continuations.core.rows.decisions import Decision
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.errors import Corrupt, RunNotFound
from continuations.ledger import layout
from continuations.ledger.arrivals import recorded_decisions
from continuations.ledger.arrivals.arrival_logs import (
    MESSAGES,
    REQUESTS,
    REVOCATIONS,
    SIGNALS,
)
from continuations.ledger.objects import NotFound, gather_all
from continuations.value_class import dataclass, replace
from continuations.wire.arrivals import CANCEL_REQUEST

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import (
        CancelRequest,
        InboxMessage,
        Revocation,
        Signal,
    )

# The page size of a look for late messages. Further ones are read in the turn after.
_LATE_KEYS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The arrivals that a run has not processed yet; decisions by wait id.

    `followed` has the open waits that have slots, as their slots left them.
    `unread_numbers` are those of messages that the run cannot take in now: they are
    read when it can. In a thread, this is so for all messages but the next one.
    """

    decisions: Mapping[str, Decision] = field(default_factory=dict[str, "Decision"])
    followed: Mapping[str, Wait] = field(default_factory=dict[str, "Wait"])
    signals: tuple[Signal, ...] = ()
    revocations: tuple[Revocation, ...] = ()
    inbox_messages: tuple[InboxMessage, ...] = ()
    unread_numbers: tuple[int, ...] = ()
    operator_requests: tuple[OperatorRequest, ...] = ()
    cancel_request: CancelRequest | None = None

    def marker_keys(self, run_id: str) -> tuple[str, ...]:
        """Return the keys of the markers of these arrivals to a run."""
        keys = [decision.marker for decision in self.decisions.values()]
        keys += [signal.marker for signal in self.signals]
        keys += [message.marker for message in self.inbox_messages]
        keys += [request.marker for request in self.operator_requests]
        if self.cancel_request is not None:
            keys.append(self.cancel_request.marker)
        named = (key for key in keys if key is not None)
        return layout.own_markers(named, run_id)

    def current(self, wait: Wait) -> Wait:
        """Return an open wait as its slots left it."""
        return self.followed.get(wait.id, wait)

    def taken_in_by(self, state: RunState) -> Arrivals:
        """Return these arrivals without the requests that a run did not take in.

        The markers of these requests of operators must stay.
        """
        last = state.run.last_operator_number
        taken = tuple(each for each in self.operator_requests if each.number <= last)
        return replace(self, operator_requests=taken)

    def followed_by(self, late: Arrivals) -> Arrivals:
        """Return these arrivals and later ones."""
        return Arrivals(
            decisions={**self.decisions, **late.decisions},
            followed={**self.followed, **late.followed},
            signals=(*self.signals, *late.signals),
            revocations=(*self.revocations, *late.revocations),
            inbox_messages=(*self.inbox_messages, *late.inbox_messages),
            unread_numbers=(*self.unread_numbers, *late.unread_numbers),
            operator_requests=(*self.operator_requests, *late.operator_requests),
            cancel_request=self.cancel_request or late.cancel_request,
        )


NO_ARRIVALS = Arrivals()


async def read_arrivals(
    objects: Objects,
    state: RunState,
    keys: tuple[str, ...] | None = None,
    *,
    records: bool = True,
    all_messages: bool = False,
) -> Arrivals:
    """Read the arrivals since a version.

    Args:
        objects: The store.
        state: The state of that version.
        keys: The keys of all arrivals that may be new; by default they are listed.
        records: Whether a decision that slots made, and that is missing after a crash,
            is recorded.
        all_messages: Whether messages are read that the run cannot take in now.

    Raises:
        Corrupt: An arrival is damaged, missing, or a decision of another wait.
        FormatError: An arrival has a newer format.
    """
    run = state.run
    if keys is None:
        keys = await _list_keys(objects, state)
    digests = _accepted_digests(state, keys)
    unread = MESSAGES.new_numbers(keys, run)
    numbers = unread if all_messages else readable_numbers(state, unread)
    signal_numbers = SIGNALS.new_numbers(keys, run)
    request_numbers = REQUESTS.new_numbers(keys, run)
    cancelled = layout.cancel_request_key(run.id) in keys
    undecided = state.waits.keys() - digests.keys()
    slots = _slot_keys(keys, run.id, undecided | _movable(state))
    reads: list[list[Coroutine[Any, Any, Any]]] = [
        list(_decision_reads(objects, state, digests)),
        [SIGNALS.read_listed(objects, run.id, number) for number in signal_numbers],
        [MESSAGES.read_listed(objects, run.id, number) for number in numbers],
        [REQUESTS.read_listed(objects, run.id, number) for number in request_numbers],
        [read_cancel_request(objects, run.id)] if cancelled else [],
        [_follow(objects, state.waits[w], keys, records) for w, keys in slots.items()],
    ]
    results = iter(await gather_all(chain.from_iterable(reads)))
    decisions, signals, messages, requests, cancel_requests, waits = (
        [*islice(results, len(group))] for group in reads
    )
    _check_quorums(state, decisions)
    ended = [d for d in waits if isinstance(d, Decision) and d.wait_id in undecided]
    return Arrivals(
        decisions={each.wait_id: each for each in (*decisions, *ended) if each},
        followed={each.id: each for each in waits if not isinstance(each, Decision)},
        signals=tuple(signals),
        revocations=tuple(await _read_revocations(objects, run, keys)),
        inbox_messages=tuple(messages),
        unread_numbers=tuple(unread[len(numbers) :]),
        operator_requests=tuple(requests),
        cancel_request=next(iter(cancel_requests), None),
    )


def _movable(state: RunState) -> set[str]:
    """Return the waits whose moved deadline has a marker that only a slot names."""
    return {key for key, wait in state.waits.items() if wait.rules.is_extendable}


def _accepted_digests(
    state: RunState, keys: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    """Return the digests that each listed decision of the run may have."""
    from continuations.ledger.arrivals import early_answers  # noqa: PLC0415 - not to decide

    ids = [layout.decided_wait_id(key, state.run.id) for key in keys]
    return early_answers.accepted_digests(state, filter(None, ids))


async def _list_keys(objects: Objects, state: RunState) -> tuple[str, ...]:
    if state.run.thread_key is not None:
        from continuations.ledger.arrivals import thread_arrivals  # noqa: PLC0415 - for threads

        return await thread_arrivals.list_new_keys(objects, state)
    prefix = layout.arrivals_prefix(state.run.id)
    return tuple([key async for key in objects.all_keys(prefix)])


def _decision_reads(
    objects: Objects, state: RunState, digests: Mapping[str, tuple[str, ...]]
) -> Iterator[Coroutine[Any, Any, Decision | None]]:
    """Return a read of each decision of the run, with the digests that it may have."""
    for wait_id, accepted in digests.items():
        if wait_id in state.waits:
            yield _read_matching_decision(objects, state.run.id, wait_id, accepted)
        else:
            yield _read_if_early(objects, wait_id, accepted)


def readable_numbers(state: RunState, numbers: Sequence[int]) -> list[int]:
    """Return the numbers of the unread messages that a run can take in now.

    A run cannot take in any between a call and its result. A thread looks at one
    message at a time.
    """
    root = state.frames.get(ROOT_FRAME_ID)
    if root is None or not root.reads_messages:
        return []
    last = state.run.last_inbox_number
    if state.run.thread_key is not None:
        return [number for number in numbers if number == last + 1]
    return [number for number in numbers if number > last]


async def _read_revocations(
    objects: Objects, run: RunRow, keys: tuple[str, ...]
) -> list[Revocation]:
    """Read the revocations of grants that a run has not taken in.

    Their numbers have no gaps. A missing one is damage: without it, a grant that was
    revoked would cover calls.
    """
    last_listed = max(REVOCATIONS.new_numbers(keys, run), default=0)
    numbers = range(run.last_revocation_number + 1, last_listed + 1)
    return await REVOCATIONS.read_all(objects, run.id, numbers)


def _check_quorums(state: RunState, decisions: Iterable[Decision | None]) -> None:
    """Raise `Corrupt` if fewer persons made a decision than its wait needs."""
    for decision in decisions:
        wait = state.waits.get(decision.wait_id) if decision is not None else None
        if decision is None or wait is None or wait.quorum is None:
            continue
        from continuations.core.rows.slots import is_met_by  # noqa: PLC0415 - rarely needed

        if not is_met_by(wait, decision):
            msg = (
                f"The decision of wait {wait.id} is not valid: fewer persons made it "
                f"than the {wait.votes_needed} that the wait needs. No call was run. "
                "Find out who wrote it; cancel the run if in doubt."
            )
            raise Corrupt(msg, run_id=wait.run_id, wait_id=wait.id)


def _slot_keys(
    keys: tuple[str, ...], run_id: str, wait_ids: AbstractSet[str]
) -> dict[str, list[str]]:
    """Return the keys of the slots of some waits, by wait id."""
    by_wait: dict[str, list[str]] = {}
    for key in keys:
        parsed = layout.parse_slot_key(key, run_id)
        if parsed is not None and parsed[0] in wait_ids:
            by_wait.setdefault(parsed[0], []).append(key)
    return by_wait


async def _follow(
    objects: Objects, wait: Wait, slot_keys: list[str], records: bool
) -> Wait | Decision:
    """Return a wait as its slots left it, or its decision, which is then recorded."""
    from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - rarely needed

    after = await wait_slots.follow_keys(objects, wait, slot_keys)
    if not (records and isinstance(after, Decision)):
        return after
    try:
        return await recorded_decisions.create_decision(objects, after)
    except NotFound:
        msg = f"run {wait.run_id} was not read: it was erased meanwhile."
        raise RunNotFound(msg, run_id=wait.run_id, wait_id=wait.id) from None


async def read_late_arrivals(objects: Objects, state: RunState) -> Arrivals:
    """Read the next unread messages and the requests of operators, with one listing.

    The messages are read although the reply that the run gets now is not in its state.
    In a thread, only the next one is read.

    Decisions are left out: their keys sort before those of messages. A run with many
    earlier requests of operators needs a second listing.
    """
    run = state.run
    if run.thread_key is not None and objects.lists_whole_folders:
        from continuations.ledger.arrivals import thread_arrivals  # noqa: PLC0415 - for threads

        found = await thread_arrivals.next_late_keys(objects, run)
        return await _read_late(objects, state, found)
    prefix = layout.run_prefix(run.id)
    after = MESSAGES.key(run.id, run.last_inbox_number)
    keys = list(await objects.keys(prefix, after, _LATE_KEYS))
    taken = REQUESTS.key(run.id, run.last_operator_number)
    if len(keys) == _LATE_KEYS and keys[-1] <= taken:
        keys += await objects.keys(prefix, taken, _LATE_KEYS)
    return await _read_late(objects, state, keys)


async def _read_late(
    objects: Objects, state: RunState, keys: Iterable[str]
) -> Arrivals:
    run = state.run
    following = MESSAGES.key(run.id, run.last_inbox_number + 1)
    kept = tuple(
        key
        for key in keys
        if run.thread_key is None or key == following or MESSAGES.number_in(key) is None
    )
    return await read_arrivals(objects, state, kept, all_messages=True)


async def read_cancel_request(objects: Objects, run_id: str) -> CancelRequest | None:
    """Return the cancel request of a run, or `None`."""
    key = layout.cancel_request_key(run_id)
    try:
        return CANCEL_REQUEST.decode(await objects.read(key), key, run_id)
    except NotFound:
        return None


async def _read_matching_decision(
    objects: Objects,
    run_id: str,
    wait_id: str,
    accepted: tuple[str, ...],
) -> Decision:
    decision = await recorded_decisions.read_decision(objects, wait_id)
    if decision is None or decision.digest not in accepted:
        msg = (
            f"The decision of wait {wait_id} is not valid: it was made for another "
            "call. No call was run. Compare the two digests; cancel the run if in "
            "doubt."
        )
        raise Corrupt(msg, run_id=run_id, wait_id=wait_id)
    return decision


async def _read_if_early(
    objects: Objects, wait_id: str, accepted: tuple[str, ...]
) -> Decision | None:
    """Return the early answer of a job, `None` if it has another digest.

    Then another version has the wait: a lost one, or a newer one if a worker that was
    frozen still has an old version. An answer to neither is not valid: it never counts,
    and `_read_matching_decision` reports it when the wait opens.
    """
    decision = await recorded_decisions.read_decision(objects, wait_id)
    return decision if decision is not None and decision.digest in accepted else None
