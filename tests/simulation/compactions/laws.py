"""Laws of compactions: nothing that must stay is lost, and no summary is paid again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.core.messages import Message, find_violation
from tests.simulation.agents import summarized_turns
from tests.simulation.evidence import Evidence, RunHistory, Version, is_rewind


def _compactions(history: RunHistory) -> Iterator[tuple[Version, Version, str]]:
    """Yield the versions before and after each compaction, and its frame."""
    for before, after in pairwise(history.versions):
        if is_rewind(before, after):
            continue
        for frame_id, log in after.state.logs.items():
            old = before.state.logs.get(frame_id)
            frame = after.state.frames.get(frame_id)
            if frame is not None and frame.step:
                continue  # a workflow may begin anew
            earlier = before.state.frames.get(frame_id)
            if frame and earlier and frame.agent != earlier.agent:
                continue  # the filter of a handoff drops messages too
            if old is not None and old.id != log.id:
                yield before, after, frame_id


def _turns(messages: tuple[Message, ...]) -> int:
    """Return how many turns the summary among the messages stands for."""
    return max(summarized_turns(each.content) for each in messages)


def compaction_keeps_what_must_stay(evidence: Evidence) -> str | None:
    """The task and two rounds stay as they are, and each call has its result.

    The summary stands for all other turns. No other frame changes its log.
    """
    for history in evidence.runs.values():
        for before, after, frame_id in _compactions(history):
            old = before.state.logs[frame_id].messages
            new = after.state.logs[frame_id].messages
            where = f"version {after.number} of {history.run_id}, {frame_id}"
            if find_violation(new) is not None:
                return f"{where}: {find_violation(new)}"
            task = next(each for each in old if each.role == "user")
            if task not in new:
                return f"{where} has lost its task"
            replies = [each for each in new if each.role == "assistant"]
            if len(replies) < 2 or not set(replies) <= {*old, *replies}:
                return f"{where} has only {len(replies)} rounds"
            told = _turns(new) + len(replies)
            if told != after.state.frames[frame_id].turns:
                return f"{where} tells of {told} turns"
    return None


def stored_summary_is_not_asked_again(evidence: Evidence) -> str | None:
    """No process asks for a summary that a version has; no worker asks twice."""
    stored: dict[tuple[str, int], float] = {}
    for history in evidence.runs.values():
        for _, after, frame_id in _compactions(history):
            turns = _turns(after.state.logs[frame_id].messages)
            stored.setdefault((history.run_id, turns), after.at)
    asked: set[tuple[str, str, int]] = set()
    for run_id, turns, at in evidence.environment.summaries:
        summary = f"the summary of {turns} turns of {run_id}"
        if at > stored.get((run_id, turns), at):
            return f"{summary} is asked again"
        version = evidence.runs[run_id].version_before(at)
        claim = version.state.run.claim if version else None
        key = (claim.worker if claim else "", run_id, turns)
        if key in asked:
            return f"{summary} is asked twice by one worker"
        asked.add(key)
    return None
