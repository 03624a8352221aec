"""Effects and model turns, recorded in files outside the process.

A call's outcome does not prove what happened; a line in a file outside does. Each line
is one `write` to a file opened with O_APPEND: lines of several processes do not mix,
and a line survives a kill right after it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from continuations import ToolContext

EFFECTS_VARIABLE = "TEST_EFFECTS"
TURNS_VARIABLE = "TEST_TURNS"


@dataclass(frozen=True, slots=True)
class Effect:
    """One execution of a tool, with the context that identifies it."""

    tool: str
    what: str
    run: str
    call: str
    key: str
    fence: int
    attempt: int

    @classmethod
    def of(cls, tool: str, what: object, ctx: ToolContext) -> Effect:
        """Return the effect of a tool that runs in a context."""
        return cls(
            tool=tool,
            what=str(what),
            run=ctx.run_id,
            call=ctx.call_id,
            key=ctx.idempotency_key,
            fence=ctx.fence,
            attempt=ctx.attempt,
        )

    @property
    def name(self) -> str:
        """The tool and its argument, `"pay x"`."""
        return f"{self.tool} {self.what}"


def record(effect: Effect) -> None:
    """Append an effect to the log of effects."""
    append_effect(
        effect.tool,
        effect.what,
        run=effect.run,
        call=effect.call,
        key=effect.key,
        fence=effect.fence,
        attempt=effect.attempt,
        pid=os.getpid(),
    )


def append_effect(tool: str, what: object = "", **more: Any) -> None:
    """Append a tool's effect to the log of effects."""
    append_line(EFFECTS_VARIABLE, tool=tool, what=str(what), **more)


def append_turn(task: str, turn: int, **more: Any) -> None:
    """Append a model's turn to the log of turns."""
    append_line(TURNS_VARIABLE, task=task, turn=turn, **more)


def append_line(variable: str, **line: Any) -> None:
    """Append a line to the file that an environment variable names."""
    path = os.environ[variable]
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def effects() -> list[dict[str, Any]]:
    """Return every effect of a tool, in any process of this environment."""
    return read_lines(Path(os.environ[EFFECTS_VARIABLE]))


def names() -> list[str]:
    """Return the effects as `"tool argument"`, in their order."""
    return [f"{line['tool']} {line['what']}" for line in effects()]


def turns() -> list[str]:
    """Return every turn of a scripted model as `"task number"`."""
    lines = read_lines(Path(os.environ[TURNS_VARIABLE]))
    return [f"{line['task']} {line['turn']}" for line in lines]


def clear() -> None:
    """Forget all effects and turns."""
    for variable in (EFFECTS_VARIABLE, TURNS_VARIABLE):
        Path(os.environ[variable]).unlink(missing_ok=True)
