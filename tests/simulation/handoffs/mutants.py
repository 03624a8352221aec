"""Bugs of handoffs: another agent goes on than the one that the model named."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from continuations.authoring.tool.tool_protocol import AgentProtocol
from continuations.core.changes import history, reducer, tool_messages
from continuations.core.messages import Message
from continuations.core.rows import calls
from continuations.core.rows.calls import CallRow
from continuations.core.rows.state import RunState
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.worker import performer
from tests.simulation.families import HANDOFFS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    skip,
)

mutant = mutants_of(HANDOFFS)


@mutant("each_turn_is_of_the_agent_that_has_the_conversation")
def handoffs_are_lost() -> Patches:
    """A handoff changes nothing."""
    yield gives_back(reducer._handed_over, "frame")


@mutant("each_turn_is_of_the_agent_that_has_the_conversation")
def the_last_handoff_counts() -> Patches:
    """The last handoff of a turn counts, not the first one."""

    def last(original: Original, rows: Iterable[CallRow]) -> Any:
        return original(rows=[*rows][::-1])

    yield skip(calls.handoff_of, only_in=(performer,))
    yield patch(calls.handoff_of, last, only_in=(reducer,))


@mutant("each_turn_is_of_the_agent_that_has_the_conversation")
def the_first_agent_goes_on() -> Patches:
    """A process asks the agent with which the conversation began."""

    def resolve(
        self: StackBinding, state: RunState, frame: str
    ) -> AgentProtocol | None:
        return self._first_agent(state, frame)

    yield patch(StackBinding._resolve_agent, resolve)


@mutant("each_turn_is_of_the_agent_that_has_the_conversation")
def instructions_stay_after_a_handoff() -> Patches:
    """The next agent reads the instructions of the one before it."""
    yield skip(tool_messages.new_instructions)


@mutant("the_next_agent_reads_what_the_filter_left")
def filters_are_forgotten() -> Patches:
    """The next agent reads all messages, whatever the filter says."""
    yield gives_back(history.without_dropped, "frame")


@mutant("the_next_agent_reads_what_the_filter_left")
def filters_leave_the_newest_turn() -> Patches:
    """The turn before a handoff stays, whatever the filter says."""

    def dropped(
        original: Original, messages: Sequence[Message], chosen: Collection[int]
    ) -> Any:
        newest = range(len(messages) - 4, len(messages))
        return original(chosen={*chosen, *newest})

    yield patch(history.dropped_indexes, dropped)
