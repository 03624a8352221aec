"""The scripted model: the conversation alone says which line is next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from continuations.core.messages import Message, Request, system, tool, user
from continuations.core.usage import Usage
from continuations.errors import ModelError
from continuations.models.contract import ModelRequest, Reply
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from continuations.models.scripted import Line


def ask(model: ScriptedModel, *messages: Message, agent: str = "") -> Reply:
    request = ModelRequest(messages=messages or [user("go")], agent=agent)
    return asyncio.run(model.reply(request))


def assistant(text: str) -> Message:
    return Message.of({"role": "assistant", "content": text})


def test_text_is_a_final_reply() -> None:
    reply = ask(ScriptedModel(["Done."]))

    assert '{"role":"assistant","content":"Done."}' == reply.message.text
    assert ("stop", Usage(requests=1)) == (reply.finish, reply.usage)


def test_calls_are_asked_for() -> None:
    # Given a line of one call, and one of several
    one = ScriptedModel([ToolCall("pay", {"cents": 5, "to": "Jöna"})])
    two = ScriptedModel([[ToolCall("a"), ToolCall("b", "{oops", id="x")]])

    # When they are said
    # Then arguments are JSON, or the text as it was written
    assert (Request("call_0_0", "pay", '{"cents":5,"to":"Jöna"}'),) == ask(
        one
    ).message.requests
    assert (
        Request("call_0_0", "a", "{}"),
        Request("x", "b", "{oops"),
    ) == ask(two).message.requests
    assert "tool_calls" == ask(two).finish


def test_messages_and_replies_are_said_as_they_are() -> None:
    data: dict[str, Any] = {"role": "assistant", "content": "hm", "extra": [1]}
    reply = Reply(message=assistant("x"), usage=Usage(requests=3), finish="length")

    assert data == ask(ScriptedModel([data])).message.data
    assert reply is ask(ScriptedModel([reply]))


@pytest.mark.parametrize("error", [ModelError("down"), KeyboardInterrupt()])
def test_an_exception_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        ask(ScriptedModel([error]))

    assert error is caught.value


def test_the_place_follows_from_the_conversation() -> None:
    # Given a conversation that is one line old, in a process that said nothing yet
    script: list[Line] = [ToolCall("pay"), "Paid.", "Bye."]
    first = ask(ScriptedModel(script)).message
    paid = [system("be kind"), user("go"), first, tool("call_0_0", "ok")]

    # When another model of the same script goes on
    another = ScriptedModel(script)

    # Then it says the second line, however often it is asked
    assert "Paid." == ask(another, *paid).message.content
    assert "Paid." == ask(another, *paid).message.content
    later = [*paid, assistant("Paid."), user("thanks")]
    assert "Bye." == ask(another, *later).message.content


def test_agents_have_parts_of_their_own() -> None:
    model = ScriptedModel({"hr": ["I am hr"], "accounts": lambda r: f"I am {r.agent}"})

    assert "I am hr" == ask(model, agent="hr").message.content
    assert "I am accounts" == ask(model, agent="accounts").message.content
    with pytest.raises(ModelError, match="lines for accounts, hr, none for 'cook'"):
        ask(model, agent="cook")


def test_a_function_may_take_its_time() -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return request.messages[-1].content.upper()

    assert "GO" == ask(ScriptedModel(slow)).message.content


def test_the_end_of_the_script_is_an_error() -> None:
    with pytest.raises(ModelError, match="the script of hr ends before line 2; add it"):
        ask(ScriptedModel({"hr": ["x"]}), user("a"), assistant("x"), agent="hr")


@pytest.mark.parametrize(
    "line", [[], {"role": "user", "content": "x"}, ToolCall("pay", {"cents": 1j})]
)
def test_a_line_that_is_no_reply_is_an_error(line: Line) -> None:
    with pytest.raises(ModelError, match="line 1 cannot be said"):
        ask(ScriptedModel([line]))


def test_it_refuses_what_every_provider_refuses() -> None:
    # Given a call whose result is missing
    asked = ask(ScriptedModel([ToolCall("pay")])).message
    model = ScriptedModel(["never said"])

    # When the conversation is sent
    with pytest.raises(ModelError, match="cannot be sent") as caught:
        ask(model, user("go"), asked)

    # Then it is refused as the API does, and was noted
    assert (400, False) == (caught.value.status, caught.value.retryable)
    assert 1 == len(model.requests)


def test_requests_are_kept_in_order() -> None:
    model = ScriptedModel(["x"], name="parrot")

    ask(model, user("a"))
    ask(model, user("b"))

    assert ["a", "b"] == [r.messages[0].content for r in model.requests]
    assert ("parrot", "ScriptedModel(name='parrot')") == (model.name, repr(model))
