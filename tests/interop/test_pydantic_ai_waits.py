"""A Pydantic AI agent waits in its process for decisions in our store."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai.external_events import (
    ExternalEventError,
    external_event_scope,
    wait_for_external_event,
)
from pydantic_ai.models.function import FunctionModel

from continuations import Answer, Approve, AsyncRunner, Deny, Fail, Suspended
from continuations.errors import InvalidInput
from continuations.interop.paused_calls import paused_calls
from continuations.interop.pydantic_ai import StoreWaiter, decided_requests, store_input
from tests.interop.paused_application import pydantic_agent


def runner_of() -> AsyncRunner:
    return AsyncRunner([paused_calls], store="memory:")


async def first_wait(runner: AsyncRunner) -> Any:
    """Return the first open wait of the store, once there is one."""
    async with asyncio.timeout(10):
        while True:
            async for each in runner.waiting():
                return each
            await asyncio.sleep(0.01)


async def decide(runner: AsyncRunner, verdict: Any) -> None:
    await runner.decide((await first_wait(runner)).id, verdict)


def agent_of(runner: AsyncRunner, effects: list[Any], **options: Any) -> Any:
    capability = store_input(runner, "order-17", poll=0.01, **options)
    return pydantic_agent(effects, capabilities=[capability])


async def run_with(verdict: Any) -> tuple[list[Any], str]:
    runner = runner_of()
    effects: list[Any] = []
    agent = agent_of(runner, effects)
    run = asyncio.create_task(agent.run("Refund"))
    await decide(runner, verdict)
    return effects, (await run).output


async def test_a_live_agent_goes_on_after_an_approval_in_the_store() -> None:
    effects, output = await run_with(Approve(by="kim"))
    assert effects == [["A-17"], ["A-17", 900]]
    assert "refunded 900" in output


@pytest.mark.parametrize("verdict", [Deny(reason="too much"), Answer("too much")])
async def test_a_live_agent_runs_nothing_without_an_approve(verdict: Any) -> None:
    effects, output = await run_with(verdict)
    assert effects == [["A-17"]]
    assert "too much" in output


async def test_a_cancelled_wait_denies_the_calls() -> None:
    runner = runner_of()
    effects: list[Any] = []

    async def cancel() -> None:
        await runner.cancel((await first_wait(runner)).run_id)

    await asyncio.gather(agent_of(runner, effects).run("Refund"), cancel())
    assert effects == [["A-17"]]


async def test_calls_are_denied_after_the_timeout_and_the_wait_is_closed() -> None:
    runner = runner_of()
    effects: list[Any] = []
    agent = agent_of(runner, effects, timeout=timedelta(seconds=0.1))
    result = await agent.run("Refund")
    assert effects == [["A-17"]]
    assert "No decision" in result.output
    for run in [each async for each in runner.runs()]:
        await runner.resume(run.run_id)
    assert [each async for each in runner.waiting()] == []


async def test_a_second_process_takes_the_decision_of_the_first_one() -> None:
    """The first agent dies while it waits; the same calls find their decision."""
    runner = runner_of()
    first = asyncio.create_task(agent_of(runner, []).run("Refund"))
    wait = await first_wait(runner)
    first.cancel()
    await asyncio.wait([first])
    await runner.decide(wait.id, Approve())
    effects: list[Any] = []
    await agent_of(runner, effects).run("Refund")
    assert effects == [["A-17"], ["A-17", 900]]
    assert len([each async for each in runner.runs()]) == 1


async def test_other_calls_do_not_take_the_decision() -> None:
    """An approval is bound to the ids, names and arguments of the calls."""
    runner = runner_of()
    first = asyncio.create_task(agent_of(runner, []).run("Refund"))
    await decide(runner, Approve())
    await first
    effects: list[Any] = []
    agent = agent_of(runner, effects, timeout=timedelta(seconds=0.1))
    with agent.override(model=_dearer(agent.model)):
        await agent.run("Refund")
    assert effects == [["A-17"]]


def _dearer(model: Any) -> Any:
    """Return the scripted model with a higher amount in its call."""

    def script(messages: list[Any], info: Any) -> Any:
        reply = model.function(messages, info)
        for part in reply.parts:
            if getattr(part, "tool_name", "") == "refund":
                part.args = {"order": "A-17", "cents": 90_000}
        return reply

    return FunctionModel(script)


async def test_a_run_of_store_input_has_no_messages_to_hand_back() -> None:
    runner = runner_of()
    run = asyncio.create_task(agent_of(runner, []).run("Refund"))
    wait = await first_wait(runner)
    await runner.decide(wait.id, Approve())
    await run
    with pytest.raises(InvalidInput, match="holds no messages"):
        await decided_requests(runner, run_id=wait.run_id)


# External events ------------------------------------------------------------


async def event(runner: AsyncRunner, ask: Any, **options: Any) -> Any:
    with external_event_scope(StoreWaiter(runner, "order-17", poll=0.01)):
        return await wait_for_external_event("review", ask=ask, **options)


def answer_at_once(_token: str) -> str:
    return "at once"


def tell_nobody(_token: str) -> None:
    """Give no answer."""


async def test_an_event_is_answered_by_its_token() -> None:
    runner = runner_of()

    async def ask(token: str) -> None:
        await runner.decide(token, Answer({"stars": 5}))

    assert await event(runner, ask) == {"stars": 5}


async def test_an_answer_of_ask_is_kept() -> None:
    """A repeat in another process does not ask again."""
    runner = runner_of()
    assert await event(runner, answer_at_once) == "at once"

    def refuse(_token: str) -> None:
        raise AssertionError

    assert await event(runner, refuse) == "at once"


async def test_two_events_of_one_name_are_two_waits() -> None:
    runner = runner_of()
    answers = iter(["one", "two"])

    def answer(_token: str) -> str:
        return next(answers)

    with external_event_scope(StoreWaiter(runner, "order-17", poll=0.01)):
        given = [await wait_for_external_event("review", ask=answer) for _ in range(2)]
    assert given == ["one", "two"]


async def test_an_event_that_fails_or_expires_raises() -> None:
    runner = runner_of()

    async def fail(token: str) -> None:
        await runner.decide(token, Fail("the reviewer left"))

    with pytest.raises(ExternalEventError, match="the reviewer left"):
        await event(runner, fail)
    limit = timedelta(seconds=0.05)
    with pytest.raises(ExternalEventError):
        await event(runner_of(), tell_nobody, timeout=limit)


@pytest.mark.parametrize("poll", [0, -1, "2", None])
def test_a_wrong_poll_is_refused(poll: Any) -> None:
    with pytest.raises(InvalidInput, match="poll must be a number of seconds"):
        StoreWaiter(runner_of(), "order-17", poll=poll)


async def test_an_open_wait_keeps_its_agent_waiting() -> None:
    """Silence decides nothing."""
    runner = runner_of()
    run = asyncio.create_task(agent_of(runner, []).run("Refund"))
    wait = await first_wait(runner)
    await asyncio.sleep(0.1)
    assert not run.done()
    assert isinstance(await runner.resume(wait.run_id), Suspended)
    run.cancel()
    await asyncio.wait([run])
