"""Laws of workflows: their histories, their replays, and the calls that they cancel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.authoring.workflow.drive import HistoryDiffers
from continuations.core import jsontext
from continuations.core.changes.operator_changes import EARLIER_ATTEMPT
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.core.rows.workflow_history import (
    BY_WORKFLOW,
    CANCELLED_BY_WORKFLOW,
    Entry,
    OutcomeEntry,
    StartEntry,
    TimeEntry,
)
from continuations.ledger import layout
from continuations.wire.fields import to_milliseconds
from tests.simulation.evidence import Evidence, RunHistory, Version
from tests.simulation.fault_schedule import MISFITS, Deployment
from tests.simulation.operators.laws import is_poison
from tests.simulation.processes import wall_time
from tests.simulation.workflows.histories import (
    FlowFrame,
    came_late,
    code_of_version,
    flow_frames,
    flow_parts,
    flow_runs,
    frames_by_version,
    is_open,
    last_histories,
    marked_call,
    replayed,
)
from tests.simulation.workflows.trees import CHANGED_CALLS, FIRST_CALL, STUCK_TREE

# A store operation may take this long, and a worker reads its clock before it.
_SLOW_SECONDS = 20.0


# Histories --------------------------------------------------------------------------


def histories_only_grow(evidence: Evidence) -> str | None:
    """The history of a log is the beginning of every later history of that log."""
    for history in flow_parts(evidence):
        before: dict[tuple[str, int], FlowFrame] = {}
        for version in history.versions:
            for frame in flow_frames(version, history.run_id):
                old = before.get((frame.frame_id, frame.log_id))
                if old is not None and (
                    frame.messages[: len(old.messages)] != old.messages
                ):
                    return f"version {version.number} changed the history of {frame}"
                before[frame.frame_id, frame.log_id] = frame
    return None


def time_of_a_workflow_never_goes_back(evidence: Evidence) -> str | None:
    """The times of a history never go back, nor does the start after a restart."""
    for history in flow_parts(evidence):
        last_of_frame: dict[str, int] = {}
        for (frame_id, _), frame in last_histories(history).items():
            for at in _times(frame.entries):
                if at < last_of_frame.get(frame_id, 0):
                    return f"the time of {frame} goes back to {at}"
                last_of_frame[frame_id] = at
    return None


def _times(entries: list[Entry]) -> Iterator[int]:
    for entry in entries:
        if isinstance(entry, StartEntry | OutcomeEntry | TimeEntry):
            yield entry.at


def every_command_gets_an_outcome(evidence: Evidence) -> str | None:
    """A call without an outcome is open, and has one when the run has ended.

    The end of a function leaves the outcomes of its last calls out.
    """
    for _, version, frame in frames_by_version(evidence):
        state = version.state
        rows = [
            call.id for call in state.calls.values() if call.frame_id == frame.frame_id
        ]
        left = frame.commands.keys() - frame.outcomes.keys()
        is_over = state.run.status in ENDED_STATUSES
        if not is_over and left != set(rows):
            return f"{frame} has the open calls {sorted(rows)}, not {sorted(left)}"
        if state.run.status == "cancelled" and left:
            return f"{frame} has ended, and {sorted(left)} have no outcome"
    return None


def outcomes_follow_their_decisions(evidence: Evidence) -> str | None:
    """Code sees decisions in the order of their times, and with these times.

    A decision that a worker sees late has the time of the entry before it. The end of a
    run records what no code sees.
    """
    for history in flow_parts(evidence):
        seen: dict[tuple[str, int], int] = {}
        is_rewound = history.versions[0].number > 1
        for version in history.versions:
            if version.state.run.status in ENDED_STATUSES:
                continue
            for frame in flow_frames(version, history.run_id):
                key = frame.frame_id, frame.log_id
                entries = frame.entries
                if is_rewound and version is history.versions[0]:
                    seen[key] = len(entries)
                sentence = _wrong_order(evidence, history, entries, seen.get(key, 1))
                if sentence is not None:
                    return f"{frame}: {sentence}"
                seen[key] = len(entries)
    return None


def _wrong_order(
    evidence: Evidence, history: RunHistory, entries: list[Entry], begin: int
) -> str | None:
    """Return what is wrong with the new outcomes of a version, if anything."""
    last_decided = 0
    for number in range(begin, len(entries)):
        outcome = entries[number]
        decided = _decided_at(evidence, history, outcome)
        if decided is None or not isinstance(outcome, OutcomeEntry):
            continue
        expected = max(decided, *_times(entries[:number]))
        if outcome.at != expected and not _was_opened_again(evidence, history, outcome):
            return f"{outcome.call_id} was decided at {decided}, not at {outcome.at}"
        if decided < last_decided:
            return f"{outcome.call_id} was decided before the outcome before it"
        last_decided = decided
    return None


def _was_opened_again(
    evidence: Evidence, history: RunHistory, outcome: OutcomeEntry
) -> bool:
    """Return whether a wait that no version has ended the call.

    The answer before it did not fit, and a kept signal ended the new wait at once.
    """
    return any(
        to_milliseconds(decision.at) == outcome.at
        for wait_id, (decision, _) in evidence.decisions.items()
        if wait_id.endswith(f"@{history.run_id}") and wait_id not in evidence.waits
    )


def _decided_at(evidence: Evidence, history: RunHistory, entry: Entry) -> int | None:
    """Return when a person ended the wait of the code itself, in milliseconds."""
    if not isinstance(entry, OutcomeEntry) or entry.by or entry.end == "cancelled":
        return None
    last = None  # a wait whose answer does not fit is opened again
    for record in evidence.waits.values():
        wait = record.wait
        is_own = (wait.run_id, wait.call_id) == (history.run_id, entry.call_id)
        part = evidence.runs[history.run_id].part_at(record.opened_at)
        if is_own and part is history and wait.kind in ("question", "event"):
            last = record.decision
    return None if last is None else to_milliseconds(last.at)


# Replays ----------------------------------------------------------------------------


def replays_repeat_the_history(evidence: Evidence) -> str | None:
    """The code that went on last makes the recorded calls again, twice the same."""
    for history in flow_parts(evidence):
        for key in last_histories(history):
            made = _last_code(evidence, history, key)
            if made is None:
                continue
            frame, code = made
            try:
                ends = [
                    (drive.alarm, drive.has_news, drive.loop.now)
                    for drive in (replayed(evidence, frame, code) for _ in range(2))
                ]
            except HistoryDiffers as error:
                return f"{frame} cannot be replayed: {error}"
            if ends[0] != ends[1]:
                return f"two replays of {frame} end as {ends}"
    return None


def _last_code(
    evidence: Evidence, history: RunHistory, key: tuple[str, int]
) -> tuple[FlowFrame, Deployment | None] | None:
    """Return the longest history that code made before the end, and the code."""
    found = None
    for version in history.versions:
        if version.state.run.status in ENDED_STATUSES:
            continue
        for frame in flow_frames(version, history.run_id):
            is_longer = found is None or len(frame.messages) > len(found[0].messages)
            if (frame.frame_id, frame.log_id) == key and is_longer:
                found = frame, code_of_version(evidence, version)
    return found


def suspended_code_has_nothing_to_do(evidence: Evidence) -> str | None:
    """Code that waits has made all its calls and patches, and its timer is stored.

    The calls that it cancelled are marked, or have ended. Requests of operators change
    a run without its code.
    """
    for history in flow_parts(evidence):
        for before, version in pairwise(history.versions):
            if version.state.run.status != "suspended":
                continue
            if came_late(evidence, version.process) or _was_operated(before, version):
                continue
            for frame in flow_frames(version, history.run_id):
                sentence = _what_is_left(evidence, version, frame)
                if sentence is not None:
                    return f"version {version.number}: {frame} {sentence}"
    return None


def _was_operated(before: Version, after: Version) -> bool:
    """Return whether a version has a request of an operator, or ends a pause."""
    numbers = {each.state.run.last_operator_number for each in (before, after)}
    return len(numbers) > 1 or _holds(before.state) or _holds(after.state)


def _holds(state: RunState) -> bool:
    """Return whether an operator holds the run: its code makes no step."""
    return any(wait.subject == "run" for wait in state.waits.values())


def _what_is_left(evidence: Evidence, version: Version, frame: FlowFrame) -> str | None:
    if frame.step not in ("waits", "ends"):
        return None  # an operator changed the run, and a worker goes on
    state = version.state
    try:
        drive = replayed(evidence, frame, code_of_version(evidence, version))
    except HistoryDiffers as error:
        return f"was stored by code that does not fit: {error}"
    alarms = [
        to_milliseconds(wait.deadline)
        for wait in state.waits.values()
        if wait.kind == "alarm" and wait.frame_id == frame.frame_id and wait.deadline
    ]
    if drive.has_news:
        return "has a patch that its history does not have"
    if frame.step == "waits" and alarms != [each for each in [drive.alarm] if each]:
        return f"has the alarms {alarms}, and its timer is due at {drive.alarm}"
    for call_id, call in drive._open.items():
        is_cancelled = call.future is not None and call.future.cancelled()
        is_left = is_cancelled and is_open(state, call_id)
        if is_left and state.calls[call_id].cancelled is None:
            return f"cancelled {call_id}, which has no mark"
    return None


def changed_code_changes_nothing(evidence: Evidence) -> str | None:
    """A process whose code makes another call than the history leaves the run alone.

    It takes no claim, adds nothing to a history, and no call of that run begins there.
    """
    environment = evidence.environment
    if environment.deployment not in MISFITS:
        return None
    for history in flow_parts(evidence):
        if layout.cancel_request_key(history.run_id) in evidence.created:
            continue  # the end of a cancelled run needs no code
        for before, after in pairwise(history.versions):
            own = code_of_version(evidence, after)
            if came_late(evidence, after.process) or not _misfits(before, own, history):
                continue
            old, new = before.state.run.claim, after.state.run.claim
            if new is not None and (old is None or old.worker != new.worker):
                return f"{after.process} claimed {history.run_id}, with other code"
        for effect in environment.effects:
            if effect.run_id != history.run_id or effect.fence > len(history.versions):
                continue
            version = history.versions[effect.fence - 1]
            own = code_of_version(evidence, version)
            is_own = version.process == effect.process
            if is_own and _misfits(version, own, history):
                return f"{effect} began in a process with other code"
    return None


def _misfits(version: Version, code: Deployment | None, history: RunHistory) -> bool:
    """Return whether a history has the changed call as other code makes it."""
    own = CHANGED_CALLS.get(str(code), FIRST_CALL)
    others = {FIRST_CALL, *CHANGED_CALLS.values()} - {own}
    for frame in flow_frames(version, history.run_id):
        for tool, arguments in frame.commands.values():
            if (tool, _what(arguments)) in others:
                return True
    return False


def _what(arguments: str) -> str:
    return str((jsontext.as_object(jsontext.parse(arguments)) or {}).get("what", ""))


# Calls that the code cancels --------------------------------------------------------


def the_mark_precedes_the_decision(evidence: Evidence) -> str | None:
    """A wait is closed for its workflow only after a version with the mark."""
    for record in evidence.waits.values():
        decision, history = record.decision, evidence.runs[record.wait.run_id]
        if decision is None or decision.reason != CANCELLED_BY_WORKFLOW:
            continue
        marked = [
            version.at
            for version in history.versions
            if marked_call(version.state, record.wait.call_id) is not None
        ]
        if not marked or min(marked) > record.decided_at:
            return f"{record.wait.id} was closed, and no version had the mark"
    return None


def marked_call_never_begins(evidence: Evidence) -> str | None:
    """No call begins after the version in which its workflow has cancelled it."""
    for effect in evidence.environment.effects:
        history = evidence.runs[effect.run_id]
        version = history.version_before(effect.clock_sample.true_time)
        if version is None or version.process != effect.process:
            continue  # that is a matter of other laws
        marked = marked_call(version.state, effect.call_id)
        if marked is not None:
            return f"{effect} began after the workflow had cancelled {marked}"
    return None


def begun_call_keeps_its_outcome(evidence: Evidence) -> str | None:
    """A call that had its effect before it was cancelled ends with its own outcome.

    A cancellation of the whole run ends the calls that run, too.
    """
    for history in flow_parts(evidence):
        given_up = _calls_given_up(history)
        for effect in evidence.environment.effects:
            if effect.run_id != history.run_id or effect.call_id not in given_up:
                continue
            if evidence.runs[effect.run_id].part_at(effect.sent_at) is not history:
                continue  # a rewind asks about it, or repeats it
            if not _was_asked_about(evidence, history, effect.call_id):
                return f"{effect} had begun, and its outcome is cancelled"
    return None


def _calls_given_up(history: RunHistory) -> set[str]:
    """Return the calls with the outcome that their workflow cancelled them.

    The worker of a call that may be repeated may have died: its outcome says so.
    """
    return {
        outcome.call_id
        for version in history.versions
        if version.state.run.status != "cancelled"
        for frame in flow_frames(version, history.run_id)
        for outcome in frame.outcomes.values()
        if outcome.by == BY_WORKFLOW and outcome.end == "cancelled"
        if not outcome.content.endswith(EARLIER_ATTEMPT)
    }


def _was_asked_about(evidence: Evidence, history: RunHistory, call_id: str) -> bool:
    """Return whether a call waited after its effect: it may begin again, or go on."""
    return any(
        (wait.run_id, wait.call_id) == (history.run_id, call_id)
        for wait in (record.wait for record in evidence.waits.values())
        if wait.rules.may_have_run
    )


def ended_code_marks_its_calls(evidence: Evidence) -> str | None:
    """Once a function has ended, each of its open calls is marked."""
    for _, version, frame in frames_by_version(evidence):
        if frame.step != "ends":
            continue
        for call in version.state.calls.values():
            is_own = call.frame_id == frame.frame_id
            if is_own and call.cancelled is None and is_open(version.state, call.id):
                return f"{frame} has ended, and its call {call.id} is not marked"
    return None


# Time -------------------------------------------------------------------------------


def alarms_ring_beside_calls(evidence: Evidence) -> str | None:
    """A worker whose calls run stores no alarm that has long been due."""
    environment = evidence.environment
    frozen = {str(line[1]) for line in environment.log if line[2] == "freezes"}
    changed = {str(line[1]) for line in environment.log if line[2] == "clock set"}
    offsets = {each.name: each.clock_offset for each in environment.processes}
    for history in flow_parts(evidence):
        for before, after in pairwise(history.versions):
            process = after.process
            claim, old = after.state.run.claim, before.state.run.claim
            if process in frozen | changed or claim is None or old is None:
                continue
            if claim.worker != old.worker or _holds(after.state):
                continue
            now = wall_time(after.at + offsets[process] - _SLOW_SECONDS)
            for wait in after.state.waits.values():
                if wait.kind == "alarm" and wait.deadline and wait.deadline < now:
                    return f"{process} stored {wait.id} after its time"
    return None


def no_time_of_a_workflow_is_in_the_future(evidence: Evidence) -> str | None:
    """No entry of a history has a time that has not come when it is stored.

    The clock of a worker may differ by the allowed difference.
    """
    for history in flow_parts(evidence):
        seen: dict[tuple[str, int], int] = {}
        for version in history.versions:
            latest = wall_time(version.at + evidence.environment.lease / 2)
            for frame in flow_frames(version, history.run_id):
                key = frame.frame_id, frame.log_id
                entries = frame.entries
                new = entries[seen.get(key, 0) :]
                if any(at > to_milliseconds(latest) for at in _times(new)):
                    return f"{frame} has a time after that of version {version.number}"
                seen[key] = len(entries)
    return None


def _alarm_of(state: RunState, frame_id: str) -> Wait | None:
    for wait in state.waits.values():
        if wait.kind == "alarm" and wait.frame_id == frame_id:
            return wait
    return None


def every_workflow_ends(evidence: Evidence) -> str | None:
    """In the end, code waits only for people, events, or a time that has not come."""
    now = wall_time(evidence.environment.loop.time())
    for history in flow_runs(evidence):
        if history.ended or is_poison(evidence, history):
            continue
        state = history.newest_state
        for frame in flow_frames(history.versions[-1], history.run_id):
            if frame.step in ("new", "due") and not _holds(state):
                return f"{frame} is {frame.step}, and nobody goes on with it"
            alarm = _alarm_of(state, frame.frame_id)
            if alarm is not None and alarm.deadline and alarm.deadline < now:
                return f"{frame} has an alarm that was due at {alarm.deadline}"
            rows = [c.id for c in state.calls.values() if c.frame_id == frame.frame_id]
            if alarm is None and not any(is_open(state, each) for each in rows):
                return f"{frame} waits for nothing"
    return None


def only_code_that_nothing_wakes_is_stuck(evidence: Evidence) -> str | None:
    """Code fails as stuck only in the tree that awaits nothing, after its last call."""
    for history in flow_runs(evidence):
        failure = history.newest_state.run.failure
        if failure is None or failure.code != "stuck":
            continue
        for frame in flow_frames(history.versions[-1], history.run_id):
            open_calls = frame.commands.keys() - frame.outcomes.keys()
            if frame.name != STUCK_TREE or open_calls:
                return f"{frame} is stuck, with the open calls {sorted(open_calls)}"
    return None
