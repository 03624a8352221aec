"""A console with a worker, for uvicorn in a process of its own.

TEST_STORE is the store. Its agent replies to "say a|b" in the parts "a" and "b", and to
"pay" with a call that needs an approval. It writes a part only when the file TEST_STEPS
has another byte for it; without the file, at once. The file `written` has how many
it has written. "{process}" in a part becomes
TEST_PROCESS, so a test sees which process wrote it. TEST_LIVE is how pages hear of
changes.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from continuations import Agent, AsyncRunner, tool
from continuations.models.interface import (
    Message,
    ModelDelta,
    ModelReply,
    ModelRequest,
)
from continuations.serve import console
from continuations.serve.console import live_pages
from continuations.serve.lifespan import worker_lifespan

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Request

_STEPS = Path(os.environ["TEST_STEPS"])
_PAY = {"name": "pay", "arguments": '{"what": "rent"}'}


@tool(approval=True, summary="Pay {what}")
def pay(what: str) -> str:
    """Pay something."""
    return f"paid {what}"


class SteppedWriter:
    """Writes the parts that the user asks for, each when the test allows one more."""

    name = "writer"

    def __init__(self) -> None:
        self._written = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Write the parts of one reply."""
        last = request.messages[-1].data
        text = str(last["content"])
        if last["role"] == "user" and text == "pay":
            calls = [{"id": "pay-1", "type": "function", "function": _PAY}]
            return _reply({"role": "assistant", "content": None, "tool_calls": calls})
        words = text.removeprefix("say ")
        parts = words.replace("{process}", os.environ["TEST_PROCESS"]).split("|")
        for part in parts:
            await self._wait_for_step()
            if request.on_delta is not None:
                await request.on_delta(ModelDelta(kind="text", text=part))
        await self._wait_for_step()
        return _reply({"role": "assistant", "content": "".join(parts)})

    async def _wait_for_step(self) -> None:
        while not _may_write(self._written + 1):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        self._written += 1
        _STEPS.with_name("written").write_text(str(self._written))


def _reply(data: dict[str, Any]) -> ModelReply:
    return ModelReply(message=Message.from_mapping(data))


def _may_write(count: int) -> bool:
    """Return whether this process may write so many parts, or store its reply."""
    return not _STEPS.exists() or _STEPS.stat().st_size >= count


def _verify(_: Request) -> str:
    """Trust every client of this test."""
    return "kim"


runner = AsyncRunner(
    Agent("support", tools=[pay], model=SteppedWriter()),
    store=os.environ["TEST_STORE"],
    lease=0.5,
    max_attempts=100,
)
live_pages.POLL_SECONDS = 1
app = console.app(
    runner,
    verify=_verify,
    live=cast("Literal['events', 'poll']", os.environ["TEST_LIVE"]),
    lifespan=worker_lifespan(runner, interval=0.05),
)
