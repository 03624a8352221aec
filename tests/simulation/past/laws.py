"""Laws of forks and rewinds: what they keep, what they ask, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.core.rows.calls import CallRow, Nested, Started
from continuations.core.rows.state import RunState
from tests.simulation.evidence import Evidence, RunHistory, Version, is_rewind
from tests.simulation.past.actors import is_forker
from tests.simulation.seams.tools import first_name
from tests.simulation.sim_environment import Effect
from tests.simulation.tools import TOOLS


def rewinds_of(history: RunHistory) -> Iterator[tuple[Version, Version, Version]]:
    """Yield of each rewind: the version it goes back to, its claim, and its result.

    A process that takes over makes another claim. So does another rewind: it takes the
    place of the one that was not finished.
    """
    if history.load_error is not None:
        return  # see `versions_are_linear`
    for claim, after in pairwise(history.versions):
        if is_rewind(claim, after):
            yield history.versions[claim.state.run.rewind_to - 1], claim, after


def nothing_is_repeated_unasked(evidence: Evidence) -> str | None:
    """After a fork or rewind, a person is asked before a tool has its effect again.

    That is every tool that was approved or started in the versions that were left, or
    whose call had no result. A tool that only reads needs no question. An adopted run
    asks too, if it goes on from bytes that are older than its source.
    """
    for history in evidence.runs.values():
        for target, claim, after in rewinds_of(history):
            left = history.versions[target.number : claim.number]
            tools = _begun_tools(target.state, left)
            gone = {call_id for each in left for call_id in each.state.calls}
            gone -= target.state.calls.keys()
            for effect in evidence.environment.effects:
                sample = effect.clock_sample.true_time
                is_after = effect.run_id == history.run_id and sample >= after.at
                # A later rewind may bring a call back, and is judged itself.
                is_after = is_after and effect.call_id not in gone
                needs = is_after and _needs_question(effect, tools)
                if needs and not _was_asked(evidence, effect, after.at):
                    return f"{effect} ran unasked after a rewind to {target.number}"
        for effect in _effects_unasked_in_a_fork(evidence, history):
            return f"{effect} ran unasked in a run that goes on from another one"
    return None


def _effects_unasked_in_a_fork(
    evidence: Evidence, history: RunHistory
) -> Iterator[Effect]:
    origin = evidence.origin_of(history)
    if origin is None:
        return
    began = evidence.environment.forks_began[history.run_id]
    later = origin.source.versions[origin.version.number :]
    left = [each for each in later if each.at < began]
    tools = _begun_tools(origin.version.state, left)
    for effect in evidence.environment.effects:
        needs = effect.run_id == history.run_id and _needs_question(effect, tools)
        if needs and not _was_asked(evidence, effect, 0.0):
            yield effect


def _begun_tools(state: RunState, left: list[Version]) -> set[str]:
    """Return the tools that were approved or started in the versions that were left."""
    tools: set[str] = set()
    for version in left:
        for call in version.state.calls.values():
            old = state.calls.get(call.id)
            if _has_begun(call, old) or _is_approved(call, old):
                tools.add(first_name(call.tool))
    return tools


def _has_begun(call: CallRow, old: CallRow | None) -> bool:
    if isinstance(call.state, Nested):
        return False
    earlier = (old.stage, old.attempts) if old else (0, 0)
    starts = isinstance(call.state, Started)
    starts = starts and not (old is not None and isinstance(old.state, Started))
    return starts or (call.stage, call.attempts) > earlier


def _is_approved(call: CallRow, old: CallRow | None) -> bool:
    known = old.approved_digest if old else None
    return call.approved_digest not in (None, known)


def _needs_question(effect: Effect, tools: set[str]) -> bool:
    return effect.tool in tools and not effect.code.read_only


def _was_asked(evidence: Evidence, effect: Effect, since: float) -> bool:
    """Return whether a wait of the call, opened since a time, allows the effect.

    The outcome of a started call is unknown: `verify` may tell that it did not happen.
    """
    for record in evidence.waits.values():
        wait = record.wait
        if (wait.run_id, wait.call_id) != (effect.run_id, effect.call_id):
            continue
        if record.opened_at < since or record.opened_at > effect.began_at:
            continue
        if record.decision is not None and record.decision.kind == "approve":
            return True
        if wait.kind == "unknown" and TOOLS[first_name(wait.tool)].verify is not None:
            return True
    return False


def forks_change_no_other_run(evidence: Evidence) -> str | None:
    """A process that forks or adopts changes nothing of the source or of other runs."""
    for change in evidence.environment.store.changes:
        if is_forker(change.process):
            own = f"{change.process}-"
            if own not in change.key and not change.key.startswith("probe/"):
                return f"{change.process} changed {change.key}"
    return None


def ids_never_go_back(evidence: Evidence) -> str | None:
    """No version has fewer ids, messages or tokens than the one before it."""
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            if after.state.run.history_lost:
                continue  # a repair goes on from the last version that is left
            counts = zip(_counts(before), _counts(after), strict=True)
            if any(new < old for old, new in counts):
                return f"version {after.number} of {history.run_id} counts again"
            if before.state.run.run_nonce != after.state.run.run_nonce:
                return f"version {after.number} of {history.run_id} is another run"
    return None


def _counts(version: Version) -> tuple[int, ...]:
    run = version.state.run
    return (
        run.next_id,
        run.last_inbox_number,
        run.last_signal_number,
        run.last_operator_number,
        run.usage.requests,
    )


def waits_are_asked_anew(evidence: Evidence) -> str | None:
    """A wait that a fork or rewind keeps has a new id; no decision of before ends it.

    A wait that a rewind removes is closed, and so is the one that it replaces.
    """
    for history in evidence.runs.values():
        for _, claim, after in rewinds_of(history):
            earlier = history.versions[: claim.number]
            known = {key for each in earlier for key in _with_object(each.state)}
            kept = known & _with_object(after.state)
            if kept:
                return f"a rewind of {history.run_id} keeps {min(kept)}"
            opened = _with_object(claim.state)
            for wait_id in opened:
                if wait_id not in evidence.decisions:
                    return f"{wait_id} is open after a rewind"
    return None


def _with_object(state: RunState) -> set[str]:
    return {
        wait.id
        for wait in state.waits.values()
        if wait.rules.has_object and wait.subject != "run"
    }


def forks_begin_with_nothing_of_their_own(evidence: Evidence) -> str | None:
    """A fork has no grant, no claim, no message and no signal of its source.

    Nor has a run that was adopted.
    """
    for history in evidence.runs.values():
        if history.run_id not in evidence.environment.sources:
            continue
        for version in history.versions[:1]:
            run = version.state.run
            taken = (run.grants, run.signals, run.claim)
            numbers = (run.last_inbox_number, run.last_signal_number, run.rewind_to)
            if any(taken) or any(numbers):
                return f"{history.run_id} begins with something of its source"
    return None


def no_grant_survives_its_rewind(evidence: Evidence) -> str | None:
    """A grant that was given after a version ends with the rewind to that version."""
    for history in evidence.runs.values():
        for target, _, after in rewinds_of(history):
            known = {grant.id for grant in target.state.run.grants}
            for grant in after.state.run.grants:
                if grant.id not in known:
                    return f"grant {grant.id} of {history.run_id} is still valid"
    return None


def begun_rewinds_are_finished(evidence: Evidence) -> str | None:
    """After the claim of a rewind comes the state of its version, before any call.

    A message that interrupts the turn ends calls of that state. An agent that the state
    has as cancelled ends at once.
    """
    for history in evidence.runs.values():
        run = history.newest_state.run if history.versions else None
        # Without a worker, a cancellation takes the place of an unfinished rewind.
        if run is not None and run.rewind_to and run.status != "cancelled":
            return f"{history.run_id} stays in the middle of a rewind"
        for target, claim, after in rewinds_of(history):
            asked = evidence.environment.rewinds_asked
            if (history.run_id, target.number) not in asked:
                return f"nobody asked to rewind {history.run_id} to {target.number}"
            is_same = _is_back(target.state, after.state)
            if not is_same and not is_interrupted_again(claim, after):
                return f"version {after.number} of {history.run_id} is no rewind"
            for effect in evidence.environment.effects:
                sample = effect.clock_sample.true_time
                is_within = claim.at < sample < after.at
                if effect.run_id == history.run_id and is_within:
                    return f"{effect} ran within a rewind"
    return None


def _is_back(target: RunState, after: RunState) -> bool:
    """Return whether a state is that of a version, but for cancelled agents.

    The calls and agents below a cancelled agent may be gone.
    """
    frames, calls, logs = _stack(after)
    old_frames, old_calls, old_logs = _stack(target)
    gone = {*(old_calls - calls), *(_parent(target, f) for f in old_frames - frames)}
    return (
        frames <= old_frames
        and calls <= old_calls
        and logs == {frame: old_logs[frame] for frame in logs}
        and all(_is_given_up(target, target.calls[each]) for each in gone)
    )


def _parent(state: RunState, frame_id: str) -> str:
    return state.frames[frame_id].parent_call_id or ""


def _is_given_up(state: RunState, call: CallRow) -> bool:
    """Return whether a call, or one above it, is marked as cancelled."""
    above: CallRow | None = call
    while above is not None:
        if above.cancelled is not None:
            return True
        above = state.calls.get(_parent(state, above.frame_id))
    return False


def is_interrupted_again(claim: Version, after: Version) -> bool:
    """Return whether a rewind goes on within a turn that a message interrupts."""
    run = after.state.run
    return not run.rests and claim.state.run.reads_next > run.last_inbox_number


def _stack(state: RunState) -> tuple[set[str], set[str], dict[str, list[str]]]:
    logs = {
        frame_id: [message.text for message in log.messages]
        for frame_id, log in state.logs.items()
    }
    return {*state.frames}, {*state.calls}, logs


def rewinds_tell_what_is_not_undone(evidence: Evidence) -> str | None:
    """The result of a rewind names each call that had an effect since its version."""
    for rewound in evidence.environment.rewound:
        history = evidence.runs[rewound.run_id]
        if history.load_error is not None:
            continue
        target = history.versions[rewound.rewound_to - 1]
        after = history.versions[rewound.version - 1]
        named = {call.call for call in rewound.calls}
        for effect in evidence.environment.effects:
            sample = effect.clock_sample.true_time
            if effect.run_id == rewound.run_id and target.at <= sample < after.at:
                began = _is_begun_in(target.state, effect)
                if not began and effect.call_id not in named:
                    return f"a rewind did not tell of {effect}"
        numbers = [message.number for message in rewound.messages]
        first = target.state.run.last_inbox_number + 1
        if numbers != list(range(first, after.state.run.last_inbox_number + 1)):
            return f"a rewind of {rewound.run_id} told of the messages {numbers}"
    return None


def _is_begun_in(state: RunState, effect: Effect) -> bool:
    """Return whether the version that is gone back to has the start of the effect."""
    call = state.calls.get(effect.call_id)
    begun = call is not None and isinstance(call.state, Started)
    return begun and call is not None and call.attempts >= effect.attempt
