"""Laws of denied calls: a model does not repeat one without end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from continuations.core.messages import Message
from tests.simulation.evidence import Evidence

# The default of `Agent(max_denials=...)`.
MAX_DENIALS = 3


def denied_calls_are_bounded(evidence: Evidence) -> str | None:
    """No model makes a call once more that was denied in three of its turns.

    The messages of the frame tell it. A message of a user, and a result of the same
    call, starts the count again.
    """
    for history in evidence.runs.values():
        for version in history.versions:
            for frame_id, log in version.state.logs.items():
                call = _repeated_too_often(log.messages)
                if call is not None:
                    return f"version {version.number}: {frame_id} repeats {call}"
    return None


def _repeated_too_often(messages: Sequence[Message]) -> str | None:
    denials: Counter[str] = Counter()
    for calls, results in _turns(messages):
        denied = {call for call in calls if _is_denied(results.get(calls[call], ""))}
        denials.update(denied)
        for call in calls.keys() - denied:
            del denials[call]
        repeated = _first_above_limit(denials)
        if repeated is not None:
            return repeated
        if not calls:
            denials.clear()
    return None


def _first_above_limit(denials: Counter[str]) -> str | None:
    return next((call for call, n in denials.items() if n > MAX_DENIALS), None)


def _turns(
    messages: Sequence[Message],
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Return the calls of each turn and their results; no calls for a user message."""
    results = {
        str(each.data["tool_call_id"]): each.content
        for each in messages
        if each.role == "tool"
    }
    for each in messages:
        if each.role == "user":
            yield {}, {}
        elif each.tool_calls:
            ids = {f"{c.tool} {c.arguments}": c.tool_call_id for c in each.tool_calls}
            yield ids, results


def _is_denied(result: str) -> bool:
    return result.startswith(("DENIED:", "EXPIRED:"))
