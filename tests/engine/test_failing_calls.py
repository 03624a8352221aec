"""A failing call becomes a message to the model; its siblings run."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from continuations import Agent, Approve, Failed, Finished, Runner, Suspended, tool
from continuations_storage import MemoryStore
from tests import effect_log, scripts
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results, text_tool
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call


@tool
def log_effect(what: str) -> str:
    """Record an effect."""
    effect_log.append_effect("fine", what)
    return f"fine {what}"


@tool(timeout=0.05)
def slow() -> str:
    """Take too long, in a thread."""
    time.sleep(0.3)
    return "late"


@tool(timeout=0.05)
async def slow_async() -> str:
    """Take too long, in the loop."""
    await asyncio.sleep(30)
    return "late"


@tool
def unstorable() -> Any:
    """Return a value that JSON cannot represent."""
    return {"a": [1, {"b": object()}]}


@tool
def not_a_number() -> float:
    """Return NaN, which JSON does not have."""
    return float("nan")


class CustomBaseException(BaseException):
    """Not an Exception."""


ERRORS: dict[str, type[BaseException]] = {
    "exception": ValueError,
    "interrupt": KeyboardInterrupt,
    "exit": SystemExit,
    "cancelled": asyncio.CancelledError,
    "stop": StopIteration,
    "timeout": TimeoutError,
    "odd": CustomBaseException,
    "generator": GeneratorExit,
}


@tool
def fail(how: str) -> str:
    """Raise, in a thread."""
    raise ERRORS[how]("boo")


@tool
async def fail_async(how: str) -> str:
    """Raise, in the loop."""
    raise ERRORS[how]("boo")


TOOLS: list[Any] = [
    log_effect,
    slow,
    slow_async,
    unstorable,
    not_a_number,
    fail,
    fail_async,
]

FAILING_CALLS: dict[str, tuple[Sequence[Any], str]] = {
    "unknown tool": (call("nope"), "there is no tool 'nope'"),
    "no name": (call(""), "there is no tool ''"),
    "invalid JSON": (["log_effect", '{"what": '], "not executed"),
    "no object": (["log_effect", "[1]"], "not executed"),
    "two values": (["log_effect", '{"what": "a"}{"what": "b"}'], "not executed"),
    "wrong type": (call("log_effect", what=[1]), "not executed"),
    "missing": (call("log_effect"), "not executed"),
    "one too many": (call("log_effect", what="x", more=1), "not executed"),
    "sync timeout": (call("slow"), "did not return within 0.05 s"),
    "async timeout": (call("slow_async"), "did not return within 0.05 s"),
    "unstorable": (call("unstorable"), "result.a[1].b"),
    "nan": (call("not_a_number"), "result"),
    **{f"sync {how}": (call("fail", how=how), "the tool failed") for how in ERRORS},
    **{f"async {how}": (call("fail_async", how=how), "failed") for how in ERRORS},
}


@pytest.mark.parametrize("what", FAILING_CALLS)
def test_failing_call_gets_an_error_result_and_siblings_run(what: str) -> None:
    """Only the failing one of three calls gets an error, in its own place."""
    failing_call, expected = FAILING_CALLS[what]
    script: Script = {
        "go": [
            [call("log_effect", what="1"), failing_call, call("log_effect", what="2")],
            "end",
        ]
    }
    runner = agent_builders.make_runner(script, *TOOLS)

    # When the middle one of three calls fails
    outcome = runner.start("go")

    # Then its result is an error in its place, and the others ran
    assert isinstance(outcome, Finished)
    first, middle, last = root_tool_results(outcome)
    assert ("fine 1", "fine 2") == (first, last)
    assert middle.startswith("ERROR"), middle
    assert expected in middle
    assert ["fine 1", "fine 2"] == sorted(effect_log.names())

    # And the model's message is sent back unchanged
    asked = outcome.continuation.root.messages[2]["tool_calls"][1]["function"]
    written = failing_call[1] if isinstance(failing_call[1], str) else None
    assert written in (None, asked["arguments"])


def test_all_failing_calls_in_one_turn_of_a_child_are_reported() -> None:
    """No exception leaves the turn."""
    calls = [call for call, _ in FAILING_CALLS.values()]
    script: Script = {"go": [[call("child", input="A")], "end"], "A": [calls, "A end"]}
    model = scripts.scripted_model(script)
    child = Agent("child", tools=TOOLS, model=model)

    outcome = Runner(Agent("boss", tools=[child], model=model), store="memory:").start(
        "go"
    )

    assert isinstance(outcome, Finished)
    assert ["A end"] == root_tool_results(outcome)
    assert ["go 0", "A 0", "A 1", "go 1"] == effect_log.turns()


def test_failed_call_keeps_its_result_over_a_suspension(store: MemoryStore) -> None:
    """A failed call is not tried again after the suspension."""
    pay = text_tool("pay", "paid", approval=True)
    script: Script = {
        "go": [[call("fail", how="exit"), call("pay"), call("nope")], "end"]
    }
    waiting = Runner(agent_builders.make_boss(script, *TOOLS, pay), store=store).start(
        "go", run_id="r"
    )
    assert isinstance(waiting, Suspended)
    assert {"errored", "waiting"} == {
        call.state for call in waiting.continuation.root.calls
    }

    runner = Runner(agent_builders.make_boss(script, *TOOLS, pay), store=store)
    runner.decide(waiting.waits[0].id, Approve())
    said = root_tool_results(runner.resume("r"))
    assert ["ERROR:", "paid", "ERROR:"] == [text.split()[0] for text in said]


# User code around a pause ------------------------------------------------------


def swallowing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function as middleware does that must never fail."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - what such middleware does
            return f"swallowed {error!r}"

    return wrapper


def test_catch_all_handlers_do_not_stop_a_suspension() -> None:
    """A suspension is not an exception, so no handler can catch it."""

    @tool(approval=True)
    @swallowing
    def pay(what: str) -> str:
        """Pay."""
        effect_log.append_effect("pay", what)
        return f"paid {what}"

    class Wrapped:
        """A model behind middleware that answers something, whatever happens."""

        name = "wrapped"

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def reply(self, request: Any) -> Any:
            try:
                return await self._inner.reply(request)
            except BaseException:
                effect_log.append_turn(task="swallowed", turn=0)
                raise

    script: Script = {
        "go": [[call("child", input="A")], "end"],
        "A": [[call("pay", what="x")], "A done"],
    }
    model = Wrapped(scripts.scripted_model(script))
    child = Agent("child", tools=[pay], model=model)
    runner = Runner(Agent("boss", tools=[child], model=model), store=MemoryStore())

    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve())
    ended = expect(runner.resume("r"), Finished)

    assert (["pay x"], ["A done"]) == (
        effect_log.names(),
        root_tool_results(ended),
    )
    assert "swallowed 0" not in effect_log.turns()


# What the model gives back -----------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_truncated_reply_is_no_result(finish: str) -> None:
    """It fails the run in the root, and is an error for the parent in a child."""
    from continuations.core.messages import Message  # noqa: PLC0415 - only here
    from continuations.models.interface import ModelReply  # noqa: PLC0415 - only here

    text = Message.from_mapping({"role": "assistant", "content": "half of it"})
    cut: Any = ModelReply(message=text, finish_reason=finish)
    model = scripts.scripted_model(
        {"go": [[call("child", input="A")], cut], "A": [cut]}
    )
    child = Agent("child", model=model)

    outcome = Runner(Agent("boss", tools=[child], model=model), store="memory:").start(
        "go"
    )

    assert isinstance(outcome, Failed)
    assert finish == outcome.error.code
    assert "half of it" not in root_tool_results(outcome)[0]
    assert (
        "length limit" in root_tool_results(outcome)[0]
        or "filter" in root_tool_results(outcome)[0]
    )


def test_a_sync_tool_that_hangs_does_not_stop_the_others() -> None:
    """Its thread is abandoned; the run and the process end."""
    gate = threading.Event()

    @tool(timeout=0.1, on_timeout="tell_model")
    def hang() -> str:
        """Hang."""
        gate.wait(60)
        return "late"

    script: Script = {"go": [[call("hang"), call("log_effect", what="1")], "end"]}
    before = time.monotonic()
    outcome = agent_builders.make_runner(script, hang, log_effect).start("go")

    assert time.monotonic() - before < 10
    assert "fine 1" == root_tool_results(outcome)[1]
    gate.set()
