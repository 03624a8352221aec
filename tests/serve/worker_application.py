"""Web applications for uvicorn in a process of its own.

`app` runs the worker loop of the sample application, `plain` runs nothing. The
environment names the store, the script, and TEST_GRACE. With TEST_SLOW_MODEL, the model
never replies; it creates that file when it is asked.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI

from continuations import AsyncRunner
from continuations.serve.lifespan import worker_lifespan
from tests import sample_app

if TYPE_CHECKING:
    from continuations import Agent
    from continuations.models.interface import ModelReply, ModelRequest


class SlowModel:
    """Creates a file when it is asked, and never replies."""

    name = "slow"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Wait without end."""
        del request
        self._path.touch()
        await asyncio.Event().wait()
        raise AssertionError


def make_agents() -> list[Agent]:
    """Return the agents that the environment describes."""
    path = os.environ.get("TEST_SLOW_MODEL")
    if path is None:
        return sample_app.agents()
    return sample_app.make_agents(SlowModel(Path(path)))


_GRACE = os.environ.get("TEST_GRACE")
app = FastAPI(
    lifespan=worker_lifespan(
        AsyncRunner(make_agents(), store=os.environ["TEST_STORE"]),
        interval=0.05,
        grace=None if _GRACE is None else float(_GRACE),
    )
)
plain = FastAPI()
