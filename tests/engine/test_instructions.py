"""Instructions that a function writes: for a conversation, a message or a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

import continuations
from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Compaction,
    Finished,
    Outcome,
    Replied,
    Runner,
    Suspended,
    ToolContext,
    run,
    tool,
)
from continuations.authoring.manifest import compare_manifests, make_manifest
from continuations.errors import CompactionFailed, HookFailed, InvalidInput, RunNotFound
from continuations.guardrails import Guardrails
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.engine.agent_builders import root_tool_results, should_pause_after, text_tool
from tests.outcomes import expect, present, single_wait


def _system_texts(outcome: Outcome) -> list[str]:
    messages = outcome.continuation.root.messages
    return [each["content"] for each in messages if each["role"] == "system"]


def greet(task: Any, context: Any) -> str:
    return f"Help {context}: {task}"


async def greet_later(task: Any, context: Any) -> str:
    return greet(task, context)


@pytest.mark.parametrize("function", [greet, greet_later])
def test_function_gets_the_input_and_the_context(function: Any) -> None:
    agent = Agent("clerk", instructions=function, model=ScriptedModel(["Done."]))

    assert ["Help kim: pay"] == _system_texts(run(agent, "pay", context="kim"))
    messages = [{"role": "user", "content": "pay"}]
    assert [f"Help kim: {messages}"] == _system_texts(
        run(agent, messages, context="kim")
    )


def test_resume_does_not_call_the_function_again() -> None:
    calls: list[str] = []

    def count(task: str, context: object) -> str:
        calls.append(f"{task} {context}")
        return f"Version {len(calls)}"

    pay = text_tool("pay", "paid", approval=True)
    model = ScriptedModel([ToolCall("pay"), "Done."])
    agent = Agent("clerk", instructions=count, tools=[pay], model=model)
    runner = Runner(agent, store=MemoryStore())
    runner.decide(single_wait(runner.start("go", run_id="r1")).id, Approve())

    outcome = runner.resume("r1")

    assert ["go None"] == calls
    assert ["Version 1"] == _system_texts(outcome)
    assert "Version 1" == model.requests[-1].messages[0].content


def test_repeated_start_of_the_same_input_is_the_same_run() -> None:
    """The text of the function is no part of the input."""
    texts = iter("abc")
    model = ScriptedModel(["Done."])
    agent = Agent("clerk", instructions=lambda _i, _c: next(texts), model=model)
    runner = Runner(agent, store="memory:")

    runner.start("go", run_id="r1")
    again = expect(runner.start("go", run_id="r1"), Finished)

    assert ["a"] == _system_texts(again)


def test_function_of_a_sub_agent_gets_its_task() -> None:
    child = Agent("child", instructions=greet, model=ScriptedModel(["Done."]))
    model = ScriptedModel([ToolCall("child", {"input": "Book it."}), "Done."])

    outcome = run(Agent("boss", tools=[child], model=model), "go", context="kim")

    assert isinstance(outcome, Finished)
    sub_model = expect(child.model, ScriptedModel)
    assert "Help kim: Book it." == sub_model.requests[0].messages[0].content


def fail(task: object, context: object) -> str:
    raise LookupError(f"a secret {task} {context}")


def return_nothing(task: object, context: object) -> Any:
    del task, context


@pytest.mark.parametrize("function", [fail, return_nothing])
def test_function_of_a_root_agent_that_fails_starts_nothing(function: Any) -> None:
    agent = Agent("clerk", instructions=function, model=ScriptedModel(["Done."]))
    runner = Runner(agent, store="memory:")

    with pytest.raises(InvalidInput, match="the instructions function") as told:
        runner.start("go", run_id="r1")

    assert "secret" not in str(told.value)
    with pytest.raises(RunNotFound):
        runner.look("r1")


def test_function_of_a_sub_agent_that_fails_is_an_error_for_its_parent() -> None:
    child = Agent("child", instructions=fail, model=ScriptedModel([]))
    model = ScriptedModel([ToolCall("child", {"input": "A"}), "Done."])

    outcome = expect(run(Agent("boss", tools=[child], model=model), "go"), Finished)

    expected = "ERROR: the call was not executed: the instructions of the agent raised"
    assert [f"{expected} LookupError."] == root_tool_results(outcome)


def take_one(task: str) -> str:
    return task


@pytest.mark.parametrize("value", [5, take_one, len, None])
def test_instructions_of_another_form_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"a function of \(input, context"):
        Agent("clerk", instructions=value)


def test_manifest_names_the_function_and_not_its_text() -> None:
    def manifest(instructions: Any) -> str:
        return make_manifest(Agent("a", instructions=instructions), sdk_version="1")

    assert () == compare_manifests(manifest(greet), manifest(greet))
    [change] = compare_manifests(manifest(greet), manifest(greet_later))
    assert "the instructions changed" == change.what
    assert manifest("greet") != manifest(greet)


# Instructions of a state ------------------------------------------------------


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
    return f"Known: {state.name}"


async def known_later(state: Memory) -> str:
    return known(state)


REMEMBERS = ToolCall("remember", {"name": "Ann"})


def host(replies: Any, instructions: Any = known, **options: Any) -> Any:
    """Return an agent whose model remembers a name."""
    options = {"tools": [remember], "state": Memory, **options}
    model = ScriptedModel(replies)
    return Agent("host", model=model, instructions=instructions, **options)


def always_yes(request: ModelRequest) -> str:
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
    raise KeyError(state.name)


def returns_a_number(state: Memory) -> Any:
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


# Instructions of threads ------------------------------------------------------


KEY = "customer 42"
pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)


class Code:
    """One deployment of the agent: its instructions, and the requests of its model."""

    def __init__(
        self, store: MemoryStore, instructions: Any, replies: Any = None, **options: Any
    ) -> None:
        self.model = ScriptedModel(replies or ["Yes."] * 9)
        agent = Agent(
            "support",
            instructions=instructions,
            tools=[pay],
            model=self.model,
            **options,
        )
        self.runner = Runner(agent, store=store)
        self.thread = self.runner.thread(key=KEY)

    def systems(self, request: int = -1) -> list[str]:
        """Return the system messages of a request, and check that they come first."""
        messages = [each.data for each in self.model.requests[request].messages]
        found = [each["content"] for each in messages if each["role"] == "system"]
        assert found == [each["content"] for each in messages[: len(found)]]
        return found


def test_the_next_message_takes_the_present_instructions(store: MemoryStore) -> None:
    old, new = Code(store, "OLD"), Code(store, "NEW")
    old.thread.send("one")

    new.thread.send("two")
    again = new.thread.send("three")

    assert ["OLD"] == old.systems()
    assert ["NEW"] == new.systems(0) == new.systems()
    roles = [each.role for each in new.model.requests[-1].messages]
    assert ["system", *["user", "assistant"] * 2, "user"] == roles
    assert isinstance(again, Replied)


def test_the_asynchronous_thread_takes_them_too(store: MemoryStore) -> None:
    Code(store, "OLD").thread.send("one")
    model = ScriptedModel(["Yes."] * 2)
    runner = AsyncRunner(Agent("support", instructions="NEW", model=model), store=store)

    asyncio.run(runner.thread(key=KEY).send("two"))

    assert "NEW" == model.requests[0].messages[0].content


def test_a_sweep_answers_with_the_present_instructions(store: MemoryStore) -> None:
    old, new = Code(store, "OLD"), Code(store, "NEW")
    old.thread.send("one")
    ticket = new.thread.post("two")

    new.runner.sweep()

    assert isinstance(ticket.look(), Replied)
    assert ["NEW"] == new.systems()


def test_a_turn_that_has_begun_keeps_its_instructions(store: MemoryStore) -> None:
    """Its approval stays valid. The next message takes the new instructions."""
    old = Code(store, "OLD", [ToolCall("pay", {"cents": 5})])
    held = expect(old.thread.send("pay"), Suspended)
    new = Code(store, "NEW")

    new.runner.decide(held.waits[0].id, Approve(by="kim"))
    new.runner.resume(held.run_id)
    assert ["OLD"] == new.systems()
    assert "paid 5" == new.model.requests[0].messages[-1].content
    new.thread.send("more")

    assert ["NEW"] == new.systems()


def test_a_turn_whose_model_was_not_asked_keeps_its_instructions(
    store: MemoryStore,
) -> None:
    """A turn begins when a worker takes in its message."""
    Code(store, "OLDEST").thread.send("one")
    old, new = Code(store, "OLD"), Code(store, "NEW")
    ticket = old.thread.post("two")
    ticket.reply(should_pause=should_pause_after(1))
    assert [] == old.model.requests
    new.runner.resume(ticket.run_id)

    assert ["OLD"] == new.systems()


def test_frozen_instructions_stay(store: MemoryStore) -> None:
    old, new = Code(store, "OLD"), Code(store, "NEW")
    frozen = old.runner.thread(key="frozen", instructions="frozen")
    frozen.send("one")

    new.runner.thread(key="frozen").send("two")
    new.runner.thread(key="frozen", instructions="present").send("three")

    assert ["OLD"] == new.systems(0) == new.systems()


def test_frozen_absence_of_instructions_stays(store: MemoryStore) -> None:
    old, new = Code(store, ""), Code(store, "NEW")
    old.runner.thread(key="frozen", instructions="frozen").send("one")

    new.runner.thread(key="frozen").send("two")

    assert [] == old.systems() == new.systems()


def test_instructions_can_appear_and_disappear(store: MemoryStore) -> None:
    for text in ("", "A", "", "B", "B", "A"):
        code = Code(store, text)
        code.thread.send(f"with {text}")

        assert [text] * bool(text) == code.systems()
        assert [] == [each for each in code.model.requests[0].messages if not each.text]


def test_thread_without_a_change_stores_one_system_message(store: MemoryStore) -> None:
    code = Code(store, "SAME")
    for text in ("one", "two", "three"):
        code.thread.send(text)

    roles = [each["role"] for each in code.thread.messages()]
    assert ["system", *["user", "assistant"] * 3] == roles


def test_messages_show_where_the_instructions_changed(store: MemoryStore) -> None:
    Code(store, "OLD").thread.send("one")
    new = Code(store, "NEW")
    new.thread.send("two")

    shown = [each["content"] for each in new.thread.messages()]
    assert ["OLD", "one", "Yes.", "NEW", "two", "Yes."] == shown


def test_max_turns_are_those_of_the_present_agent(store: MemoryStore) -> None:
    Code(store, "A", max_turns=1).thread.send("one")
    calls: list[Any] = [ToolCall("note", {}), ToolCall("note", {}), "Done."]
    note = text_tool("note", "noted")
    model = ScriptedModel(calls)
    agent = Agent("support", instructions="A", tools=[note], model=model, max_turns=3)
    assert isinstance(Runner(agent, store=store).thread(key=KEY).send("two"), Replied)


def test_function_is_called_with_each_message(store: MemoryStore) -> None:
    calls: list[tuple[Any, Any]] = []

    def instructions(text: Any, context: Any) -> str:
        calls.append((text, context))
        return f"about {text}"

    code = Code(store, instructions)
    code.thread.send("one", context="a")
    code.thread.send("two", context="b")

    assert [("one", "a"), ("two", "b")] == calls
    assert ["about one"] == code.systems(0)
    assert ["about two"] == code.systems(1)


def test_function_that_fails_leaves_the_message(store: MemoryStore) -> None:
    """The message is answered once the function is corrected."""
    Code(store, "OLD").thread.send("one")

    def fail(text: Any, context: Any) -> str:
        raise LookupError(f"a secret {text} {context}")

    broken = Code(store, fail)
    before = broken.thread.look()
    with pytest.raises(InvalidInput, match="instructions function raised") as told:
        broken.thread.send("two", id="m2")
    after = broken.thread.look()

    assert "secret" not in str(told.value)
    assert before is not None
    assert after is not None
    assert before.version == after.version
    fixed = Code(store, "NEW")
    assert isinstance(fixed.thread.send("two", id="m2"), Replied)
    assert ["NEW"] == fixed.systems()


def test_merged_message_does_not_change_the_instructions(store: MemoryStore) -> None:
    Code(store, "OLD").thread.send("one", by="ann")
    calls: list[str] = []

    def instructions(text: Any, context: Any) -> str:
        del context
        calls.append(text)
        return f"about {text}"

    code = Code(store, instructions)
    code.thread.post("two", by="ann")
    code.thread.post("and this", by="ann", when_busy="merge").reply()

    assert ["two"] == calls
    assert ["about two"] == code.systems()


def test_fork_of_a_thread_keeps_the_instructions_of_its_turn(
    store: MemoryStore,
) -> None:
    old = Code(store, "OLD", [ToolCall("pay", {"cents": 5})])
    held = expect(old.thread.send("pay"), Suspended)
    new = Code(store, "NEW")

    forked = new.runner.fork(held.run_id, run_id="forked")
    (wait,) = [each for each in new.runner.waiting() if each.run_id == forked]
    new.runner.decide(wait.id, Approve(by="kim"))
    new.runner.resume(forked)

    assert ["OLD"] == new.systems()


def test_rewound_thread_takes_the_present_instructions(store: MemoryStore) -> None:
    """The system message of a later version is gone; the next message has its own."""
    Code(store, "OLD").thread.send("one")
    new = Code(store, "NEW")
    first = present(new.thread.look())
    last = new.thread.send("two")
    new.runner.rewind(last.run_id, version=first.version)

    newest = Code(store, "NEWEST")
    newest.thread.send("three")

    assert ["NEWEST"] == newest.systems()
    assert "NEW" not in [each["content"] for each in newest.thread.messages()]


def _reply(request: ModelRequest) -> str:
    if not request.tools:
        texts = "".join(str(each.content) for each in request.messages)
        assert "PROMPT" not in texts
        return "They spoke."
    return "word " * 200


def test_compaction_keeps_the_present_instructions(store: MemoryStore) -> None:
    """And no summary is made of instructions, present or earlier."""
    compaction = Compaction(soft=900, hard=9_000, keep_last=4)
    for text in ("PROMPT A", "PROMPT B"):
        code = Code(store, text, _reply, compaction=compaction)
        for number in range(2):
            code.thread.send(f"{number} about {text[-1]}")
    for number in range(3):
        code.thread.send(f"later {number}")

    contents = [str(each.content) for each in code.model.requests[-1].messages]
    assert any("Summary of the earlier" in text for text in contents)
    assert "PROMPT B" == contents[0]
    assert "PROMPT A" not in contents
    assert 1 == contents.count("PROMPT B")


def test_drift_reports_the_change(store: MemoryStore) -> None:
    Code(store, "OLD").thread.send("one")

    (row,) = Code(store, "NEW").runner.drift()

    assert () == row.why
    assert ["the instructions changed"] == [each.what for each in row.code_changes]


@pytest.mark.parametrize("wrong", ["FROZEN", "Be kind.", None])
def test_thread_refuses_other_values_of_instructions(
    store: MemoryStore, wrong: Any
) -> None:
    runner = Code(store, "OLD").runner

    with pytest.raises(InvalidInput, match=r"Agent\(instructions=\.\.\.\)"):
        runner.thread(key=KEY, instructions=wrong)
