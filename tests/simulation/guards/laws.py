"""Laws of hooks and guardrails: what runs is what they let through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from continuations.core import jsontext
from continuations.core.rows.calls import Errored
from continuations.core.rows.state import RunState
from tests.simulation.agents import GUARDED_TREES, JUDGED_TREES
from tests.simulation.evidence import Evidence, WaitRecord
from tests.simulation.guards.tools import ASKED, REFUSED, REFUSED_TASK, halved
from tests.simulation.judging.guardrails import REFUSED_BY_AGENT
from tests.simulation.sim_environment import Effect

# The model reads it as the result of a refused call.
_REFUSAL = "the guardrail refuses refused it"


def _guarded_effects(evidence: Evidence) -> Iterator[tuple[Effect, str]]:
    """Yield each effect of an agent with guardrails, and its argument."""
    for effect in evidence.environment.effects:
        if evidence.environment.tree_of_run.get(effect.run_id) in GUARDED_TREES:
            yield effect, jsontext.parse(effect.arguments)["what"]


def executed_equals_accepted_after_the_hook(evidence: Evidence) -> str | None:
    """A call runs with the arguments that the hook left, or with those of an edit.

    A call about which a guardrail asks runs only after an approval.
    """
    for effect, what in _guarded_effects(evidence):
        expected, is_approved = _expected(evidence, effect)
        if what != expected:
            return f"{effect} ran, and {expected} was accepted"
        if what in ASKED and not is_approved:
            return f"{effect} ran, and no person was asked"
    return None


def _expected(evidence: Evidence, effect: Effect) -> tuple[str, bool]:
    """Return the argument that was accepted, and whether a person approved it."""
    began_at, last = effect.clock_sample.true_time, 0.0
    expected, is_approved = halved(_proposed(evidence, effect)), False
    for record in evidence.waits.values():
        wait, decision = record.wait, record.decision
        if (wait.run_id, wait.call_id) != (effect.run_id, effect.call_id):
            continue
        if decision is None or decision.kind != "approve":
            continue
        if not last < record.decided_at <= began_at:
            continue
        last, is_approved = record.decided_at, True
        approved = decision.arguments or wait.arguments_json
        expected = jsontext.parse(approved)["what"]
    return expected, is_approved


def _proposed(evidence: Evidence, effect: Effect) -> str:
    """Return the argument that the model proposed."""
    for version in evidence.runs[effect.run_id].versions:
        call = version.state.calls.get(effect.call_id)
        if call is not None:
            what: str = jsontext.parse(call.raw_arguments)["what"]
            return what
    return ""


def refused_by_guardrail(evidence: Evidence, record: WaitRecord) -> bool:
    """Return whether a guardrail refuses the arguments that a person approved."""
    wait, decision = record.wait, record.decision
    tree = evidence.environment.tree_of_run.get(wait.run_id)
    if tree not in GUARDED_TREES | JUDGED_TREES:
        return False
    edited = decision.arguments if decision is not None else None
    what = jsontext.parse(edited or wait.arguments_json).get("what")
    return what in (REFUSED if tree in GUARDED_TREES else {REFUSED_BY_AGENT})


def refused_by_a_guardrail_never_runs(evidence: Evidence) -> str | None:
    """No call runs with arguments that a guardrail refuses, and no refused task."""
    for effect, what in _guarded_effects(evidence):
        if what in REFUSED:
            return f"{effect} ran, and a guardrail refuses it"
    for turn in evidence.environment.model_turns:
        if turn.frame_task == REFUSED_TASK:
            return f"{turn} was asked, and a guardrail refuses its task"
    return None


def each_trip_is_told_once(evidence: Evidence) -> str | None:
    """The versions of a run add one trip for each call that a guardrail refused."""
    for run_id, history in evidence.runs.items():
        if evidence.environment.tree_of_run.get(run_id) not in GUARDED_TREES:
            continue
        refused: set[tuple[str, str]] = set()
        told: Counter[str] = Counter()
        before: set[str] = set()
        for version in history.versions:
            frames = version.state.frames.values()
            trips = {trip.id: trip for frame in frames for trip in frame.trips}
            new = trips.keys() - before
            told.update(id_ for id_ in new if trips[id_].guardrail == "refuses")
            before = set(trips)
            refused |= set(_refused_calls(version.state))
        if max(told.values(), default=1) > 1 or len(told) != len(refused):
            return f"{run_id} refused {len(refused)} calls, and told of {dict(told)}"
    return None


def _refused_calls(state: RunState) -> Iterator[tuple[str, str]]:
    """Yield the frame and the id of each refused call whose end a version has."""
    for frame_id, log in state.logs.items():
        for message in log.messages:
            if message.role == "tool" and _REFUSAL in message.content:
                yield frame_id, str(message.data["tool_call_id"])
    for call in state.calls.values():
        if isinstance(call.state, Errored) and _REFUSAL in call.state.content:
            yield call.frame_id, call.tool_call_id
