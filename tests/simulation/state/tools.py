"""Tools that change the state of their agent, and the type of that state."""

from __future__ import annotations

import re

from pydantic import BaseModel

from continuations import ToolContext

# The names of the tools: one that returns, one after an approval, one that fails.
KEEPING_TOOLS = ("keep", "keep_approved", "keep_and_fail")
# The last line of the result of a call that changed the state: how many it has kept.
RESULT = re.compile(r"(?:\A|\n)keep\w* (\S+) done as (\d+)\Z")
_MOST_KEPT = 8


class Kept(BaseModel):
    """The arguments of the calls that returned, in order."""

    kept: list[str] = []


def keep(ctx: ToolContext[Kept], what: str, result: str) -> str:
    """Change the state, and return a result that tells what the call read."""
    kept = [*ctx.state.kept, what]
    ctx.update(kept=kept)
    return f"{result} as {len(kept)}"


def results(result: str) -> list[str]:
    return [f"{result} as {count}" for count in range(1, _MOST_KEPT)]
