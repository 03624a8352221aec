"""Servers that leave something out of OpenAI's API get requests that they accept."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from continuations import Agent, Finished, run
from continuations.core.messages import Message, tool_message, user_message
from continuations.errors import InvalidInput, ModelError
from continuations.models.dialect import ChatDialect, dialect_of_host
from continuations.models.interface import ModelRequest, OutputSchema, ToolSpec
from continuations.models.openai_chat import OpenAIChat
from tests.model_server import ModelServer, Rule
from tests.models.model_calls import call_model, chat_model

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "weather", "arguments": "{}"},
        }
    ],
}
SECOND_TURN = ModelRequest(
    messages=[
        user_message("rain?"),
        Message.from_mapping(CALL),
        tool_message("call_1", "yes"),
    ]
)
TEMPLATE_ERROR = {
    "error": {
        "code": 500,
        "message": "Value is not a string: null at row 34, column 12 (jinja)",
        "type": "server_error",
    }
}


def without_null_content(status: int, body: object) -> Rule:
    """Return the rule of a server that refuses null content."""

    def rule(messages: list[dict[str, Any]], _model: str) -> Mapping[str, Any]:
        if any(message["content"] is None for message in messages):
            return {"status": status, "body": body}
        return {"content": "It rains."}

    return rule


@pytest.mark.parametrize("status", [400, 422, 500])
def test_null_content_is_sent_as_an_empty_text_after_a_refusal(status: int) -> None:
    with ModelServer(without_null_content(status, TEMPLATE_ERROR)) as server:
        model = chat_model(server)
        replies = [call_model(model, SECOND_TURN).message.content for _ in range(2)]

    # The second request begins in the dialect that the first one found.
    sent = [record["messages"][1]["content"] for record in server.requests]
    assert (["It rains."] * 2, [None, "", ""]) == (replies, sent)
    assert SECOND_TURN.messages[1].data["content"] is None


def test_refusal_that_stays_is_raised_after_one_more_request() -> None:
    reply = {"status": 500, "body": TEMPLATE_ERROR}

    with (
        ModelServer({"": [{}, reply]}) as server,
        pytest.raises(ModelError) as caught,
    ):
        call_model(chat_model(server), SECOND_TURN)

    assert (500, False) == (caught.value.status, caught.value.retryable)
    assert 2 == len(server.requests)


def test_failure_of_the_server_is_no_reason_for_another_dialect() -> None:
    reply = {"status": 503, "body": {"error": {"message": "no content: overloaded"}}}

    with (
        ModelServer({"": [{}, reply]}) as server,
        pytest.raises(ModelError) as caught,
    ):
        call_model(chat_model(server), SECOND_TURN)

    assert caught.value.retryable
    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    "text",
    [
        "invalid_request_error: messages[1].role is unknown",
        "1 validation error for ChatCompletionRequest",
        "Input should be a valid string",
        "tools are not supported by this model",
    ],
)
def test_invalid_request_with_status_500_is_not_retryable(text: str) -> None:
    reply = {"status": 500, "body": {"detail": text}}

    with (
        ModelServer({"": [reply]}) as server,
        pytest.raises(ModelError) as caught,
    ):
        call_model(chat_model(server))

    assert not caught.value.retryable
    assert "change the agent" in str(caught.value)


def test_request_that_ends_late_takes_nothing_back() -> None:
    """It began before another request found out what the server refuses."""
    refuses_null = without_null_content(400, TEMPLATE_ERROR)
    arrived, may_end = threading.Event(), threading.Event()

    def rule(messages: list[dict[str, Any]], model: str) -> Mapping[str, Any]:
        if messages[0]["content"] == "slow":
            arrived.set()
            may_end.wait(60)
        return refuses_null(messages, model)

    async def scenario(model: OpenAIChat) -> None:
        slow = ModelRequest(messages=[user_message("slow")])
        slow_request = asyncio.create_task(model.reply(slow))
        await asyncio.to_thread(arrived.wait, 60)
        await model.reply(SECOND_TURN)
        may_end.set()
        await slow_request
        await model.reply(SECOND_TURN)

    with ModelServer(rule) as server:
        asyncio.run(scenario(chat_model(server)))

    turns = [r["messages"] for r in server.requests if len(r["messages"]) > 1]
    assert [None, "", ""] == [messages[1]["content"] for messages in turns]


@pytest.mark.parametrize("status", [502, 503, 504, 529])
def test_outage_whose_text_names_a_request_is_retryable(status: int) -> None:
    """Only 500 and 501 may stand for an invalid request; a proxy sends the others."""
    text = "Bad request to the upstream: template service, not supported"
    reply = {"status": status, "body": {"error": {"message": text}}}

    with (
        ModelServer({"": [reply]}) as server,
        pytest.raises(ModelError) as caught,
    ):
        call_model(chat_model(server))

    assert caught.value.retryable


# The schema of the output -----------------------------------------------------

OUTPUT = OutputSchema(
    name="Trip",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
WEATHER = ToolSpec(name="weather", description="", parameters={"type": "object"})


class SchemaServer:
    """A server that accepts only some forms of an output schema.

    Attributes:
        forms: The form of each request: `strict`, `schema`, `tool` or `none`.
    """

    def __init__(self, accepted: str, tool_calls: list[dict[str, Any]]) -> None:
        self.forms: list[str] = []
        self._accepted = accepted
        self._tool_calls = tool_calls

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        tools = [tool["function"]["name"] for tool in settings.get("tools", ())]
        form = "tool" if "final_output" in tools else "none"
        if "response_format" in settings:
            is_strict = settings["response_format"]["json_schema"]["strict"]
            form = "strict" if is_strict else "schema"
        self.forms.append(form)
        if form != self._accepted:
            message = "This response_format type is unavailable now"
            error = {"message": message, "type": "invalid_request_error"}
            return {"status": 400, "body": {"error": error}}
        return (
            {"tool_calls": self._tool_calls}
            if form == "tool"
            else {"content": '{"city": "Oslo"}'}
        )


def final_output(arguments: object) -> dict[str, Any]:
    return {"name": "final_output", "arguments": arguments}


@pytest.mark.parametrize(
    ("accepted", "forms"),
    [
        ("strict", ["strict", "strict"]),
        ("schema", ["strict", "schema", "schema"]),
        ("tool", ["strict", "schema", "tool", "tool"]),
    ],
)
def test_output_schema_is_sent_in_the_first_form_that_the_server_takes(
    accepted: str, forms: list[str]
) -> None:
    rules = SchemaServer(accepted, [final_output({"city": "Oslo"})])
    request = ModelRequest(
        messages=[user_message("where?")], output_schema=OUTPUT, tools=[WEATHER]
    )

    with ModelServer({}, settings_rule=rules.check) as server:
        model = chat_model(server)
        replies = [call_model(model, request).message for _ in range(2)]

    assert forms == rules.forms
    for reply in replies:
        assert {"city": "Oslo"} == json.loads(reply.content)
        assert () == reply.tool_call_ids


def test_refusal_of_one_schema_leaves_other_schemas_strict() -> None:
    """Agents with one model share an adapter; one schema has what strict mode lacks."""
    other = OutputSchema(name="Ship", schema=OUTPUT.schema)
    forms: list[tuple[str, bool]] = []

    def check(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        sent = settings["response_format"]["json_schema"]
        forms.append((sent["name"], sent["strict"]))
        if forms[-1] == ("Trip", True):
            error = {"message": "Invalid schema for response_format 'Trip'"}
            return {"status": 400, "body": {"error": error}}
        return {"content": "{}"}

    with ModelServer({}, settings_rule=check) as server:
        model = chat_model(server)
        for output in (other, OUTPUT, other):
            messages = [user_message("where?")]
            call_model(model, ModelRequest(messages=messages, output_schema=output))

    assert [("Ship", True), ("Trip", True), ("Trip", False), ("Ship", True)] == forms


def test_output_beside_other_calls_is_left_out() -> None:
    """The model has not seen the results of these calls, so the output is too early."""
    calls = [{"name": "weather", "arguments": "{}"}, final_output({"city": "Oslo"})]
    rules = SchemaServer("tool", calls)
    request = ModelRequest(
        messages=[user_message("where?")], output_schema=OUTPUT, tools=[WEATHER]
    )

    with ModelServer({}, settings_rule=rules.check) as server:
        reply = call_model(chat_model(server), request).message

    assert ["weather"] == [call.tool for call in reply.tool_calls]


@dataclass
class Trip:
    city: str


def test_agent_gets_its_typed_output_from_a_server_without_schemas() -> None:
    rules = SchemaServer("tool", [final_output({"city": "Oslo"})])

    with ModelServer({}, settings_rule=rules.check) as server:
        outcome = run(Agent("a", model=chat_model(server), output_type=Trip), "Where?")

    assert isinstance(outcome, Finished)
    assert Trip("Oslo") == outcome.output


def test_tool_of_the_agent_keeps_its_name() -> None:
    taken = ToolSpec(name="final_output", description="", parameters={"type": "object"})
    request = ModelRequest(
        messages=[user_message("?")], output_schema=OUTPUT, tools=[taken]
    )

    with ModelServer({"": [{"content": "{}"}]}) as server:
        model = chat_model(server, dialect=ChatDialect(output="tool"))
        call_model(model, request)

    tools = server.requests[0]["settings"]["tools"]
    assert ["final_output", "final_output_"] == [t["function"]["name"] for t in tools]


def test_known_host_has_its_dialect() -> None:
    assert ChatDialect(output="tool") == dialect_of_host("api.deepseek.com")
    assert ChatDialect() == dialect_of_host("127.0.0.1")


def test_dialect_of_another_type_is_refused() -> None:
    wrong: Any = "llama"

    with pytest.raises(InvalidInput, match="dialect must be a ChatDialect, got str"):
        OpenAIChat("m", dialect=wrong)
