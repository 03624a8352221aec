"""Filters of handoffs: what the next agent reads of a conversation."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from continuations import Agent, Answer, Runner, Suspended, ask, run
from continuations.core.changes import history
from continuations.core.messages import Message
from continuations.core.rows.frames import HistoryRecord
from continuations.core.rows.state import ROOT_FRAME_ID, Draft
from continuations.errors import InvalidInput
from continuations.events import Handoff as HandoffEvent
from continuations.events import MessageAdded
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.testing import AgentHarness
from continuations.tools import handoff
from continuations.value_class import replace
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.core.rows import new_state
from tests.engine.agent_builders import wait_tool
from tests.engine.handoff_agents import look_up
from tests.outcomes import expect, present

Messages: TypeAlias = list[dict[str, Any]]


LOOK_UP = ToolCall("look_up", {"order": "b"})

choose = wait_tool("choose", lambda: ask("Which?"), Any)


def filtered_shop(
    choose_messages: Any, seen: list[ModelRequest], beside: ToolCall = LOOK_UP
) -> Runner:
    """Return a runner of triage, which looks something up and then hands over."""

    def expert(request: ModelRequest) -> str:
        seen.append(request)
        return "I answer."

    desk = Agent("desk", instructions="You are the desk.", model=ScriptedModel(expert))
    triage = Agent(
        "triage",
        instructions="You route.",
        tools=[look_up, choose],
        model=ScriptedModel(
            [
                ToolCall("look_up", {"order": "a"}),
                "It is A.",
                [
                    beside,
                    ToolCall("transfer_to_desk", {}),
                ],
                "The filter failed.",
            ]
        ),
        handoffs=[handoff(desk, filter=choose_messages)],
    )
    return Runner(triage, store=MemoryStore(), clock=ManualClock())


def texts_of(request: ModelRequest) -> list[str]:
    """Return the roles and texts that a model reads, without instructions."""
    texts: list[str] = []
    for message in request.messages:
        calls = [call.tool for call in message.tool_calls]
        if message.role != "system":
            texts.append(f"{message.role}: {message.content or calls}")
    return texts


TURN = [
    "assistant: ['look_up', 'transfer_to_desk']",
    "tool: order b",
    "tool: The agent desk has the conversation now.",
]


def everything(messages: Messages) -> Messages:
    return messages


def nothing(messages: Messages) -> Messages:
    return messages[:0]


def without_first_call(messages: Messages) -> Messages:
    """Leave the first two messages out, but not the result of the call in them."""
    return messages[2:]


def without_first_result(messages: Messages) -> Messages:
    """Leave a result out, but not its call."""
    return [*messages[:2], *messages[3:]]


def of_people(messages: Messages) -> Messages:
    """Keep copies of what the person said."""
    return [dict(each) for each in messages if each["role"] == "user"]


@pytest.mark.parametrize(
    ("choose_messages", "left"),
    [
        (
            everything,
            [
                "user: A?",
                "assistant: ['look_up']",
                "tool: order a",
                "assistant: It is A.",
                "user: B?",
            ],
        ),
        (nothing, ["user: B?"]),
        # A call stays only with its results.
        (without_first_call, ["assistant: It is A.", "user: B?"]),
        (without_first_result, ["user: A?", "assistant: It is A.", "user: B?"]),
        (of_people, ["user: A?", "user: B?"]),
    ],
)
def test_filter_chooses_what_the_next_agent_reads(
    choose_messages: Any,
    left: list[str],
) -> None:
    seen: list[ModelRequest] = []
    runner = filtered_shop(choose_messages, seen)
    thread = runner.thread("triage", key="k")
    thread.send("A?", by="ann")

    reply = thread.send("B?", by="ann")

    assert "I answer." == reply.output
    [request] = seen
    assert [*left, *TURN] == texts_of(request)
    # The rest of the thread goes on from there, in any process.
    assert "I answer." == thread.send("C?", by="ann").output
    assert [*left, *TURN, "assistant: I answer.", "user: C?"] == texts_of(seen[1])
    [event] = [e for e in runner.events(thread.run_id) if isinstance(e, HandoffEvent)]
    assert 5 - len(left) == event.dropped
    added = [
        each.message["content"]
        for each in runner.events(thread.run_id)
        if isinstance(each, MessageAdded)
    ]
    assert 1 == added.count("order b") == added.count("It is A.") == added.count("C?")


async def async_filter(messages: Messages) -> Messages:
    """Return the last message."""
    return messages[-1:]


def test_filter_may_be_async_and_gets_no_system_messages() -> None:
    seen: list[ModelRequest] = []
    given: list[Messages] = []

    async def choose(messages: Messages) -> Messages:
        given.append(messages)
        return await async_filter(messages)

    runner = filtered_shop(choose, seen)
    thread = runner.thread("triage", key="k")
    thread.send("A?")
    thread.send("B?")

    assert ["user", "assistant", "tool", "assistant", "user"] == [
        each["role"] for each in given[0]
    ]
    assert ["user: B?", *TURN] == texts_of(seen[0])
    assert 1 == len(given)


def no_list(_messages: Messages) -> None:
    """Return nothing."""


def backwards(messages: Messages) -> Messages:
    return messages[::-1]


def invented(_messages: Messages) -> Messages:
    return [{"role": "user", "content": "Trust me."}]


def broken(_messages: Messages) -> Messages:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("choose_messages", "problem"),
    [
        (no_list, "the filter of a handoff returned a NoneType"),
        (backwards, "a message that it did not get, twice, or in another order"),
        (invented, "a message that it did not get, twice, or in another order"),
        (broken, "did not hand over: ZeroDivisionError"),
    ],
)
def test_filter_that_fails_leaves_the_conversation_where_it_is(
    choose_messages: Any,
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[ModelRequest] = []
    thread = filtered_shop(choose_messages, seen).thread("triage", key="k")
    thread.send("A?")

    assert "The filter failed." == thread.send("B?").output
    assert [] == seen
    assert problem in caplog.text
    found = present(thread.look())
    result = found.root.messages[-2]
    assert "tool" == result["role"]
    text = "ERROR: the call was not executed: the filter of the handoff "
    assert result["content"].startswith(text)


def test_fork_with_other_messages_drops_none_of_them() -> None:
    """The choice of the filter was made for the messages that the fork replaces."""
    seen: list[ModelRequest] = []
    runner = filtered_shop(nothing, seen, ToolCall("choose", {}))
    thread = runner.thread("triage", key="k")
    thread.send("A?")
    waiting = expect(thread.send("B?"), Suspended)
    assert waiting.continuation is not None
    [frame] = waiting.continuation.run_state.frames.values()
    messages = waiting.continuation.root.messages
    changed = [messages[0], {"role": "user", "content": "B or C?"}, messages[-1]]

    for fork in (
        runner.fork(waiting.run_id),
        runner.fork(waiting.run_id, messages={frame.id: changed}),
    ):
        [wait] = runner.look(fork).waits
        runner.decide(wait.id, Answer("yes"))
        assert "I answer." == runner.resume(fork).result()

    assert ["user: B?"] == texts_of(seen[0])[:1]
    assert ["user: B or C?"] == texts_of(seen[1])[:1]
    assert len(texts_of(seen[0])) == len(texts_of(seen[1]))


def test_summary_is_still_known_after_a_filter() -> None:
    """Otherwise the next compaction would take it for a request of the person."""
    messages = tuple(
        Message.from_mapping(each)
        for each in (
            {"role": "system", "content": "S"},
            {"role": "user", "content": "A?"},
            {"role": "user", "content": "Summary"},
            {"role": "assistant", "content": "It is."},
            {"role": "user", "content": "B?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "1",
                        "type": "function",
                        "function": {"name": "t", "arguments": "{}"},
                    }
                ],
            },
        )
    )
    draft = Draft(new_state(*messages))
    record = HistoryRecord(tokens=9, counted=2, summary_number=3)
    frame = replace(draft.frame(ROOT_FRAME_ID), history=record)

    changed = history.without_dropped(draft, frame, (1, 3))
    forgotten = history.without_dropped(Draft(new_state(*messages)), frame, (2,))

    assert HistoryRecord(summary_number=2) == changed.history
    assert [messages[n] for n in (0, 2, 4, 5)] == [*draft.log(frame.id).messages]
    assert forgotten.history is None


def test_filter_must_be_a_function() -> None:
    given: Any = "last"
    with pytest.raises(InvalidInput, match="must be a function, got str"):
        handoff(Agent("desk", model=ScriptedModel([])), filter=given)


def without_tools(messages: Messages) -> Messages:
    """Leave out calls and their results."""
    return [m for m in messages if m["role"] != "tool" and not m.get("tool_calls")]


def triage_with(choose_messages: Any, *replies: Any) -> Agent[str]:
    """Return an agent that hands over in a turn of its own."""
    desk = Agent("desk", instructions="You answer.", model=ScriptedModel(last_word))
    return Agent(
        "triage",
        instructions="You route.",
        tools=[look_up],
        model=ScriptedModel([*replies]),
        handoffs=[handoff(desk, filter=choose_messages)],
    )


def shop_of_texts(choose_messages: Any, *replies: Any) -> Runner:
    triage = triage_with(choose_messages, *replies)
    return Runner(triage, store=MemoryStore(), clock=ManualClock())


def last_word(request: ModelRequest) -> str:
    """Repeat what the person said last."""
    users = [each.content for each in request.messages if each.role == "user"]
    return f"You said {users[-1]}."


def added_texts(runner: Runner, run_id: str) -> list[str]:
    """Return what was added, by the events; instructions are left out."""
    added = [e.message for e in runner.events(run_id) if isinstance(e, MessageAdded)]
    return [
        each["content"] or each["tool_calls"][0]["function"]["name"]
        for each in added
        if each["role"] != "system"
    ]


def test_events_have_the_turn_that_hands_over_and_every_dropped_message() -> None:
    """The handoff is alone in its turn, and the filter drops the turn before it."""
    runner = shop_of_texts(
        without_tools, ToolCall("look_up", {"order": "a"}), ToolCall("transfer_to_desk")
    )

    ended = runner.start("A?", run_id="r1")

    assert "You said A?." == ended.result()
    assert [
        "A?",
        "look_up",
        "order a",
        "transfer_to_desk",
        "The agent desk has the conversation now.",
        "You said A?.",
    ] == added_texts(runner, "r1")
    [event] = [e for e in runner.events("r1") if isinstance(e, HandoffEvent)]
    assert 2 == event.dropped


def test_equal_messages_are_told_once_each() -> None:
    """Only the last of two equal messages stays."""
    runner = shop_of_texts(nothing, "one", "no", ToolCall("transfer_to_desk"))
    thread = runner.thread("triage", key="k")
    for text in ("yes", "no", "yes"):
        thread.send(text)

    assert [
        *("yes", "one", "no", "no", "yes", "transfer_to_desk"),
        "The agent desk has the conversation now.",
        "You said yes.",
    ] == added_texts(runner, thread.run_id)
    [event] = [e for e in runner.events(thread.run_id) if isinstance(e, HandoffEvent)]
    assert 4 == event.dropped


def test_a_message_that_the_filter_edits_is_refused() -> None:
    """It could be taken for a redaction: the next agent would read the original."""

    def redacted(messages: Messages) -> Messages:
        for each in messages:
            each["content"] = "****"
        return messages

    runner = shop_of_texts(redacted, ToolCall("transfer_to_desk"), "It failed.")

    assert "It failed." == runner.start("My pin is 1234.").result()


def test_transcript_of_a_harness_has_dropped_calls() -> None:
    harness = AgentHarness(
        triage_with(
            without_tools,
            ToolCall("look_up", {"order": "a"}),
            ToolCall("transfer_to_desk"),
        )
    )

    harness.run_to_end("A?")

    transcript = harness.transcript()
    transcript.assert_called("look_up", order="a")
    assert {"triage"} == {call.agent for call in transcript.calls()}


def test_run_without_a_store_filters_too() -> None:
    triage = triage_with(
        without_tools, ToolCall("look_up", {"order": "a"}), ToolCall("transfer_to_desk")
    )

    assert "You said A?." == run(triage, "A?").result()
