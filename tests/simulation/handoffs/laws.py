"""The laws of handoffs."""

from __future__ import annotations

from continuations.core import jsontext
from continuations.core.messages import Message
from tests.simulation.agents import HANDOFF, HANDOFF_TREES, Line, Tree, instructions_of
from tests.simulation.evidence import Evidence


def each_turn_is_of_the_agent_that_has_the_conversation(
    evidence: Evidence,
) -> str | None:
    """The script tells which agent is asked, and with which instructions."""
    for turn in evidence.environment.model_turns:
        tree = HANDOFF_TREES.get(evidence.environment.tree_of_run[turn.run_id])
        if tree is None or (tree.sub_agents and turn.frame_task == "go"):
            continue
        expected = _holder(tree, turn.frame_task, turn.turn)
        if expected is not None and turn.agent != expected:
            return f"{turn} was asked of {turn.agent}, and {expected} has it"
        first = jsontext.as_object(jsontext.parse(turn.messages[0])) or {}
        if first.get("content") != instructions_of(turn.agent):
            return f"{turn} has the instructions {first.get('content')}"
    return None


def the_next_agent_reads_what_the_filter_left(evidence: Evidence) -> str | None:
    """It reads no turn before that of the handoff."""
    for turn in evidence.environment.model_turns:
        tree = HANDOFF_TREES.get(evidence.environment.tree_of_run[turn.run_id])
        if tree is None or not tree.filters:
            continue
        lines = tree.script[turn.frame_task][: turn.turn]
        handed = [n for n, line in enumerate(lines) if _hands_over(line)]
        messages = [Message.from_json(text) for text in turn.messages]
        ids = [each for message in messages for each in message.tool_call_ids]
        expected = [
            f"call_{n}_{place}"
            for n, line in enumerate(lines)
            for place in range(len(line))
            if n >= max(handed, default=0)
        ]
        if ids != expected:
            return f"{turn} has the calls {ids}, and {expected} are left"
    return None


def _hands_over(line: Line) -> bool:
    return any(call[0].startswith(HANDOFF) for call in line)


def _holder(tree: Tree, task: str, turn: int) -> str | None:
    """Return the agent that a turn is of, or `None` for the first one of a frame."""
    holder = None if tree.sub_agents else tree.name
    for line in tree.script[task][:turn]:
        if not isinstance(line, str):
            names = [name for name, _ in line if name.startswith(HANDOFF)]
            holder = names[0].removeprefix(HANDOFF) if names else holder
    return holder
