"""The laws of what a fork or an adopted run takes from its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.rows.state import RunState
    from tests.simulation.evidence import Evidence

    Transcripts = dict[str, list[Any]]


def a_fork_has_the_transcripts_that_were_asked_for(evidence: Evidence) -> str | None:
    """A fork begins with the changed messages of its frames; nothing else differs."""
    for run_id, source, first in _forks(evidence):
        expected = _expected(evidence, run_id, source)
        if _transcripts(first) != expected:
            return f"{run_id} begins with other messages than those asked for"
        for name, ours, theirs in (
            ("frames", first.frames, source.frames),
            ("calls", first.calls, source.calls),
        ):
            if ours.keys() != theirs.keys():
                return f"{run_id} begins with other {name} than its source"
        for call in first.calls.values():
            old = source.calls[call.id]
            if (call.tool, call.arguments) != (old.tool, old.arguments):
                return f"{run_id} begins with another call {call.id}"
    return None


def models_read_the_changed_messages_of_a_fork(evidence: Evidence) -> str | None:
    """Each request of a fork begins with the messages that its frame was given."""
    for run_id, source, _ in _forks(evidence):
        changed = evidence.environment.fork_messages.get(run_id, {})
        transcripts = _expected(evidence, run_id, source)
        given = {
            transcript[0]["content"]: transcript
            for frame_id, transcript in transcripts.items()
            if frame_id in changed
        }
        for turn in evidence.environment.model_turns:
            expected = given.get(turn.frame_task, [])
            read = [jsontext.parse(text) for text in turn.messages[: len(expected)]]
            if turn.run_id == run_id and read != expected:
                return f"{turn} does not read the changed messages"
    return None


def _forks(evidence: Evidence) -> Iterator[tuple[str, RunState, RunState]]:
    """Yield each fork or adopted run, the state of its source, and its first state."""
    for run_id, history in evidence.runs.items():
        origin = evidence.origin_of(history)
        if origin is not None:
            yield run_id, origin.version.state, history.versions[0].state


def _expected(evidence: Evidence, run_id: str, source: RunState) -> Transcripts:
    transcripts = _transcripts(source)
    changed = evidence.environment.fork_messages.get(run_id, {})
    for frame_id, given in changed.items():
        more = [{"role": "user", "content": given}]
        is_text = isinstance(given, str)
        transcripts[frame_id] = transcripts[frame_id] + more if is_text else [*given]
    return transcripts


def _transcripts(state: RunState) -> Transcripts:
    return {
        frame_id: [dict(message.data) for message in log.messages]
        for frame_id, log in state.logs.items()
    }
