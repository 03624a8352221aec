"""Each message of a thread is answered with the present instructions of its agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Compaction,
    Replied,
    Runner,
    Suspended,
    tool,
)
from continuations.errors import InvalidInput
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.engine.agent_builders import should_pause_after
from tests.outcomes import expect

KEY = "customer 42"


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay an amount."""
    return f"paid {cents}"


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

    @tool
    def note() -> str:
        """Note."""
        return "noted"

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
    first = new.thread.look()
    assert first is not None
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
