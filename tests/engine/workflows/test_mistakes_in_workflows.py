"""Mistakes in the code of a workflow are named, and the advice helps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from continuations import Agent, Deny, Failed, Flow, ToolContext, ask, sleep, workflow
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    clerk,
    fail,
    make_runner,
    pay,
    the_wait,
)
from tests.outcomes import expect


def failure_of(code: Any, *args: Any) -> tuple[str, str]:
    """Return the code and the text with which a workflow fails at its start."""
    ended = expect(make_runner(code).start(code.bind(*args), run_id=RUN), Failed)
    return ended.error.code, ended.error.message


# The function ------------------------------------------------------------------------


def test_function_must_be_a_coroutine_function() -> None:
    with pytest.raises(InvalidInput, match="not a coroutine function"):
        workflow(lambda flow: flow)  # type: ignore[arg-type, return-value]


class Shop:
    """A class with a method."""

    async def buy(self, flow: Flow) -> None:
        """Buy something."""


async def nothing() -> None:
    """Do nothing."""


async def late(cents: int, flow: Flow) -> None:
    """Take the Flow as the second parameter."""


async def named(*, flow: Flow) -> None:
    """Take the Flow by name only."""


@pytest.mark.parametrize(
    "function", [nothing, late, named, Shop.buy], ids=lambda each: each.__name__
)
def test_first_parameter_must_be_the_flow(function: Any) -> None:
    with pytest.raises(
        InvalidInput, match=f"the first parameter of {function.__name__} is not the"
    ):
        workflow(function)


def test_workflow_takes_no_tool_context() -> None:
    async def mixes(flow: Flow, ctx: ToolContext) -> None:
        """Take both contexts."""

    with pytest.raises(InvalidInput, match="parameter ctx of mixes is a ToolContext"):
        workflow(mixes)


async def empty(flow: Flow) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"tools": add},
            r"workflow empty: tools must be a list, got .* Write tools=\[",
        ),
        ({"agents": clerk()}, r"workflow empty: agents must be a list"),
        ({"agents": [add]}, r"agents has .* is not an agent\. Write tools=\[...\]"),
        (
            {"tools": lambda: [add], "agents": [clerk()]},
            r"tools is a function, so agents is not read",
        ),
    ],
    ids=["a tool", "an agent", "a tool as an agent", "a function and agents"],
)
def test_lists_of_the_decorator_are_checked(options: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        workflow(**options)(empty)


# What it calls -----------------------------------------------------------------------


@workflow
async def other(_flow: Flow, cents: int) -> int:
    """Return a number."""
    return cents


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("add", "flow.call('add') failed: the target is a name. Pass the tool"),
        (pay, "workflow calls does not list it (it lists: add, other)"),
        (clerk(), "Add it: @workflow(agents=[...])"),
        (other.bind(1), "flow.call(other.bind(...)) failed: a call takes its argum"),
    ],
    ids=["a name", "a tool", "an agent", "a bound workflow"],
)
def test_target_of_a_call_is_checked(target: Any, text: str) -> None:
    @workflow(tools=[add], agents=[other])
    async def calls(flow: Flow) -> None:
        await flow.call(target)

    code, message = failure_of(calls)

    assert "exception" == code
    assert text in message


def test_agent_takes_one_input_or_names() -> None:
    agent: Any = clerk()

    @workflow(agents=[agent])
    async def calls(flow: Flow) -> None:
        await flow.call(agent, "a", "b")

    assert "it got 2 inputs and 0 arguments by name" in failure_of(calls)[1]


def test_tool_is_not_called_like_a_function() -> None:
    @workflow(tools=[add])
    async def calls(_flow: Flow) -> None:
        add(None, 1, 2)  # type: ignore[arg-type]

    ended = expect(make_runner(calls).start(calls.bind(), run_id=RUN), Failed)

    assert "await flow.call(add, ...)" in ended.error.message


def test_arguments_are_checked_where_they_are_given() -> None:
    @workflow(tools=[add])
    async def sums(flow: Flow, first: int) -> int:
        return await flow.call(add, first, "x")  # type: ignore[call-overload, no-any-return]

    with pytest.raises(InvalidInput, match="the arguments of sums do not fit"):
        sums.bind("x")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="missing a required argument"):
        sums.bind()  # type: ignore[call-arg]
    ended = expect(make_runner(sums).start(sums.bind(1), run_id=RUN), Failed)
    assert "the arguments of add do not fit" in ended.error.message


def test_arguments_of_a_workflow_are_checked_where_it_is_called() -> None:
    @workflow
    async def twice(_flow: Flow, first: int) -> int:
        return 2 * first

    @workflow(agents=[twice])
    async def calls(flow: Flow, first: int) -> int:
        result: int = await flow.call(twice, first)
        return result + await flow.call(twice, "x")

    ended = expect(make_runner(calls).start(calls.bind(1), run_id=RUN), Failed)
    assert "the arguments of twice do not fit" in ended.error.message


def test_workflow_needs_its_arguments_and_takes_no_messages() -> None:
    @workflow
    async def waits(_flow: Flow) -> str:
        return await ask("Well?")

    runner = make_runner(waits)
    with pytest.raises(InvalidInput, match=r"Pass waits\.bind\(\.\.\.\)"):
        runner.start("go")
    with pytest.raises(InvalidInput, match=r"runner\.start\(waits\.bind"):
        waits()
    with pytest.raises(InvalidInput, match="reads no messages"):
        runner.thread(key="k")
    runner.start(waits.bind(), run_id=RUN)
    with pytest.raises(InvalidInput, match="signal"):
        runner.send(RUN, "hello")


def test_call_is_awaited_once() -> None:
    @workflow(tools=[add])
    async def twice(flow: Flow) -> None:
        made = flow.call(add, 1, 1)
        await made
        await made

    ended = expect(make_runner(twice).start(twice.bind(), run_id=RUN), Failed)

    assert "a call of add was awaited before" in ended.error.message


# How it ends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: ask("Well?"),
        lambda: sleep(60),
        lambda: asyncio.get_running_loop().create_future(),
    ],
    ids=["ask", "sleep", "a future"],
)
def test_result_must_be_awaited(make: Callable[[], Any]) -> None:
    @workflow
    async def returns(_flow: Flow) -> Any:
        return make()

    code, message = failure_of(returns)

    assert "result" == code
    assert "was not awaited. Write: return await" in message


@pytest.mark.parametrize(
    ("breaks", "code"), [(False, "call"), (True, "exception")], ids=["calls", "more"]
)
def test_group_of_errors_shows_each(breaks: bool, code: str) -> None:
    @workflow(tools=[fail, pay])
    async def groups(flow: Flow) -> None:
        async def other_task() -> None:
            try:
                await flow.call(pay, 1)
            finally:
                if breaks:
                    raise LookupError("and more")

        async with asyncio.TaskGroup() as group:
            group.create_task(other_task())
            await flow.call(fail, "bad")

    found, message = failure_of(groups)

    assert code == found
    assert "CallFailed: " in message
    assert breaks == ("LookupError: and more; " in message)
    assert "TaskGroup" not in message


def test_denied_call_fails_the_run_with_its_reason() -> None:
    @workflow(tools=[pay])
    async def pays(flow: Flow) -> str:
        return await flow.call(pay, 1)

    runner = make_runner(pays)
    wait_id = the_wait(runner.start(pays.bind(), run_id=RUN))
    runner.decide(wait_id, Deny(by="kim", reason="Too much."))

    ended = expect(runner.resume(RUN), Failed)

    text = "CallDenied: a person refused this call. It was not executed. Reason: "
    assert ("call", f"{text}Too much.") == (ended.error.code, ended.error.message)


def test_only_the_function_itself_begins_anew() -> None:
    @workflow(tools=[add])
    async def restarts(flow: Flow) -> None:
        async def later() -> None:
            await flow.call(add, 1, 1)
            flow.restart()

        await asyncio.create_task(later())

    assert "it was called in a task" in failure_of(restarts)[1]


def test_restart_needs_something_that_ended() -> None:
    @workflow
    async def spins(flow: Flow) -> None:
        flow.restart()

    assert "no call, wait or timer has ended before it" in failure_of(spins)[1]


@pytest.mark.parametrize("name", ["", 5], ids=["empty", "a number"])
def test_patch_needs_a_name(name: Any) -> None:
    @workflow
    async def patches(flow: Flow) -> None:
        flow.patched(name)

    assert 'Write: flow.patched("charge-twice").' in failure_of(patches)[1]


def test_flow_of_an_ended_workflow_does_nothing() -> None:
    kept: list[Flow] = []

    @workflow(tools=[add])
    async def keeps(flow: Flow) -> int:
        kept.append(flow)
        return await flow.call(add, 1, 1)

    assert 2 == make_runner(keeps).start(keeps.bind(), run_id=RUN).result()
    (flow,) = kept
    for use in (
        lambda: flow.patched("later"),
        flow.restart,
        lambda: flow.call(add, 1, 1),
    ):
        with pytest.raises(RuntimeError, match="or the workflow has ended, so it is"):
            use()


def test_agent_of_the_same_name_is_another() -> None:
    @workflow(agents=[clerk()])
    async def calls(flow: Flow) -> str:
        return await flow.call(Agent("clerk", model=ScriptedModel(["x"])), "hi")

    assert "does not list it" in failure_of(calls)[1]
