"""A forgotten `await` is reported with the method's name."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from continuations import AsyncRunner, resume
from continuations.aio import run as run_async
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel
from tests.engine.agent_builders import make_boss

CALLS: dict[str, tuple[Any, ...]] = {
    "start": ("go",),
    "resume": ("r1",),
    "sweep": (),
    "decide": ("w", None),
    "send": ("r1", "Hurry."),
    "cancel": ("r1",),
    "look": ("r1",),
    "wait": ("w",),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_without_await_warns_with_the_name_of_the_method(name: str) -> None:
    """Python tells it, because each method is a coroutine function."""

    async def forget() -> None:
        runner = AsyncRunner(make_boss({"go": ["end"]}), store="memory:")
        getattr(runner, name)(*CALLS[name])
        gc.collect()

    with pytest.warns(RuntimeWarning, match=rf"\.{name}' was never awaited"):
        asyncio.run(forget())


def test_coroutine_instead_of_a_continuation_is_refused_with_the_remedy() -> None:
    agent = make_boss({"go": ["end"]})
    coroutine: Any = run_async(agent, "go")

    with pytest.raises(InvalidInput, match="Write await"):
        resume(coroutine, agent)


@pytest.mark.parametrize("script", ["done", {"boss": "done"}, 5, None, b"done"])
def test_script_that_is_no_list_is_refused(script: Any) -> None:
    with pytest.raises(InvalidInput, match="Pass a list"):
        ScriptedModel(script)
