"""Laws of guardrails that let people judge texts, and agents judge calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.rows.state import ROOT_FRAME_ID
from tests.simulation.agents import JUDGED_TREES
from tests.simulation.evidence import Evidence, RunHistory
from tests.simulation.judging.guardrails import REFUSED_BY_AGENT

_NOTES = ("(This message was refused.)", "(This reply was withheld.)")


def _judged_runs(evidence: Evidence) -> Iterator[RunHistory]:
    for run_id, history in evidence.runs.items():
        if evidence.environment.tree_of_run.get(run_id) in JUDGED_TREES:
            yield history


def _is_accepted(
    evidence: Evidence, run_id: str, kind: str, text: str, before: float
) -> bool:
    """Return whether a person accepted a text of a run before a true time."""
    return any(
        record.wait.run_id == run_id
        and record.wait.kind == kind
        and record.wait.arguments.get(kind) == text
        and record.decision is not None
        and record.decision.kind == "approve"
        and record.decided_at <= before
        for record in evidence.waits.values()
    )


def no_input_is_read_unasked(evidence: Evidence) -> str | None:
    """A model reads a new input only after a person accepted exactly this text."""
    runs = {history.run_id for history in _judged_runs(evidence)}
    for turn in evidence.environment.model_turns:
        if turn.run_id not in runs:
            continue
        text = _new_text([jsontext.parse(each) for each in turn.messages])
        if text is None:
            continue
        at = turn.clock_sample.true_time
        if not _is_accepted(evidence, turn.run_id, "input", text, at):
            return f"{turn} read {text!r}, which no person accepted"
    return None


def _new_text(messages: list[dict[str, Any]]) -> str | None:
    """Return the texts of users at the end of a conversation, `None` for none."""
    texts: list[str] = []
    for message in reversed(messages):
        if message["role"] != "user":
            break
        texts.append(message["content"])
    return "\n\n".join(reversed(texts)) if texts else None


def no_output_is_used_unasked(evidence: Evidence) -> str | None:
    """A reply without calls is in a version only after a person accepted its text."""
    for history in _judged_runs(evidence):
        for version in history.versions:
            for frame_id, log in version.state.logs.items():
                for text in _replies(log.messages):
                    at, run_id = version.at, history.run_id
                    if not _is_accepted(evidence, run_id, "output", text, at):
                        return f"{run_id}: frame {frame_id} has {text!r} unasked"
            output = version.state.run.output
            replies = [*_replies(version.state.logs[ROOT_FRAME_ID].messages)]
            if output is not None and output != replies[-1]:
                return f"{history.run_id} returned {output!r}, which is no reply"
    return None


def _replies(messages: tuple[Message, ...]) -> Iterator[str]:
    for message in messages:
        is_reply = message.role == "assistant" and not message.tool_call_ids
        if is_reply and message.content not in _NOTES:
            yield message.content


def refused_by_an_agent_never_runs(evidence: Evidence) -> str | None:
    """No call runs that the checking agent refuses, also as an edit."""
    runs = {history.run_id for history in _judged_runs(evidence)}
    for effect in evidence.environment.effects:
        what = jsontext.parse(effect.arguments)["what"]
        if effect.run_id in runs and what == REFUSED_BY_AGENT:
            return f"{effect} ran, and an agent refuses it"
    return None
