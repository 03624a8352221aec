"""Choose the wait that a test means, and say which waits there are instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.testing.expectation import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations import Wait


def select(waits: Sequence[Wait], tool: str | None, kind: str | None) -> Wait:
    """Return the one wait of a tool and a kind; raises `AssertionError`."""
    __tracebackhide__ = True
    found = [
        wait
        for wait in waits
        if tool in (None, wait.tool) and kind in (None, wait.kind)
    ]
    if len(found) != 1:
        wanted = " ".join(filter(None, ["wait", kind and f"of kind {kind}"]))
        wanted += f" of {tool}" if tool else ""
        advice = (
            "Pass tool= or kind=, or decide by id: runner.decide(wait.id, …)"
            if found
            else "Run the agent until it waits, or name another tool or kind"
        )
        fail(
            f"{len(found)} open waits fit, expected one {wanted}. {advice}. Open "
            f"waits:\n{describe(waits)}"
        )
    return found[0]


def describe(waits: Sequence[Wait]) -> str:
    """Return one line for each wait."""
    return "\n".join(f"  {_line(wait)}" for wait in waits) or "  (no open waits)"


def _line(wait: Wait) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in wait.arguments.items())
    parts = [f"{wait.kind} of {wait.tool}({arguments})"]
    if wait.question:
        parts.append(repr(wait.question))
    if wait.event:
        key = "" if wait.event_key is None else f", key {wait.event_key!r}"
        parts.append(f"event {wait.event!r}{key}")
    if wait.deadline:
        parts.append(f"until {wait.deadline.isoformat()}")
    return ", ".join(parts)
