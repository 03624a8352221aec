"""A turn as a chat front end sees it: words, calls, sub-agents, state, its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from ag_ui.core import RunStartedEvent, TextMessageStartEvent
from ag_ui.encoder import EventEncoder
from starlette.responses import Response

from continuations import Agent, AsyncRunner, Compaction
from continuations.core.usage import Usage
from continuations.errors import ModelError
from continuations.events import ReplyGiven
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo
from continuations.interop import agui
from continuations.models.interface import (
    Message,
    ModelDelta,
    ModelReply,
    ModelRequest,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.interop.agui.clients import run_clients
from tests.interop.agui.scenes import (
    Basket,
    add_item,
    chat,
    look_up,
    pay,
    pay_jane,
    shop,
)
from tests.interop.agui.servers import serve, verify


async def test_reply_is_one_message_that_grows_word_by_word() -> None:
    async with chat(shop(["It arrives tomorrow."])) as scene:
        seen = await scene.person().say("Where is my lamp?")
    assert seen.types == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    words = [each["delta"] for each in seen.of("TEXT_MESSAGE_CONTENT")]
    assert words == ["It ", "arrives ", "tomorrow."]
    assert seen.texts == ["Where is my lamp?", "It arrives tomorrow."]
    assert seen.end["result"] == "It arrives tomorrow."
    start = seen.events[0]
    assert (start["threadId"], start["protocolVersion"]) == ("lamp", "1.0")
    assert start["runId"] == seen.end["runId"]


async def test_clients_of_these_tests_refuse_a_stream_that_breaks_a_rule() -> None:
    """`verifyEvents` sees each stream: here, two messages at once have one id."""
    start = TextMessageStartEvent(message_id="m1", role="assistant")
    events = [RunStartedEvent(thread_id="lamp", run_id="r1"), start, start]
    lines = "".join(EventEncoder().encode(each) for each in events)

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        response = Response(lines, media_type="text/event-stream")
        await response(scope, receive, send)

    async with serve(broken) as url, run_clients() as clients:
        seen = await clients.client(url, "ann").say("Hi")
    assert seen.error
    assert "already in progress" in seen.error


def said(text: str, usage: Usage = Usage(requests=1)) -> ModelReply:  # noqa: B008 - a value
    message = {"role": "assistant", "content": text}
    return ModelReply(message=Message.from_mapping(message), usage=usage)


class _SlowModel:
    """Writes its second word once the test has seen the first one."""

    name = "slow"

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Write two words."""
        assert request.on_delta
        await request.on_delta(ModelDelta(kind="text", text="One "))
        await self.may_go_on.wait()
        await request.on_delta(ModelDelta(kind="text", text="two."))
        return said("One two.")


async def test_words_are_sent_while_the_model_writes() -> None:
    """The first word is there before the model has written the second one."""
    model = _SlowModel()
    runner = AsyncRunner(Agent("shop", model=model), store="memory:")
    async with (
        serve(agui.app(runner, verify=verify)) as url,
        httpx.AsyncClient(headers={"x-user": "ann"}) as client,
        client.stream("POST", url, json=body("Hi")) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        text = ""
        async for line in response.aiter_lines():
            event = json.loads(line.removeprefix("data: ") or "{}")
            text += event.get("delta", "")
            if text == "One ":
                model.may_go_on.set()
    assert text == "One two."


def body(text: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return the body of a turn."""
    messages = [] if text is None else [{"id": "m1", "role": "user", "content": text}]
    return {"threadId": "lamp", "runId": "r1", "messages": messages, **fields}


async def test_thoughts_of_the_model_are_a_reasoning_message() -> None:
    reply = {
        "role": "assistant",
        "content": "Tomorrow.",
        "reasoning_content": "I look it up.",
    }
    async with chat(shop([reply])) as scene:
        seen = await scene.person().say("When?")
    assert seen.types[1:7] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
    ]
    roles = {each["role"]: each.get("content") for each in seen.messages}
    assert (roles["reasoning"], roles["assistant"]) == ("I look it up.", "Tomorrow.")


async def test_call_of_a_tool_has_its_arguments_and_its_result() -> None:
    script: list[Any] = [ToolCall("look_up", {"order": "A-17"}), "Soon."]
    async with chat(shop(script)) as scene:
        seen = await scene.person().say("Where is A-17?")
    assert seen.error is None
    call, result, reply = seen.messages[1:]
    [made] = call["toolCalls"]
    assert made["function"] == {"name": "look_up", "arguments": '{"order":"A-17"}'}
    assert (result["toolCallId"], result["content"]) == (
        made["id"],
        "A-17 is on its way",
    )
    assert reply["content"] == "Soon."
    # A call with a result is not one that the application has to answer.
    assert seen.end["outcome"] == {"type": "success"}


async def test_sub_agents_have_their_own_messages_below_their_call() -> None:
    """Two levels; the lowest one waits, and goes on in a later turn."""
    clerk = Agent("clerk", tools=[pay], model=ScriptedModel([pay_jane(), "Paid."]))
    desk = Agent(
        "desk",
        tools=[clerk],
        model=ScriptedModel([ToolCall("clerk", {"input": "pay"}), "The desk is done."]),
    )
    agent = shop([ToolCall("desk", {"input": "go"}), "All done."], tools=[desk])
    async with chat(agent) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        upper, lower = seen.of("SUBAGENT_STARTED")
        assert (upper["name"], lower["name"]) == ("desk", "clerk")
        assert lower["parentSubagentRunId"] == upper["subagentRunId"]
        calls = {each["toolCallName"]: each for each in seen.of("TOOL_CALL_START")}
        assert upper["parentToolCallId"] == calls["desk"]["toolCallId"]
        assert calls["pay"]["subagentRunId"] == lower["subagentRunId"]
        [asked] = seen.interrupts
        assert asked["subagentRunId"] == lower["subagentRunId"]
        assert asked["toolCallId"] == calls["pay"]["toolCallId"]
        first, second = seen.of("SUBAGENT_FINISHED")
        assert first["outcome"] == {"type": "suspended", "interruptIds": [asked["id"]]}
        assert second["outcome"] == {"type": "suspended"}

        seen = await ann.answer({"approved": True})
        assert seen.error is None
        started = [each["name"] for each in seen.of("SUBAGENT_STARTED")]
        ended = [each["result"] for each in seen.of("SUBAGENT_FINISHED")]
        assert started == ["desk", "clerk"]
        assert ended == ["Paid.", "The desk is done."]
        assert "TOOL_CALL_START" not in seen.types  # its call is known already
        assert seen.texts[1:] == ["Paid.", "The desk is done.", "All done."]
        assert scene.paid == ["jane 500 s3cret"]


async def test_failed_sub_agent_is_an_error_and_the_turn_goes_on() -> None:
    script: list[Any] = [ToolCall("clerk", {"input": "pay"}), "It did not work."]
    looping = ScriptedModel(lambda _: ToolCall("look_up", {"order": "A-17"}))
    clerk = Agent("clerk", tools=[look_up], model=looping, max_turns=2)
    async with chat(shop(script, tools=[clerk])) as scene:
        seen = await scene.person().say("Pay")
    [failed] = seen.of("SUBAGENT_ERROR")
    assert failed["code"] == "error"
    assert (seen.error, seen.outcome) == (None, "success")


async def test_state_is_a_snapshot_then_changes() -> None:
    script: list[Any] = [
        ToolCall("add_item", {"name": "lamp", "cents": 900}),
        "It is in.",
        ToolCall("add_item", {"name": "bulb", "cents": 100}),
        "Both.",
    ]
    agent = shop(script, tools=[add_item], state=Basket)
    async with chat(agent) as scene:
        ann = scene.person()
        seen = await ann.say("A lamp")
        assert [each["snapshot"] for each in seen.of("STATE_SNAPSHOT")] == [
            {"items": [], "total": 0}
        ]
        assert seen.state == {"items": ["lamp"], "total": 900}
        # The client sends its state, so it needs no snapshot.
        seen = await ann.say("A bulb")
        assert seen.state == {"items": ["lamp", "bulb"], "total": 1000}
        assert ([], 1) == (seen.of("STATE_SNAPSHOT"), len(seen.of("STATE_DELTA")))
        # The state of a client is never that of the agent.
        other = scene.person("eve")
        seen = await other.turn(state={"total": 1})
        assert seen.state == {"items": ["lamp", "bulb"], "total": 1000}


async def test_usage_is_that_of_the_turn() -> None:
    def reply(request: ModelRequest) -> ModelReply:
        del request
        return said("Hi.", Usage(requests=1, input_tokens=7, output_tokens=3))

    async with chat(shop(reply)) as scene:
        ann = scene.person()
        for _ in range(2):
            seen = await ann.say("Hi")
            counts = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
            assert seen.end["usage"] == [counts]


async def test_browser_that_was_closed_shows_the_whole_conversation() -> None:
    script: list[Any] = [
        ToolCall("look_up", {"order": "A-17"}),
        "Soon.",
        "You are welcome.",
    ]
    async with chat(shop(script)) as scene:
        ann = scene.person()
        await ann.say("Where is A-17?")
        before = await ann.say("Thanks")
        again = await scene.person("ann", "lamp").turn(messages=[])
        assert again.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert again.texts == before.texts
        ids = [each["id"] for each in before.messages if each["role"] != "user"]
        assert ids == [each["id"] for each in again.messages if each["role"] != "user"]


async def test_shortened_history_leaves_the_browser_as_it_is() -> None:
    """The agent reads a summary. A new browser shows it before the newest messages."""

    def reply(request: ModelRequest) -> str:
        return f"I read {request.messages[-1].content}"

    compaction = Compaction(soft=60, hard=400, keep_last=2)
    async with chat(shop(reply, compaction=compaction)) as scene:
        ann = scene.person()
        seen = await ann.say("page 0 of a story")
        for number in range(1, 8):
            seen = await ann.say(f"page {number} of a story that is rather long")
            assert (seen.error, seen.of("MESSAGES_SNAPSHOT")) == (None, [])
        assert len(seen.texts) == 16
        again = await scene.person("bob").turn()
        assert again.texts[0].startswith("Summary of the earlier conversation.")
        assert again.texts[-2:] == seen.texts[-2:]
        ids = [each["id"] for each in seen.messages]
        assert again.messages[-1]["id"] == ids[-1]


async def test_message_of_another_person_stands_in_the_conversation() -> None:
    """Bob's browser gets what Ann wrote, and Ann's what Bob wrote, each once."""
    async with chat(shop(["Hello Ann.", "Hello Bob.", "Bye."])) as scene:
        ann, bob = scene.person(), scene.person("bob")
        await ann.say("I am Ann")
        seen = await bob.say("I am Bob")
        expected = ["I am Ann", "Hello Ann.", "I am Bob", "Hello Bob."]
        assert seen.texts == expected
        seen = await ann.say("Bye")
        assert seen.texts == [*expected, "Bye", "Bye."]
        assert await scene.users_texts() == ["I am Ann", "I am Bob", "Bye"]


async def test_reply_that_begins_anew_is_shown_once() -> None:
    """A stream breaks after some words, and the next attempt writes others."""

    class Torn:
        name = "torn"
        attempts = 0

        async def reply(self, request: ModelRequest) -> ModelReply:
            assert request.on_delta
            Torn.attempts += 1
            await request.on_delta(ModelDelta(kind="text", text="It will nev"))
            await request.on_delta(ModelDelta(kind="restart", text=""))
            await request.on_delta(ModelDelta(kind="text", text="Tomorrow."))
            return said("Tomorrow.")

    async with chat(Agent("shop", model=Torn())) as scene:
        ann = scene.person()
        seen = await ann.say("When?")
        assert seen.error is None
        assert "MESSAGES_SNAPSHOT" in seen.types
        assert seen.texts == ["When?", "Tomorrow."]
        again = await ann.turn()
        assert "MESSAGES_SNAPSHOT" not in again.types


async def test_words_that_a_guardrail_withholds_are_taken_back() -> None:
    def no_card(reply: ReplyInfo) -> Tripped | None:
        return Tripped("it has a card") if "4111" in reply.text else None

    rules = Guardrails(output=[Guardrail(check=no_card, on_trip="retry")])
    script: list[Any] = ["Your card is 4111.", "I cannot say."]
    async with chat(shop(script, guardrails=rules)) as scene:
        seen = await scene.person().say("My card?")
        assert (seen.error, seen.outcome) == (None, "success")
        assert seen.texts[-1] == "I cannot say."
        assert not any("4111" in each for each in seen.texts)


async def test_turn_that_was_stopped_is_cancelled() -> None:
    async with chat(shop([pay_jane(), "Paid.", "Again?"])) as scene:
        ann = scene.person()
        await ann.say("Pay Jane")
        await scene.runner.thread(key="lamp").stop_turn(reason="Enough.")
        seen = await ann.answer(...)
        assert (seen.error, seen.outcome, seen.interrupts) == (None, "cancelled", [])
        assert scene.paid == []


async def test_cancelled_run_is_cancelled_with_its_sub_agents() -> None:
    clerk = Agent("clerk", tools=[pay], model=ScriptedModel([pay_jane(), "Paid."]))
    agent = shop([ToolCall("clerk", {"input": "pay"}), "Done."], tools=[clerk])
    async with chat(agent) as scene:
        ann = scene.person()
        await ann.say("Pay Jane")
        await scene.runner.cancel(await scene.run_id(), reason="A mistake.")
        seen = await ann.answer(...)
        assert (seen.error, seen.outcome) == (None, "cancelled")


async def test_failed_reply_is_an_error_and_the_chat_goes_on() -> None:
    """The turn limit ends one reply, not the conversation."""

    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        is_loop = last.role == "tool" or last.content == "Loop"
        return ToolCall("look_up", {"order": "A-17"}) if is_loop else "Hello."

    async with chat(shop(reply, max_turns=2)) as scene:
        ann = scene.person()
        seen = await ann.say("Loop")
        assert seen.outcome == "error max_turns"
        seen = await ann.say("Hello")
        assert (seen.outcome, seen.texts[-1]) == ("success", "Hello.")


async def test_model_that_refuses_is_an_error_without_details() -> None:
    """The text of a provider may name keys and hosts: it goes to the log."""
    refusal = ModelError("key sk-123 is wrong at host db7", status=401)
    async with chat(shop([refusal])) as scene:
        seen = await scene.person().say("Hi")
    assert seen.outcome == "error model-error"
    assert "sk-123" not in str(seen.events)


async def test_client_that_leaves_does_not_stop_the_work() -> None:
    """The next turn shows the reply that was made meanwhile."""
    model = _SlowModel()
    async with chat(Agent("shop", model=model)) as scene:
        ann = scene.person()
        seen = await ann.say("Hi", abort_after="TEXT_MESSAGE_CONTENT")
        assert seen.events[-1].get("code") == "abort"
        model.may_go_on.set()
        followed = scene.runner.thread(key="lamp").follow()
        assert [each async for each in up_to_the_reply(followed)]
        seen = await ann.turn()
        assert (seen.error, seen.texts) == (None, ["Hi", "One two."])


async def up_to_the_reply(events: Any) -> AsyncGenerator[Any]:
    async for event in events:
        yield event
        if isinstance(event, ReplyGiven):
            return


async def test_run_that_is_not_a_thread() -> None:
    """`thread` may return the id of a run: its waits are answered by the same rules."""
    runner = AsyncRunner(shop([pay_jane(), "Paid."]), store="memory:")
    await runner.start("Pay Jane", run_id="jane-1")

    def of_run(_: object, thread_id: str) -> str | None:
        return thread_id if thread_id == "jane-1" else None

    async with chat(shop([]), runner=runner, thread=of_run) as scene:
        ann = scene.person(thread="jane-1")
        seen = await ann.turn()
        assert [each["reason"] for each in seen.interrupts] == ["approval"]
        assert seen.texts == ["Pay Jane"]
        seen = await ann.answer({"approved": True})
        assert (seen.outcome, seen.texts[-1]) == ("success", "Paid.")
        seen = await scene.person("bob", thread="other").turn()
        assert seen.error
        assert "HTTP 403" in seen.error
