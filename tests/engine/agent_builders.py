"""Agents and runners of this process, and what their outcomes contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations import Agent, Runner
from tests import scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from continuations import Outcome
    from tests.scripts import Script


def should_pause_after(calls: int) -> Callable[[], bool]:
    """Return a `pause` that says True from a question on."""
    asked = 0

    def pause() -> bool:
        nonlocal asked
        asked += 1
        return asked > calls

    return pause


def make_runner(
    script: Script, *tools: Callable[..., Any] | Any, **options: Any
) -> Runner:
    """Return a runner of one agent, `boss`, with a script and some tools."""
    options.setdefault("store", "memory:")
    return Runner(make_boss(script, *tools), **options)


def make_boss(script: Script, *tools: Any, **options: Any) -> Agent:
    """Return an agent with a script and some tools."""
    given: dict[str, Any] = {"instructions": "You are boss.", **options}
    return Agent(
        "boss", tools=list(tools), model=scripts.scripted_model(script), **given
    )


def root_tool_results(outcome: Outcome) -> list[str]:
    """Return what the tool messages of the root frame say."""
    return tool_results(outcome.continuation.root.messages)


def tool_results(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the tool messages of a conversation say."""
    return [str(each["content"]) for each in messages if each["role"] == "tool"]
