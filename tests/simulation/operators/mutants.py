"""Bugs of pauses, and of calls that operators cancel."""

from __future__ import annotations

from typing import Any

from continuations.core.changes import operator_changes
from continuations.core.changes.events import AgentCancelled
from continuations.core.changes.operator_changes import with_operator_requests
from continuations.core.changes.reducer import advance
from continuations.core.rows.calls import Nested
from continuations.core.rows.decisions import OPERATOR, Door
from continuations.core.rows.state import RunState
from continuations.engine.journal.run_ending import RunEnder
from continuations.ledger import markers
from continuations.ledger.layout import Marker
from tests.simulation.families import OPERATORS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    returns,
)

mutant = mutants_of(OPERATORS)


@mutant("paused_run_begins_nothing")
def a_paused_run_goes_on() -> Patches:
    """A paused run goes on."""
    yield returns(RunState.is_suspended, value=False)


@mutant("cancelled_agent_ends", "no_run_stranded")
def a_request_of_an_operator_has_no_marker() -> Patches:
    """The request of an operator has no marker."""

    async def create(original: Original, marker: Marker) -> Any:
        return None if marker.reason == "o" else await original()

    yield patch(markers.create, create)


@mutant("cancelled_agent_ends")
def requests_of_operators_are_not_taken_in() -> Patches:
    """A run does not take in the requests of operators."""
    yield gives_back(with_operator_requests, "state")


@mutant("cancelled_call_never_begins")
def a_cancelled_agent_goes_on() -> Patches:
    """A cancelled agent is marked, and goes on."""

    def with_cancelled_call(
        original: Original, state: RunState, call_id: str, reason: str
    ) -> Any:
        call = state.calls.get(call_id)
        if call is None or not isinstance(call.state, Nested):
            return original()
        return advance(state, AgentCancelled(call_id=call_id, reason=reason))

    yield patch(operator_changes.with_cancelled_call, with_cancelled_call)


@mutant("ended_by_its_decision")
def waits_of_a_cancelled_call_stay_undecided() -> Patches:
    """The waits of a cancelled call have no decision."""

    async def close_waits(original: Original, door: Door | None) -> None:
        if door != OPERATOR:
            await original()

    yield patch(RunEnder.close_waits, close_waits)
