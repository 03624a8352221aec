"""Agents and runners of this process, and what their outcomes contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

from continuations import Agent, ApprovalPolicy, Outcome, Runner, ToolContext, tool
from continuations.tools import Tool, ToolWait
from tests import effect_log, scripts
from tests.effect_log import Effect
from tests.scripts import NextLine, Script


@dataclass
class Opinion:
    """The output of an agent that checks."""

    tripped: bool
    reason: str


def should_pause_after(calls: int) -> Callable[[], bool]:
    """Return a `should_pause` that returns True after so many calls."""
    count = 0

    def should_pause() -> bool:
        nonlocal count
        count += 1
        return count > calls

    return should_pause


def make_runner(
    script: Script | NextLine, *tools: Callable[..., Any] | Any, **options: Any
) -> Runner:
    """Return a runner of one agent, `boss`, with a script and some tools."""
    options.setdefault("store", "memory:")
    return Runner(make_boss(script, *tools), **options)


def make_boss(script: Script | NextLine, *tools: Any, **options: Any) -> Agent:
    options.setdefault("instructions", "You are boss.")
    return Agent(
        "boss", tools=list(tools), model=scripts.scripted_model(script), **options
    )


def make_pay(**policy: Any) -> Tool[..., Any]:
    """Return a tool whose calls need an approval."""

    @tool(approval=ApprovalPolicy(**policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return pay


def text_tool(
    name: str,
    text: str,
    takes: Mapping[str, type] | None = None,
    *,
    logs: bool = False,
    into: list[Any] | None = None,
    **options: Any,
) -> Tool[..., str]:
    """Return a tool that returns a text about its arguments.

    `text_tool("pay", "paid {cents}", {"cents": int}, approval=True)` pays after an
    approval. With `logs`, each call is an effect in the log, with its first argument;
    with `into`, the argument is appended to a list.
    """

    parameters: dict[str, Any] = dict(takes or {})

    def act(given: Mapping[str, Any]) -> str:
        what = next((given[key] for key in takes or {}), "")
        if into is not None:
            into.append(what)
        if logs:
            effect_log.record(Effect.of(name, what, given["ctx"]))
        return text.format(**given)

    if logs:
        parameters["ctx"] = ToolContext
    return _made_tool(name, act, parameters, str, options)


def wait_tool(
    name: str, wait: Callable[[], Any], returns: Any = ToolWait[str], **options: Any
) -> Tool[..., Any]:
    """Return a tool without parameters that waits: `wait` returns its wait."""
    return _made_tool(name, lambda _: wait(), {}, returns, options)


def _made_tool(
    name: str,
    act: Callable[[Mapping[str, Any]], Any],
    takes: Mapping[str, Any],
    returns: Any,
    options: dict[str, Any],
) -> Tool[..., Any]:
    """Return the tool of a function that has these parameters, and calls `act`."""
    signature = Signature(
        [
            Parameter(key, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
            for key, kind in takes.items()
        ],
        return_annotation=returns,
    )

    def function(*args: Any, **more: Any) -> Any:
        return act(signature.bind(*args, **more).arguments)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name.capitalize()}."
    function.__annotations__ = {**takes, "return": returns}
    function.__signature__ = signature  # type: ignore[attr-defined]
    made: Tool[..., Any] = tool(**options)(function)
    return made


def contents(outcome: Outcome) -> list[Any]:
    """Return the contents of all messages of the root frame."""
    return [each["content"] for each in outcome.continuation.root.messages]


def root_tool_results(outcome: Outcome) -> list[str]:
    """Return the texts of the tool messages of the root frame."""
    return tool_results(outcome.continuation.root.messages)


def tool_results(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts of the tool messages of a conversation."""
    return [str(each["content"]) for each in messages if each["role"] == "tool"]
