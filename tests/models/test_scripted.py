"""The scripted model: the conversation alone says which line is next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

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
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from continuations.models.scripted import ScriptedReply


def call_model(model: ScriptedModel, *messages: Message, agent: str = "") -> ModelReply:
    request = ModelRequest(messages=messages or [user_message("go")], agent=agent)
    return asyncio.run(model.reply(request))


def assistant_message(text: str) -> Message:
    return Message.from_mapping({"role": "assistant", "content": text})


def test_text_line_is_a_final_reply() -> None:
    reply = call_model(ScriptedModel(["Done."]))

    assert '{"role":"assistant","content":"Done."}' == reply.message.text
    assert ("stop", Usage(requests=1)) == (reply.finish_reason, reply.usage)


def test_call_lines_become_tool_calls() -> None:
    # Given a line of one call, and one of several
    one = ScriptedModel([ToolCall("pay", {"cents": 5, "to": "Jöna"})])
    two = ScriptedModel([[ToolCall("a"), ToolCall("b", "{oops", id="x")]])

    # When they are said
    # Then arguments are JSON, or the text as it was written
    assert (
        ToolCallRequest("call_0_0", "pay", '{"cents":5,"to":"Jöna"}'),
    ) == call_model(one).message.tool_calls
    assert (
        ToolCallRequest("call_0_0", "a", "{}"),
        ToolCallRequest("x", "b", "{oops"),
    ) == call_model(two).message.tool_calls
    assert "tool_calls" == call_model(two).finish_reason


def test_message_and_reply_lines_are_returned_unchanged() -> None:
    data: dict[str, Any] = {"role": "assistant", "content": "hm", "extra": [1]}
    reply = ModelReply(
        message=assistant_message("x"), usage=Usage(requests=3), finish_reason="length"
    )

    assert data == call_model(ScriptedModel([data])).message.data
    assert reply is call_model(ScriptedModel([reply]))


@pytest.mark.parametrize("error", [ModelError("down"), KeyboardInterrupt()])
def test_exception_line_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        call_model(ScriptedModel([error]))

    assert error is caught.value


def test_line_number_follows_from_the_conversation() -> None:
    # Given a conversation that is one line old, in a process that said nothing yet
    script: list[ScriptedReply] = [ToolCall("pay"), "Paid.", "Bye."]
    first = call_model(ScriptedModel(script)).message
    paid = [
        system_message("be kind"),
        user_message("go"),
        first,
        tool_message("call_0_0", "ok"),
    ]

    # When another model of the same script goes on
    another = ScriptedModel(script)

    # Then it says the second line, however often it is asked
    assert "Paid." == call_model(another, *paid).message.content
    assert "Paid." == call_model(another, *paid).message.content
    later = [*paid, assistant_message("Paid."), user_message("thanks")]
    assert "Bye." == call_model(another, *later).message.content


def test_script_may_have_a_part_per_agent() -> None:
    model = ScriptedModel({"hr": ["I am hr"], "accounts": lambda r: f"I am {r.agent}"})

    assert "I am hr" == call_model(model, agent="hr").message.content
    assert "I am accounts" == call_model(model, agent="accounts").message.content
    with pytest.raises(ModelError, match="lines for accounts, hr, none for 'cook'"):
        call_model(model, agent="cook")


def test_script_may_be_an_async_function() -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return request.messages[-1].content.upper()

    assert "GO" == call_model(ScriptedModel(slow)).message.content


def test_the_end_of_the_script_is_an_error() -> None:
    with pytest.raises(ModelError, match="the script of hr ends before line 2; add it"):
        call_model(
            ScriptedModel({"hr": ["x"]}),
            user_message("a"),
            assistant_message("x"),
            agent="hr",
        )


@pytest.mark.parametrize(
    "line", [[], {"role": "user", "content": "x"}, ToolCall("pay", {"cents": 1j})]
)
def test_invalid_line_is_an_error(line: ScriptedReply) -> None:
    with pytest.raises(ModelError, match="line 1 cannot be said"):
        call_model(ScriptedModel([line]))


def test_invalid_conversation_is_rejected() -> None:
    # Given a call whose result is missing
    asked = call_model(ScriptedModel([ToolCall("pay")])).message
    model = ScriptedModel(["never said"])

    # When the conversation is sent
    with pytest.raises(ModelError, match="cannot be sent") as caught:
        call_model(model, user_message("go"), asked)

    # Then it is refused as the API does, and was noted
    assert (400, False) == (caught.value.status, caught.value.retryable)
    assert 1 == len(model.requests)


def test_requests_are_kept_in_order() -> None:
    model = ScriptedModel(["x"], name="parrot")

    call_model(model, user_message("a"))
    call_model(model, user_message("b"))

    assert ["a", "b"] == [r.messages[0].content for r in model.requests]
    assert ("parrot", "ScriptedModel(name='parrot')") == (model.name, repr(model))
