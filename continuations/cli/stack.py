"""The paused stack as a tree: agents, their calls, what waits since when.

Drawn with a list of what is still to draw and no recursion, so a thousand levels are
as good as three. Below a depth the indentation stops growing and the level is written
in front instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from continuations.cli.report import usage, when
from continuations.core import jsontext
from continuations.engine.visible import quoted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations import Call, Continuation, Frame, Wait

DEEPEST = 12
_TONES = {
    "waiting": "wait",
    "unknown": "wait",
    "decided": "done",
    "errored": "bad",
    "refused": "bad",
}
_WORD = re.compile(r"[\w.-]+\Z")


class Line(NamedTuple):
    """One line: what leads to it, what it says, and in which tone."""

    lead: str
    text: str
    tone: str = ""


class _Branch(NamedTuple):
    call: Call
    depth: int
    lead: str
    below: str


def header(continuation: Continuation) -> Iterator[Line]:
    """Say which run and version it is, how it stands and what it has cost."""
    run = continuation.table.run
    text = f"{run.id}: {run.status}, version {continuation.version}"
    yield Line("", visible(text), "head")
    yield Line("", f"started {when(run.created_at)}; {usage(continuation.usage)}")
    if run.claim is not None:
        held = f"held by {run.claim.worker} until {when(run.claim.until)}"
        yield Line("", visible(held), "busy")
    if continuation.failure is not None:
        yield Line("", f"error: {visible(continuation.failure.code)}", "bad")
        yield Line("", quoted(continuation.failure.message))
    if continuation.output is not None:
        yield Line("", "output:")
        yield Line("", quoted(continuation.output))


def tree(root: Frame, ends: Mapping[str, str]) -> Iterator[Line]:
    """Draw the stack; `ends` tells what ended the waits that are over."""
    yield Line("", visible(root.agent), "agent")
    todo = _branches(root, "", 1)
    while todo:
        branch = todo.pop()
        frame = branch.call.frame
        wait = branch.call.wait
        state = "decided" if wait and wait.id in ends else branch.call.state
        yield Line(branch.lead, *_call(branch.call, frame, state))
        if wait is not None:
            yield from _wait(wait, branch.below + "  ", ends)
        if frame is not None:
            todo.extend(_branches(frame, branch.below, branch.depth + 1))


def _branches(frame: Frame, indent: str, depth: int) -> list[_Branch]:
    """Return a frame's calls, the first one last: it is drawn next."""
    calls = frame.calls
    if depth > DEEPEST:
        lead = f"{indent}[{depth}] "
        return [_Branch(call, depth, lead, indent) for call in reversed(calls)]
    found = [_Branch(call, depth, f"{indent}├─ ", f"{indent}│  ") for call in calls]
    if found:
        last = found[-1]
        found[-1] = last._replace(lead=f"{indent}└─ ", below=f"{indent}   ")
    return found[::-1]


def _call(call: Call, frame: Frame | None, state: str) -> tuple[str, str]:
    # A model may ask for a tool of any name: one that is no word is quoted.
    tool = call.tool if _WORD.match(call.tool) else jsontext.dump(call.tool)
    named = "" if frame is None or frame.agent == call.tool else f" ({frame.agent})"
    text = f"{tool}{named} {jsontext.dump(call.arguments)}"
    if frame is not None:
        return visible(text), "agent"
    return f"{visible(text)}: {state}", _TONES.get(state, "")


def _wait(wait: Wait, indent: str, ends: Mapping[str, str]) -> Iterator[Line]:
    # The id is last on its line and whole: it is what a decider copies.
    end = ends.get(wait.id)
    if end is not None:
        yield Line(indent, f"{visible(end)}; resume the run", "done")
    else:
        until = f", deadline {when(wait.deadline)}" if wait.deadline else ""
        text = f"waits for {wait.kind} since {when(wait.created_at)}{until}"
        yield Line(indent, visible(text), "wait")
    if wait.note is not None:
        yield Line(indent, visible(wait.note))
    yield Line(indent, visible(wait.id))
