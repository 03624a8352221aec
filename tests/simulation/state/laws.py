"""The law of the state of an agent."""

from __future__ import annotations

from collections.abc import Sequence

from continuations.core import jsontext
from continuations.core.messages import Message
from tests.simulation.agents import GUARDED_TREES, STATE_TREES
from tests.simulation.evidence import Evidence
from tests.simulation.state.tools import RESULT


def state_is_the_replay_of_its_changes(evidence: Evidence) -> str | None:
    """In each version, the state has each change whose result the model reads, once.

    The results of a frame tell the changes in the order of the calls, and what each
    call read. A call that did not return changed nothing.
    """
    for run_id, history in evidence.runs.items():
        if (
            evidence.environment.tree_of_run.get(run_id)
            not in STATE_TREES | GUARDED_TREES
        ):
            continue
        for version in history.versions:
            for frame in version.state.frames.values():
                messages = version.state.logs[frame.id].messages
                state = jsontext.parse(frame.state_json or "{}").get("kept", [])
                problem = _difference(messages, state)
                if problem is not None:
                    return f"{run_id}, version {version.number}, {frame.id}: {problem}"
    return None


def _difference(messages: Sequence[Message], state: list[str]) -> str | None:
    replay: list[str] = []
    for message in messages:
        found = RESULT.search(message.content) if message.role == "tool" else None
        if found is None:
            continue
        replay.append(found[1])
        if len(replay) != int(found[2]):
            return f"call {len(replay)} read the state before call {found[2]}"
    return None if replay == state else f"its results tell {replay}, not {state}"
