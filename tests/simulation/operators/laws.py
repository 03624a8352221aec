"""Laws of operators: pauses, and calls that they cancel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.core.operator_request import OperatorRequest
from continuations.core.rows.calls import CLOSED_STATES, Nested
from continuations.core.rows.state import RunState
from continuations.ledger import layout
from continuations.wire.arrivals import OPERATOR_REQUEST
from tests.simulation.agents import POISON_TREES
from tests.simulation.evidence import Evidence, RunHistory


def requests_of(evidence: Evidence, run_id: str) -> Iterator[OperatorRequest]:
    """Yield the recorded requests of operators to a run, in their order."""
    prefix = f"{layout.arrivals_prefix(run_id)}o-"
    for key in sorted(key for key in evidence.created if key.startswith(prefix)):
        yield OPERATOR_REQUEST.decode(evidence.created[key][0].body, key, run_id)


def paused_run_begins_nothing(evidence: Evidence) -> str | None:
    """No call and no model turn begins under a version in which the run is paused.

    A worker may see the end of the pause before it stores the next version.
    """
    for effect in evidence.environment.effects:
        history = evidence.runs[effect.run_id]
        around = history.versions[effect.fence - 1 : effect.fence + 1]
        if around and all(_is_paused(version.state) for version in around):
            return f"{effect} began in a paused run"
    for turn in evidence.environment.model_turns:
        own = [
            version.state
            for version in evidence.runs[turn.run_id].versions
            if version.process == turn.process and version.at < turn.began_at
        ]
        if own and _is_paused(own[-1]):
            return f"{turn} began in a paused run"
    return None


def _is_paused(state: RunState) -> bool:
    return any(wait.subject == "run" for wait in state.waits.values())


def cancelled_call_never_begins(evidence: Evidence) -> str | None:
    """No call begins under a version that has it as cancelled, or its agent.

    And the model of a cancelled agent is not asked any more.
    """
    for effect in evidence.environment.effects:
        versions = evidence.runs[effect.run_id].versions
        if effect.fence > len(versions):
            continue  # that is a matter of other laws
        version = versions[effect.fence - 1]
        call = version.state.calls.get(effect.call_id)
        if call is None or isinstance(call.state, CLOSED_STATES):
            return f"{effect} began under version {version.number}, without the call"
        if _agent_is_cancelled(version.state, call.frame_id) and (
            version.process == effect.process
        ):
            return f"{effect} began, and its agent was cancelled"
    # A rewind begins another part, whose agents have other turns.
    for history in (part for run in evidence.runs.values() for part in run.parts):
        for before, after in pairwise(history.versions):
            for frame in after.state.frames.values():
                old = before.state.frames.get(frame.id)
                if old is None or old.turns == frame.turns:
                    continue
                if _agent_is_cancelled(before.state, frame.id):
                    return f"{history.run_id} {frame.id} replied, and it was cancelled"
    return None


def _agent_is_cancelled(state: RunState, frame_id: str) -> bool:
    parent = state.frames[frame_id].parent_call_id
    return parent is not None and state.calls[parent].cancelled is not None


def is_poison(evidence: Evidence, history: RunHistory) -> bool:
    """Tell whether the code of a run stops every worker that works on it."""
    return evidence.environment.tree_of_run[history.run_id] in POISON_TREES


def cancelled_agent_ends(evidence: Evidence) -> str | None:
    """At the end, no cancelled agent is left, and every request is taken in.

    A poison run may go on without end. Only a cancellation of the run ends it.
    """
    for history in evidence.runs.values():
        if not history.versions or history.ended or is_poison(evidence, history):
            continue
        state = history.newest_state
        left = [
            call.id
            for call in state.calls.values()
            if call.cancelled is not None and isinstance(call.state, Nested)
        ]
        if left:
            return f"{history.run_id} has the cancelled calls {left}"
        asked = sum(1 for _ in requests_of(evidence, history.run_id))
        if asked != state.run.last_operator_number:
            return (
                f"{history.run_id} took in {state.run.last_operator_number} of {asked}"
            )
    return None
