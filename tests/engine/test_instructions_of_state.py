"""Instructions that are a function of the state are made for each request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

import continuations
from continuations import (
    Agent,
    Approve,
    Compaction,
    Finished,
    Replied,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.errors import CompactionFailed, HookFailed, InvalidInput
from continuations.guardrails import Guardrails
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.outcomes import expect


@dataclass
class Memory:
    """The facts that the agent knows."""

    name: str = "nobody"


class Verdict(BaseModel):
    """The reply of a guardrail."""

    tripped: bool
    reason: str = ""


@tool(writes_state=True)
def remember(ctx: ToolContext[Memory], name: str) -> str:
    """Remember a name."""
    ctx.update(name=name)
    return "remembered"


def known(state: Memory) -> str:
    """Return the instructions."""
    return f"Known: {state.name}"


async def known_later(state: Memory) -> str:
    """Return the instructions."""
    return known(state)


REMEMBERS = ToolCall("remember", {"name": "Ann"})


def host(replies: Any, instructions: Any = known, **options: Any) -> Any:
    """Return an agent whose model remembers a name."""
    options = {"tools": [remember], "state": Memory, **options}
    model = ScriptedModel(replies)
    return Agent("host", model=model, instructions=instructions, **options)


def always_yes(request: ModelRequest) -> str:
    """Reply the same to each request."""
    return f"Yes, {request.agent}."


def systems(requests: list[ModelRequest]) -> list[list[str]]:
    """Return the system messages of each request, and check that they come first."""
    found: list[list[str]] = []
    for request in requests:
        data = [each.data for each in request.messages]
        texts = [each["content"] for each in data if each["role"] == "system"]
        assert texts == [each["content"] for each in data[: len(texts)]]
        found.append(texts)
    return found


@pytest.mark.parametrize("function", [known, known_later])
@pytest.mark.parametrize("store", [True, False])
def test_each_request_has_the_instructions_of_the_present_state(
    function: Any, *, store: bool
) -> None:
    """The second request shows what the tool wrote, with and without a store."""
    agent = host([REMEMBERS, "Hello."], function)
    if store:
        outcome = Runner(agent, store=MemoryStore()).start("I am Ann.")
    else:
        outcome = continuations.run(agent, "I am Ann.")

    assert isinstance(outcome, Finished)
    assert [["Known: nobody"], ["Known: Ann"]] == systems(agent.model.requests)
    roles = [each["role"] for each in outcome.continuation.root.messages]
    assert ["user", "assistant", "tool", "assistant"] == roles


@pytest.mark.parametrize("kind", ["present", "frozen"])
def test_a_thread_renders_its_state_in_each_turn_and_stores_no_instructions(
    kind: Any,
) -> None:
    """Frozen instructions are stored texts; a function of the state stores none."""
    agent = host([REMEMBERS, "Hello.", "You are Ann."])
    thread = Runner(agent, store=MemoryStore()).thread(key="k", instructions=kind)
    thread.send("I am Ann.")
    assert isinstance(thread.send("Who am I?"), Replied)

    expected = [["Known: nobody"], ["Known: Ann"], ["Known: Ann"]]
    assert expected == systems(agent.model.requests)
    assert not any("Known" in str(each) for each in thread.messages())


def test_a_thread_that_had_a_text_takes_the_function_of_a_new_deployment() -> None:
    """The text of earlier turns is not sent beside the rendered state."""
    store = MemoryStore()
    old = host(always_yes, "Be brief.")
    Runner(old, store=store).thread(key="k").send("Hello")
    agent = host(always_yes)
    thread = Runner(agent, store=store).thread(key="k")
    thread.send("Again")
    thread.send("Once more")
    text = host(always_yes, "Be brief.")
    Runner(text, store=store).thread(key="k").send("Last")

    assert [["Be brief."]] == systems(old.model.requests)
    assert [["Known: nobody"]] * 2 == systems(agent.model.requests)
    assert [["Be brief."]] == systems(text.model.requests)


def test_a_frozen_text_stays_when_the_code_has_a_function_of_the_state() -> None:
    """A frozen thread keeps its first text for all turns."""
    store = MemoryStore()
    old = host(always_yes, "Be brief.")
    Runner(old, store=store).thread(key="k", instructions="frozen").send("Hello")
    agent = host(always_yes)
    Runner(agent, store=store).thread(key="k").send("Again")

    assert [["Be brief."]] == systems(agent.model.requests)


def test_a_sub_agent_renders_its_own_state(store: MemoryStore) -> None:
    """The state of a sub-agent begins with the defaults, also after an approval."""

    @tool(approval=True, writes_state=True)
    def rename(ctx: ToolContext[Memory], name: str) -> str:
        """Rename the guest."""
        ctx.update(name=name)
        return "renamed"

    calls = [ToolCall("rename", {"name": "Kim"}), "Done."]
    agent = host(calls, tools=[rename])
    replies: list[Any] = [ToolCall("host", {"input": "Rename"}), "All done."]
    boss = Agent("boss", model=ScriptedModel(replies), tools=[agent])
    outcome = expect(Runner(boss, store=store).start("Go"), Suspended)
    runner = Runner(boss, store=store)
    runner.decide(outcome.waits[0].id, Approve(by="jane"))

    assert isinstance(runner.resume(outcome.run_id), Finished)
    assert [["Known: nobody"], ["Known: Kim"]] == systems(agent.model.requests)


def test_an_input_with_a_system_message_keeps_it() -> None:
    """The function is not called then."""

    def refused(state: Any) -> str:
        return pytest.fail(f"called with {state}")

    agent = host(["Yes."], refused)
    messages = [
        {"role": "system", "content": "Mine"},
        {"role": "user", "content": "Hello"},
    ]
    Runner(agent, store=MemoryStore()).start(messages)

    assert [["Mine"]] == systems(agent.model.requests)


def test_the_first_estimate_of_tokens_counts_the_rendered_text() -> None:
    """A rendered text over `hard` ends the turn before a request is sent."""

    def much(state: Memory) -> str:
        return f"{state.name} " * 1000

    compaction = Compaction(soft=100, hard=500)
    agent = host(["Yes."], much, compaction=compaction)
    with pytest.raises(CompactionFailed, match="hard=500"):
        Runner(agent, store=MemoryStore()).start("Hello")
    assert not agent.model.requests


def raises(state: Memory) -> str:
    """Raise an error."""
    raise KeyError(state.name)


def returns_a_number(state: Memory) -> Any:
    """Return no text."""
    return len(state.name)


@pytest.mark.parametrize(
    ("function", "why"),
    [(raises, "raised KeyError"), (returns_a_number, "returned int, not a string")],
)
def test_a_function_that_fails_sends_nothing_and_the_run_can_be_resumed(
    function: Callable[[Memory], str], why: str, store: MemoryStore
) -> None:
    """The error names the agent; a corrected function goes on with the run."""
    agent = host(["Yes."], function)
    with pytest.raises(HookFailed, match=f"instructions of agent 'host' {why}") as info:
        Runner(agent, store=store).start("Hello", run_id="r")
    assert "instructions" == info.value.hook
    assert not agent.model.requests

    corrected = host(["Yes."])
    assert isinstance(Runner(corrected, store=store).resume("r"), Finished)
    assert [["Known: nobody"]] == systems(corrected.model.requests)


def test_an_agent_without_state_refuses_the_function() -> None:
    """The error says what to declare, and the advice works."""
    with pytest.raises(InvalidInput, match=r"Declare Agent\(\.\.\., state=\.\.\.\)"):
        Agent("host", instructions=known)
    Agent("host", instructions=known, state=Memory)


def test_a_guardrail_that_is_an_agent_has_the_default_state() -> None:
    """It has no frame, so its function reads the defaults."""
    judge: Any = Agent(
        "judge",
        model=ScriptedModel(['{"tripped": false}']),
        instructions=known,
        state=Memory,
        output_type=Verdict,
    )
    guardrails = Guardrails(input=[judge])
    agent = Agent("chat", model=ScriptedModel(["Yes."]), guardrails=guardrails)
    Runner(agent, store=MemoryStore()).start("Hello")

    assert [["Known: nobody"]] == systems(judge.model.requests)
