"""The paused stack as a tree: agents, their calls, what waits since when.

Drawn with a list of what is still to draw and no recursion, so a thousand levels are
as good as three. Below a depth the indentation stops growing and the level is written
in front instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from continuations.cli.formatting import usage_text, utc_text
from continuations.core import jsontext
from continuations.present.escaping import escape_invisible, indent_escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations import Call, Continuation, Frame, Wait

MAX_INDENT_DEPTH = 12
_STATE_STYLES = {
    "waiting": "wait",
    "unknown": "wait",
    "decided": "done",
    "errored": "bad",
    "refused": "bad",
}
_WORD = re.compile(r"[\w.-]+\Z")


class Line(NamedTuple):
    """One line: what leads to it, what it says, and in which tone."""

    prefix: str
    text: str
    style: str = ""


class _Branch(NamedTuple):
    call: Call
    depth: int
    prefix: str
    child_prefix: str


def header_lines(continuation: Continuation) -> Iterator[Line]:
    """Say which run and version it is, how it stands and what it has cost."""
    run = continuation.run_state.run
    text = f"{run.id}: {run.status}, version {continuation.version}"
    yield Line("", escape_invisible(text), "head")
    yield Line(
        "", f"started {utc_text(run.created_at)}; {usage_text(continuation.usage)}"
    )
    if run.claim is not None:
        held = f"held by {run.claim.worker} until {utc_text(run.claim.until)}"
        yield Line("", escape_invisible(held), "busy")
    if continuation.failure is not None:
        yield Line("", f"error: {escape_invisible(continuation.failure.code)}", "bad")
        yield Line("", indent_escaped(continuation.failure.message))
    if continuation.output is not None:
        yield Line("", "output:")
        yield Line("", indent_escaped(continuation.output))


def tree_lines(root: Frame, ends: Mapping[str, str]) -> Iterator[Line]:
    """Draw the stack; `ends` tells what ended the waits that are over."""
    yield Line("", escape_invisible(root.agent), "agent")
    todo = _branches(root, "", 1)
    while todo:
        branch = todo.pop()
        frame = branch.call.frame
        wait = branch.call.wait
        state = "decided" if wait and wait.id in ends else branch.call.state
        yield Line(branch.prefix, *_call_text(branch.call, frame, state))
        if wait is not None:
            yield from _wait_lines(wait, branch.child_prefix + "  ", ends)
        if frame is not None:
            todo.extend(_branches(frame, branch.child_prefix, branch.depth + 1))


def _branches(frame: Frame, indent: str, depth: int) -> list[_Branch]:
    """Return a frame's calls, the first one last: it is drawn next."""
    calls = frame.calls
    if depth > MAX_INDENT_DEPTH:
        lead = f"{indent}[{depth}] "
        return [_Branch(call, depth, lead, indent) for call in reversed(calls)]
    found = [_Branch(call, depth, f"{indent}├─ ", f"{indent}│  ") for call in calls]
    if found:
        last = found[-1]
        found[-1] = last._replace(prefix=f"{indent}└─ ", child_prefix=f"{indent}   ")
    return found[::-1]


def _call_text(call: Call, frame: Frame | None, state: str) -> tuple[str, str]:
    # A model may ask for a tool of any name: one that is no word is quoted.
    tool = call.tool if _WORD.match(call.tool) else jsontext.dump(call.tool)
    named = "" if frame is None or frame.agent == call.tool else f" ({frame.agent})"
    text = f"{tool}{named} {jsontext.dump(call.arguments)}"
    if frame is not None:
        return escape_invisible(text), "agent"
    return f"{escape_invisible(text)}: {state}", _STATE_STYLES.get(state, "")


def _wait_lines(wait: Wait, indent: str, ends: Mapping[str, str]) -> Iterator[Line]:
    # The id is last on its line and whole: it is what a decider copies.
    end = ends.get(wait.id)
    if end is not None:
        yield Line(indent, f"{escape_invisible(end)}; resume the run", "done")
    else:
        until = f", deadline {utc_text(wait.deadline)}" if wait.deadline else ""
        text = f"waits for {wait.kind} since {utc_text(wait.created_at)}{until}"
        yield Line(indent, escape_invisible(text), "wait")
    if wait.note is not None:
        yield Line(indent, escape_invisible(wait.note))
    yield Line(indent, escape_invisible(wait.id))
