"""Laws of events and signals: none is lost, and none is taken twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from continuations.core.rows.calls import Parked
from continuations.core.rows.decisions import Decision
from continuations.core.rows.waits import Wait
from continuations.ledger import event_keys, layout
from continuations.ledger.arrivals.arrival_logs import SIGNALS
from continuations.wire.arrivals import EVENT, SIGNAL, PublishedEvent, Signal
from continuations.wire.fields import to_milliseconds
from tests.simulation.evidence import Evidence, RunHistory, Version, is_rewind
from tests.simulation.operators.laws import requests_of
from tests.simulation.processes import wall_time
from tests.simulation.workflows.histories import was_cancelled


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One published event, its topic, and the true time of its create."""

    event: PublishedEvent
    topic: str
    created_at: float


def _events(evidence: Evidence) -> list[EventRecord]:
    found: list[EventRecord] = []
    for key, creates in evidence.created.items():
        if key.startswith(event_keys.EVENTS_PREFIX) and "/e-" in key:
            event = EVENT.decode(creates[0].body, key)
            found.append(EventRecord(event, key.split("/")[1], creates[0].at))
    return sorted(found, key=lambda record: record.event.id)


def _can_take(wait: Wait, record: EventRecord) -> bool:
    """Return whether an event is one that a wait may take."""
    topic, event = event_keys.topic_of_wait(wait), record.event
    first = event_keys.key_before_events(topic, wait.created_at)
    return (
        record.topic == topic
        and event_keys.event_key(topic, event.id) > first
        and event.id not in wait.events_taken
        and (wait.deadline is None or event.at <= wait.deadline)
    )


def _open_event_waits(evidence: Evidence) -> Iterator[Wait]:
    """Yield the waits for events that are open at the end."""
    for history in evidence.runs.values():
        if history.versions and not history.ended:
            for wait in history.newest_state.waits.values():
                if wait.event is not None and wait.id not in evidence.decisions:
                    yield wait


def no_event_is_lost(evidence: Evidence) -> str | None:
    """No wait is open at the end for which an event was published.

    It may have been published before the wait was opened, and its publisher may have
    died.
    """
    events = _events(evidence)
    for wait in _open_event_waits(evidence):
        for record in events:
            if _can_take(wait, record):
                return f"{wait.id} is open, and event {record.event.id} exists"
    return None


def each_wait_takes_the_oldest_event(evidence: Evidence) -> str | None:
    """A wait takes one event of its own name and key: the oldest that it may take.

    A process knows only the events that it listed.
    """
    events = {record.event.id: record for record in _events(evidence)}
    for wait_id, (decision, _) in evidence.decisions.items():
        if decision.event is None or wait_id not in evidence.waits:
            continue
        wait, record = evidence.waits[wait_id].wait, events[decision.event]
        if not _can_take(wait, record) or decision.value != record.event.data:
            return f"{wait_id} took {record}, which is not for it"
        listed_at = _listed_at(evidence, decision, record.topic)
        for older in events.values():
            passed_over = older.event.id < record.event.id and _can_take(wait, older)
            if passed_over and older.created_at < listed_at:
                return f"{wait_id} took {record.event.id} before {older.event.id}"
    return None


def _listed_at(evidence: Evidence, decision: Decision, topic: str) -> float:
    """Return when the process of a decision last listed the events before it."""
    marker = evidence.created[decision.marker or ""][0]
    prefix = event_keys.events_prefix(topic)
    looks = [
        line[0]
        for line in evidence.environment.log
        if line[1:3] == (marker.process, "keys")
        and line[3].startswith(prefix)
        and line[0] < marker.at
    ]
    return max(looks, default=0.0)


def an_event_is_taken_once(evidence: Evidence) -> str | None:
    """The run remembers what its waits took, and a later wait knows it."""
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            if after.state.run.failure is not None:
                continue
            taken = {*after.state.run.events_taken}
            # A rewind closes waits too, and leaves their events to later ones.
            is_taken_in = not is_rewind(before, after)
            for wait, decision in _closed(evidence, before, after):
                is_lost = decision.event is not None and decision.event not in taken
                if is_lost and was_cancelled(history, wait.call_id):
                    continue  # the event is for another wait
                if is_taken_in and is_lost:
                    return f"{wait.run_id} forgot that {wait.id} took an event"
            for wait in after.state.waits.values():
                if wait.event is None or wait.id in before.state.waits:
                    continue
                known = {*wait.events_taken}
                if not {*before.state.run.events_taken} <= known <= taken:
                    return f"{wait.id} knows of {known}, and the run of {taken}"
    return None


def an_own_id_names_one_event(evidence: Evidence) -> str | None:
    """Calls with the same id, name and key record one event."""
    found: dict[tuple[str, str], str] = {}
    for record in _events(evidence):
        own_id = record.event.own_id
        if own_id is not None:
            first = found.setdefault((record.topic, own_id), record.event.id)
            if first != record.event.id:
                return f"{own_id} names {first} and {record.event.id}"
    return None


def _closed(
    evidence: Evidence, before: Version, after: Version
) -> Iterator[tuple[Wait, Decision]]:
    """Yield the waits that a version closed, with their decisions."""
    for wait in before.state.waits.values():
        if wait.id not in after.state.waits and wait.id in evidence.decisions:
            yield wait, evidence.decisions[wait.id][0]


def each_signal_ends_one_wait(evidence: Evidence) -> str | None:
    """No signal ends two waits, and none vanishes without one, unless it is dropped."""
    for history in evidence.runs.values():
        ended: dict[int, str] = {}
        for before, after in pairwise(history.versions):
            if after.state.run.failure is not None:
                continue
            for wait, decision in _closed(evidence, before, after):
                if not decision.signal:
                    continue
                call = after.state.calls.get(wait.call_id)
                if call is not None and isinstance(call.state, Parked):
                    continue  # the wait was opened again
                first = ended.setdefault(decision.signal, wait.id)
                if first != wait.id:
                    return f"signal {decision.signal} ended {first} and {wait.id}"
            lost = _signals_gone(before, after) - _signals_used(evidence, history)
            lost -= signals_dropped(evidence, before, after)
            if lost:
                return f"{history.run_id} lost the signals {sorted(lost)}"
    return None


def _signals_used(evidence: Evidence, history: RunHistory) -> set[int]:
    """Return the signals that decisions name.

    A wait that is opened again may take a second signal before a version has it.
    """
    return {
        decision.signal
        for wait_id, (decision, _) in evidence.decisions.items()
        if wait_id.endswith(f"@{history.run_id}")
    }


def signals_dropped(evidence: Evidence, before: Version, after: Version) -> set[int]:
    """Return the signals that the requests which a version took in drop.

    A request drops the signals with its name, up to a number. The run has taken them in
    before, or in the same version.
    """
    old, new = before.state.run, after.state.run
    dropped: set[int] = set()
    for request in requests_of(evidence, new.id):
        is_taken_in = old.last_operator_number < request.number
        is_taken_in = is_taken_in and request.number <= new.last_operator_number
        if request.action != "drop" or not is_taken_in:
            continue
        for number in range(1, request.signal_number + 1):
            name = signal_of(evidence, new.id, number).name
            if request.signal_name in (None, name):
                dropped.add(number)
    return dropped


def signal_of(evidence: Evidence, run_id: str, number: int) -> Signal:
    """Return a signal as it was recorded."""
    key = layout.numbered_key(layout.SIGNAL, run_id, number)
    return SIGNAL.decode(evidence.created[key][0].body, key, run_id)


def _signals_gone(before: Version, after: Version) -> set[int]:
    """Return the signals that were kept, or were taken in, and are not kept now."""
    old, new = before.state.run, after.state.run
    taken_in = range(old.last_signal_number + 1, new.last_signal_number + 1)
    known = {*taken_in, *(signal.number for signal in old.signals)}
    return known - {signal.number for signal in new.signals}


def no_signal_waits_beside_its_wait(evidence: Evidence) -> str | None:
    """At the end no wait is open for a signal that its run got in time."""
    for wait in _open_event_waits(evidence):
        history = evidence.runs[wait.run_id]
        for number in _unused_signals(evidence, history):
            signal = signal_of(evidence, wait.run_id, number)
            in_time = wait.deadline is None or signal.at <= wait.deadline
            if signal.name == wait.event and in_time:
                return f"{wait.id} is open, and signal {number} is not used"
    return None


def _unused_signals(evidence: Evidence, history: RunHistory) -> Iterator[int]:
    run = history.newest_state.run
    yield from (signal.number for signal in run.signals)
    for key in evidence.created:
        if key.startswith(SIGNALS.prefix(run.id)):
            number = layout.number_in(layout.SIGNAL, key) or 0
            if number > run.last_signal_number:
                yield number


def events_leave_nothing(evidence: Evidence) -> str | None:
    """Each event has a marker at whose time a sweep deletes it; no such marker is due.

    Publishers find open waits only. A worker that dies before its version leaves the
    wait, which no version has.
    """
    bodies = evidence.environment.store.bodies
    now_ms = to_milliseconds(wall_time(evidence.environment.loop.time()))
    parsed = map(event_keys.parse_event_marker, bodies)
    markers = [marker for marker in parsed if marker is not None]
    for marker in markers:
        if marker.due_ms <= now_ms:
            return f"{marker.key} is left"
    guarded = {event_keys.event_key(each.topic, each.event_id) for each in markers}
    guarded |= {event_keys.own_id_key(each.topic, each.event_id) for each in markers}
    for key in bodies:
        if not key.startswith(event_keys.EVENTS_PREFIX) or key in guarded:
            continue
        wait_id = event_keys.waiter_in(key) if "/w-" in key else None
        if wait_id is None:
            return f"{key} is left, and no marker leads to it"
        record = evidence.waits.get(wait_id)
        if record is None or wait_id not in evidence.decisions:
            continue
        if evidence.created[key][-1].at > record.decided_at:
            continue  # a process froze before its request
        refused = ("delete", key, "refused")
        if any(line[2:] == refused for line in evidence.environment.log):
            continue  # the next publisher deletes it
        return f"{key} is left, and its wait is decided"
    return None
