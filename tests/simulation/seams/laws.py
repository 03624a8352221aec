"""Laws of what meets: people who ask, rules, signals and threads, after a rewind too.

The laws derive the persons who asked for a call from messages, starts and forks. They
do not read the rows that the engine compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.core.rows.calls import Parked, Unknown
from continuations.core.rows.decisions import Decision
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait
from continuations.ledger import layout
from continuations.ledger.layout import Marker
from continuations.wire.fields import to_milliseconds
from tests.simulation.events.laws import signal_of, signals_dropped
from tests.simulation.evidence import Evidence, RunHistory, Version, is_rewind
from tests.simulation.operators.laws import is_poison, requests_of
from tests.simulation.past.laws import is_interrupted_again, rewinds_of
from tests.simulation.policy.laws import is_denied_by_its_rule
from tests.simulation.processes import wall_time
from tests.simulation.protocol.laws_of_runs import posted_messages
from tests.simulation.seams.tools import REQUESTED_POLICIES, first_name
from tests.simulation.sim_environment import SignalList
from tests.simulation.workflows.histories import was_cancelled

# People who ask ---------------------------------------------------------------------


def nobody_approves_what_they_asked_for(evidence: Evidence) -> str | None:
    """No person who asked for a call with `not_requester` decides it, nor their grant.

    Those are the persons who started the run, or sent a message that it has read; in a
    thread, who sent the messages that it answers. In a fork or an adopted run also
    those who asked for the work of the source, and the person who made it.
    """
    for history in evidence.runs.values():
        known: set[str] = set()
        for version in history.versions:
            for wait in version.state.waits.values():
                if wait.id in known or not _is_for_others(wait):
                    continue
                known.add(wait.id)
                decision = evidence.waits[wait.id].decision
                found = _persons_of(decision) & _askers(evidence, history, version)
                if found:
                    return f"{found} asked for the call of {wait.id}, and decided it"
            problem = _own_grant(evidence, history, version)
            if problem is not None:
                return problem
    return None


def _is_for_others(wait: Wait) -> bool:
    return wait.kind == "approval" and first_name(wait.tool) in REQUESTED_POLICIES


def _persons_of(decision: Decision | None) -> set[str]:
    if decision is None or decision.kind not in ("approve", "deny", "answer"):
        return set()
    return {*decision.voters, decision.by or ""}


def _own_grant(evidence: Evidence, history: RunHistory, version: Version) -> str | None:
    """Return a sentence if the grant of a person approves a call of that person."""
    for call in version.state.calls.values():
        if call.grant is None or first_name(call.tool) not in REQUESTED_POLICIES:
            continue
        # A fork has calls of its source, which a grant of the source approved.
        givers = {
            name
            for wait_id, (decision, _) in evidence.decisions.items()
            if decision.id == call.grant and wait_id.endswith(f"@{history.run_id}")
            for name in _persons_of(decision)
        }
        found = givers & _askers(evidence, history, version)
        if found:
            return f"{found} asked for {call.id} of {history.run_id}, and granted it"
    return None


def _askers(evidence: Evidence, history: RunHistory, version: Version) -> set[str]:
    """Return who asked for the work that a version does."""
    run, posted = version.state.run, list(posted_messages(evidence, history))
    first = run.answered if run.thread_key is not None else 0
    asked = {each.by or "" for each in posted[first : run.last_inbox_number]}
    environment = evidence.environment
    for names in (environment.requesters, environment.forked_by):
        asked |= {names[key] for key in (history.run_id,) if key in names}
    origin = evidence.origin_of(history)
    if origin is not None:
        asked |= _askers(evidence, origin.source, origin.version)
    return asked


# Rules ------------------------------------------------------------------------------


def denied_by_its_rule_never_runs(evidence: Evidence) -> str | None:
    """No call runs that its condition denies, even if a person approved the call."""
    for effect in evidence.environment.effects:
        if is_denied_by_its_rule(effect.tool, effect.arguments):
            return f"{effect} ran, and its rule denies it"
    return None


# Messages ---------------------------------------------------------------------------


def cut_off_messages_are_stopped(evidence: Evidence) -> str | None:
    """After a rewind, the messages of the turn are answered by it, or are `stopped`.

    A turn that goes on has the text of each message that will get its reply, and no
    message of another sender.
    """
    for history in evidence.runs.values():
        posted = list(posted_messages(evidence, history))
        for _, claim, after in rewinds_of(history):
            old, new = claim.state.run, after.state.run
            if new.thread_key is None:
                continue
            open_ones = range(old.answered + 1, old.last_inbox_number + 1)
            is_stopped = new.failure is not None and new.failure.code == "stopped"
            if open_ones and new.answered >= open_ones[-1]:
                if not is_stopped:
                    return f"messages {open_ones} of {history.run_id} have no reply"
                continue
            texts = _user_texts(after.state)
            for number in open_ones:
                message = posted[number - 1]
                if message.message.content not in texts:
                    return f"{history.run_id} forgot its message {number}"
                if message.by != new.sender:
                    return f"{history.run_id} answers {new.sender}, not {message.by}"
    return None


def interruptions_survive_a_rewind(evidence: Evidence) -> str | None:
    """A message that interrupts a turn does so after a rewind into the turn, too.

    No call of the root agent begins in it any more. But a person decides about a call
    that may have run.
    """
    for history in evidence.runs.values():
        for _, claim, after in rewinds_of(history):
            if not is_interrupted_again(claim, after):
                continue
            for effect in evidence.environment.effects:
                call = after.state.calls.get(effect.call_id)
                if effect.run_id != history.run_id or call is None or call.attempts:
                    continue
                is_of_root = call.frame_id == ROOT_FRAME_ID
                may_have_run = isinstance(call.state, Unknown)
                if is_of_root and not may_have_run and effect.sent_at > after.at:
                    return f"{effect} began after a message had interrupted its turn"
    return None


def _user_texts(state: RunState) -> list[str]:
    messages = state.logs[ROOT_FRAME_ID].messages
    return [message.content for message in messages if message.role == "user"]


# Signals and events -----------------------------------------------------------------


def a_run_takes_each_arrival_once(evidence: Evidence) -> str | None:
    """No event and no signal ends two waits of a run, whatever was rewound between.

    An event ends each wait that is open at the same time.
    """
    for history in evidence.runs.values():
        taken: dict[object, str] = {}
        for before, after in pairwise(history.versions):
            if is_rewind(before, after) or after.state.run.failure is not None:
                continue
            for wait_id, decision in _ended(evidence, before, after):
                for arrival in (decision.event, decision.signal):
                    first = taken.setdefault(arrival, wait_id) if arrival else wait_id
                    if first != wait_id and not (
                        arrival == decision.event
                        and _were_open_together(history, first, wait_id)
                    ):
                        calls = (
                            evidence.waits[each].wait.call_id
                            for each in (first, wait_id)
                        )
                        if any(was_cancelled(history, each) for each in calls):
                            continue  # what ended a cancelled call is for another wait
                        return f"{arrival} ended {first} and {wait_id}"
    return None


def dropped_signals_end_no_wait(evidence: Evidence) -> str | None:
    """A signal that an operator dropped is not kept, and ends no wait afterwards.

    A decision that took it before it was dropped, and that no version has applied,
    opens its wait again. In a run that is cancelled meanwhile, it has no effect.
    """
    for history in evidence.runs.values():
        dropped: set[int] = set()
        for before, after in pairwise(history.versions):
            for wait_id, decision in _ended(evidence, before, after):
                was_dropped = decision.signal in dropped
                is_over = after.state.run.status == "cancelled"
                if is_rewind(before, after) or is_over or not was_dropped:
                    continue
                if not _was_opened_again(evidence, wait_id, after):
                    return f"signal {decision.signal} was dropped, and ended {wait_id}"
            dropped |= signals_dropped(evidence, before, after)
            kept = dropped & {signal.number for signal in after.state.run.signals}
            if kept:
                return f"{history.run_id} keeps the dropped signals {sorted(kept)}"
    return None


def _was_opened_again(evidence: Evidence, wait_id: str, after: Version) -> bool:
    """Return whether another wait took the place of a wait before a version.

    No version has the other wait, because it ended at once.
    """
    decided_at = evidence.decisions[wait_id][1]
    run_id = wait_id.partition("@")[2]
    return any(
        other.endswith(f"@{run_id}") and decided_at < at < after.at
        for other, (_, at) in evidence.decisions.items()
        if layout.parse_wait_id(other).kind == "event" and other not in evidence.waits
    )


def untaken_signals_are_listed(evidence: Evidence) -> str | None:
    """A listing shows each signal that its run keeps, and none that is gone.

    A signal that is about to be dropped may be left out.
    """
    for listing in evidence.environment.signal_lists:
        history = evidence.runs[listing.run_id]
        during = [each for each in history.versions if each.at < listing.at]
        first = history.version_before(listing.began_at)
        if first is None:
            continue
        states = [first, *(each for each in during if each.at >= listing.began_at)]
        kept = [{each.number for each in one.state.run.signals} for one in states]
        new = [
            number
            for number in listing.numbers
            if number > first.state.run.last_signal_number
        ]
        unknown = {*listing.numbers} - {*new}.union(*kept)
        if unknown:
            return f"{listing} has {sorted(unknown)}, which the run does not keep"
        missing = set[int].intersection(*kept) - {*listing.numbers}
        missing -= _asked_to_drop(evidence, listing)
        if missing:
            return f"{listing} lacks the signals {sorted(missing)}"
    return None


def _asked_to_drop(evidence: Evidence, listing: SignalList) -> set[int]:
    """Return the signals of the requests that are recorded before a listing ends."""
    return {
        number
        for request in requests_of(evidence, listing.run_id)
        if request.action == "drop"
        for number in range(1, request.signal_number + 1)
        if request.signal_name
        in (None, signal_of(evidence, listing.run_id, number).name)
    }


def _were_open_together(history: RunHistory, one: str, other: str) -> bool:
    """Return whether two waits were open at the same time.

    A version that ends one of them may open the other: it applies several decisions,
    one after the other.
    """
    open_waits = [each.state.waits.keys() for each in history.versions]
    following = [*open_waits[1:], *open_waits[-1:]]
    return any(
        {one, other} <= now | after
        for now, after in zip(open_waits, following, strict=True)
    )


def _ended(
    evidence: Evidence, before: Version, after: Version
) -> Iterator[tuple[str, Decision]]:
    """Yield the waits whose decisions a version applied."""
    for wait in before.state.waits.values():
        if wait.id in after.state.waits or wait.id not in evidence.decisions:
            continue
        call = after.state.calls.get(wait.call_id)
        if call is None or not isinstance(call.state, Parked):
            yield wait.id, evidence.decisions[wait.id][0]


# Markers ----------------------------------------------------------------------------


def nothing_due_is_left(evidence: Evidence) -> str | None:
    """At the end no marker is due of a run that waits or rests: sweeps have moved it.

    The marker of an arrival stays if its process died before it stored the arrival, and
    the guard of a version if its process died before it stored the version.
    """
    bodies = evidence.environment.store.bodies
    now_ms = to_milliseconds(wall_time(evidence.environment.loop.time()))
    for key in bodies:
        marker = layout.parse_marker(key) if key.startswith("markers/") else None
        if marker is None or marker.due_ms > now_ms:
            continue
        history = evidence.runs.get(marker.run_id)
        if history is None or not history.versions or is_poison(evidence, history):
            continue
        newest = history.versions[-1].number
        if marker.reason == "g" and int(marker.target) > newest:
            continue
        # Another process may have stored the version that was to be released.
        if marker.reason == "r" and int(marker.target) >= newest:
            continue
        if not history.ended and marker.reason not in _ARRIVALS:
            return f"{history.run_id} does not go on, and {_text(marker, key)} is due"
    return None


_ARRIVALS = ("m", "o", "s", "c", "d")


def _text(marker: Marker, key: str) -> str:
    return f"{key} (reason {marker.reason})"
