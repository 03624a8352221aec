"""The differences between two versions of a run, in sentences like those of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.visible_text import shorten
from continuations.serve.pages.call_arguments import CallArguments
from continuations.serve.pages.run_log import (
    VERBS,
    LogLine,
    fields_text,
    message_text,
    wait_title,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations.core.reading import run_past
    from continuations.core.reading.run_past import Change

_TEXT_CHARS = 300
_PATH_ENDS = 4
_ARROW = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
# The words for each state of a call, by its stored name.
_STATE_WORDS = {
    "proposed": "is asked for",
    "waiting": "waits",
    "ready": "may run",
    "started": "runs",
    "nested": "works as an agent",
    "unknown": "has an unknown outcome",
    "parked": "waits",
    "returned": "has ended",
    "errored": "has failed",
    "refused": "was refused",
}


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """One difference.

    Attributes:
        change: `added`, `changed` or `removed`.
        path: Names from the root agent down; those in the middle may be left out.
        line: The difference in a sentence.
    """

    change: Change
    path: str
    line: LogLine


def difference_lines(found: run_past.RunDifference) -> Iterator[DifferenceLine]:
    """Yield the differences: agents, messages, calls, waits and states."""
    for frame in found.frames:
        line = LogLine("agent", "id", "Agent", frame.agent)
        yield _line(frame.change, frame.path[:-1], line)
    for message in found.messages:
        yield _line(message.change, message.path[:-1], _message_line(message))
    arguments = CallArguments(waits=(each.wait for each in found.waits))
    for call in found.calls:
        yield _line(call.change, call.path[:-1], _call_line(call, arguments))
    for wait in found.waits:
        yield _line(wait.change, wait.wait.path[:-1], _wait_line(wait))
    for state in found.states:
        text = _changed_fields(state.before, state.after)
        name = state.path[-1] if state.path else ""
        line = LogLine("agent", "id", "State of", name, "", shorten(text, _TEXT_CHARS))
        yield _line("changed", state.path[:-1], line)


def _line(change: Change, path: tuple[str, ...], line: LogLine) -> DifferenceLine:
    left_out = len(path) - 2 * _PATH_ENDS
    if left_out > 1:
        # A run of many levels has many lines with long paths.
        middle = f"… {left_out:,} levels …"
        path = (*path[:_PATH_ENDS], middle, *path[-_PATH_ENDS:])
    return DifferenceLine(change, f" {_ARROW} ".join(path), line)


def _message_line(found: run_past.MessageDifference) -> LogLine:
    message, name = found.message, found.path[-1] if found.path else ""
    role = message.get("role")
    text = message_text(message.get("content"), role).replace("\n", " ")
    quote = shorten(text, _TEXT_CHARS)
    match role:
        case "assistant":
            called = [
                str((jsontext.as_object(each.get("function")) or {}).get("name"))
                for each in map(jsontext.as_object, message.get("tool_calls") or ())
                if each is not None
            ]
            words = f"called {', '.join(called)}" if called else "wrote"
            return LogLine("agent", "id", "", name, words, quote)
        case "tool":
            return LogLine("tool", "id", "Result for", name, "", quote)
        case "user":
            return LogLine("person", "id", "Message to", name, "", quote)
        case _:
            return LogLine("agent", "id", "Instructions of", name, "", quote)


def _call_line(call: run_past.CallDifference, arguments: CallArguments) -> LogLine:
    text = _state_words(call.before, call.after)
    before, after = call.arguments_before_json, call.arguments_after_json
    if before and after and before != after:
        quote = _changed_fields(
            arguments.readings(call.call, before), arguments.readings(call.call, after)
        )
        text += ", with other arguments"
    else:
        quote = arguments.text(call.call, after or before or "", _TEXT_CHARS)
    name = call.tool.removeprefix(".")
    return LogLine("tool", "id", "", name, text, shorten(quote, _TEXT_CHARS))


def _state_words(before: str | None, after: str | None) -> str:
    """Return what a call did in both versions, of which one may not have it."""
    if after is None:
        return "is no longer open"
    later = _STATE_WORDS.get(after, after)
    earlier = None if before is None else _STATE_WORDS.get(before, before)
    return later if earlier in (None, later) else f"{earlier}, and later {later}"


def _wait_line(found: run_past.WaitDifference) -> LogLine:
    wait, decision = found.wait, found.decision
    title = wait_title(wait)
    if found.change == "added":
        text = f"waits for {wait.rules.awaited}"
        return LogLine(wait.rules.words.icon, "wt", "", wait.tool, text, title)
    if decision is None:
        return LogLine("clock", "id", "The wait of", wait.tool, "is over", title)
    if decision.kind == "expire":
        return LogLine("clock", "dg", "The deadline of", wait.tool, "passed", title)
    who = f"{decision.by or 'Somebody'} {VERBS[decision.kind]}"
    tone = "ok" if decision.kind in ("approve", "answer") else "dg"
    return LogLine("person", tone, who, wait.tool, "", title)


def _changed_fields(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Return the fields that differ: `cents: €12.50, later €1,250.00`."""
    names = dict.fromkeys([*before, *after])
    texts: list[str] = []
    for name in names:
        old, new = before.get(name), after.get(name)
        if old == new and (name in before) == (name in after):
            continue
        earlier = fields_text({name: old}, _TEXT_CHARS) if name in before else "nothing"
        later = fields_text({name: new}, _TEXT_CHARS) if name in after else "nothing"
        texts.append(f"{name}: {earlier}, later {later}")
    return "; ".join(texts)
