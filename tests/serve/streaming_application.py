"""An HTTP API for uvicorn in a process of its own, whose model writes slowly.

Each word names the process that wrote it. TEST_STORE is the store. The model writes a
word only when the file TEST_STEPS has another byte for it, so a test decides where the
process is killed. `app_with_worker` has the worker loop too.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from continuations import Agent, AsyncRunner
from continuations.models.interface import (
    Message,
    ModelDelta,
    ModelReply,
    ModelRequest,
)
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.lifespan import worker_lifespan

_STEPS = Path(os.environ["TEST_STEPS"])


class SteppedWriter:
    """Writes five words, each when the test allows one more."""

    name = "writer"

    def __init__(self) -> None:
        self._written = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Write the words."""
        text = str(request.messages[-1].data["content"])
        words = [f"p{os.getpid()}-{number}-{text} " for number in range(5)]
        for word in words:
            while not may_write(self._written + 1):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
            self._written += 1
            if request.on_delta is not None:
                await request.on_delta(ModelDelta(kind="text", text=word))
        data = {"role": "assistant", "content": "".join(words)}
        return ModelReply(message=Message.from_mapping(data))


def may_write(words: int) -> bool:
    """Return whether this process may write so many words."""
    return not _STEPS.exists() or _STEPS.stat().st_size >= words


def verify(request: Request) -> str | None:
    """Trust every client of this test."""
    return request.headers.get("x-user")


runner = AsyncRunner(
    Agent("writer", model=SteppedWriter()),
    store=os.environ["TEST_STORE"],
    lease=0.5,
    max_attempts=100,
)
api = HttpApi(runner, verify=verify)
app = asgi.app(api)
app_with_worker = asgi.app(api, lifespan=worker_lifespan(runner, interval=0.05))
