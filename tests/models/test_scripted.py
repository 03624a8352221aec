"""The scripted model: the conversation alone decides which reply is next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations.core.messages import (
    Message,
    ToolCallRequest,
    system_message,
    tool_message,
    user_message,
)
from continuations.core.usage import Usage
from continuations.errors import ModelError
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall


def call_model(model: ScriptedModel, *messages: Message, agent: str = "") -> ModelReply:
    request = ModelRequest(messages=messages or [user_message("go")], agent=agent)
    reply = asyncio.run(model.reply(request))
    assert isinstance(reply, ModelReply)
    return reply


def assistant_message(text: str) -> Message:
    return Message.from_mapping({"role": "assistant", "content": text})


def test_text_reply_is_a_final_reply() -> None:
    reply = call_model(ScriptedModel(["Done."]))

    assert '{"role":"assistant","content":"Done."}' == reply.message.text
    assert ("stop", Usage(requests=1)) == (reply.finish_reason, reply.usage)


def test_call_replies_become_tool_calls() -> None:
    # Given a reply with one call, and a reply with two calls
    one = ScriptedModel([ToolCall("pay", {"cents": 5, "to": "Jöna"})])
    two = ScriptedModel([[ToolCall("a"), ToolCall("b", "{oops", id="x")]])

    # Then the arguments are JSON, or the text of the script
    assert (
        ToolCallRequest("call_0_0", "pay", '{"cents":5,"to":"Jöna"}'),
    ) == call_model(one).message.tool_calls
    assert (
        ToolCallRequest("call_0_0", "a", "{}"),
        ToolCallRequest("x", "b", "{oops"),
    ) == call_model(two).message.tool_calls
    assert "tool_calls" == call_model(two).finish_reason


def test_message_and_model_reply_are_returned_unchanged() -> None:
    data: dict[str, Any] = {"role": "assistant", "content": "hm", "extra": [1]}
    reply = ModelReply(
        message=assistant_message("x"), usage=Usage(requests=3), finish_reason="length"
    )

    assert data == call_model(ScriptedModel([data])).message.data
    assert reply is call_model(ScriptedModel([reply]))


@pytest.mark.parametrize("error", [ModelError("down"), KeyboardInterrupt()])
def test_exception_in_the_script_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        call_model(ScriptedModel([error]))

    assert error is caught.value


def test_conversation_decides_which_reply_is_next() -> None:
    # Given a conversation with one reply
    script: list[ScriptedReply] = [ToolCall("pay"), "Paid.", "Bye."]
    first = call_model(ScriptedModel(script)).message
    paid = [
        system_message("be kind"),
        user_message("go"),
        first,
        tool_message("call_0_0", "ok"),
    ]

    # When another model with the same script continues
    another = ScriptedModel(script)

    # Then it returns the second reply, each time
    assert "Paid." == call_model(another, *paid).message.content
    assert "Paid." == call_model(another, *paid).message.content
    later = [*paid, assistant_message("Paid."), user_message("thanks")]
    assert "Bye." == call_model(another, *later).message.content


def test_script_may_be_a_mapping_of_agents() -> None:
    model = ScriptedModel({"hr": ["I am hr"], "accounts": lambda r: f"I am {r.agent}"})

    assert "I am hr" == call_model(model, agent="hr").message.content
    assert "I am accounts" == call_model(model, agent="accounts").message.content
    with pytest.raises(
        ModelError,
        match=r"no replies for agent 'cook' \(it has replies for: accounts, hr",
    ):
        call_model(model, agent="cook")


def test_script_may_be_an_async_function() -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return request.messages[-1].content.upper()

    assert "GO" == call_model(ScriptedModel(slow)).message.content


def test_end_of_the_script_is_an_error() -> None:
    with pytest.raises(ModelError, match="the script of agent hr ends before reply 2"):
        call_model(
            ScriptedModel({"hr": ["x"]}),
            user_message("a"),
            assistant_message("x"),
            agent="hr",
        )


@pytest.mark.parametrize(
    "reply", [[], {"role": "user", "content": "x"}, ToolCall("pay", {"cents": 1j})]
)
def test_invalid_reply_is_an_error(reply: ScriptedReply) -> None:
    with pytest.raises(ModelError, match=r"reply 1 of the script .* is not valid"):
        call_model(ScriptedModel([reply]))


def test_invalid_conversation_is_rejected() -> None:
    # Given a call whose result is missing
    call_message = call_model(ScriptedModel([ToolCall("pay")])).message
    model = ScriptedModel(["never returned"])

    # When the conversation is sent
    with pytest.raises(ModelError, match="the conversation is not valid") as caught:
        call_model(model, user_message("go"), call_message)

    # Then it is refused as by the API, and the request is recorded
    assert (400, False) == (caught.value.status, caught.value.retryable)
    assert 1 == len(model.requests)


def test_requests_are_kept_in_order() -> None:
    model = ScriptedModel(["x"], name="parrot")

    call_model(model, user_message("a"))
    call_model(model, user_message("b"))

    assert ["a", "b"] == [r.messages[0].content for r in model.requests]
    assert ("parrot", "ScriptedModel(name='parrot')") == (model.name, repr(model))
