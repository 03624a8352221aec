"""Output items are stored with the message and go back unchanged, in their order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.core.messages import Message, tool_message, user_message
from continuations.models.chat_request import build_request_body
from continuations.models.dialect import OPENAI_DIALECT
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.responses_items import ITEMS_FIELD, input_items, reply_of
from continuations.models.responses_request import RequestForm, build_body
from tests.models.response_calls import responses_model
from tests.responses_server import (
    ResponsesServer,
    call,
    dump,
    reasoning,
    response,
    text,
)

# One item of each kind that the provider makes on its own, as the API documents them.
HOSTED_ITEMS: list[dict[str, Any]] = [
    {
        "id": "ws_67ccf18f64008190a39b619f4c8455ef",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "weather in Zürich"},
    },
    {
        "id": "fs_67c09ccea8c48191ade9367e3ba71515",
        "type": "file_search_call",
        "status": "completed",
        "queries": ["deep research"],
        "results": [{"file_id": "file-2dtbBZdjtDKS8eqWxqbgDi", "score": 0.95}],
    },
    {
        "id": "ci_68386c4adc2c8191a6e0",
        "type": "code_interpreter_call",
        "code": "print(1.50)",
        "container_id": "cntr_1",
        "outputs": None,
        "status": "completed",
    },
    {
        "id": "ig_123",
        "type": "image_generation_call",
        "status": "completed",
        "result": "iVBORw0KGgo=",
        "revised_prompt": 'a "cat"\u2028\n',
    },
    {
        "id": "mcpl_68a6102a4968819c8177b05584dd627b",
        "type": "mcp_list_tools",
        "server_label": "dmcp",
        "tools": [{"name": "roll", "input_schema": {"type": "object"}}],
    },
    {
        "id": "mcp_682d437d90a88191bf88cd03aae0c3e503937d5f622d7a90",
        "type": "mcp_call",
        "approval_request_id": None,
        "arguments": '{"diceRollExpression":"2d4+1"}',
        "error": None,
        "name": "roll",
        "output": "4",
        "server_label": "dmcp",
    },
    {"type": "of_next_year", "x": [1.0, -0.0, 1e-7, 12345678901234567890, None, {}]},
]


def _sent_items(
    messages: Sequence[Message], *, with_stored_items: bool = True
) -> list[Any]:
    request = ModelRequest(messages=messages)
    form = RequestForm(with_stored_items=with_stored_items)
    body = build_body("m", request, form)
    items: list[Any] = json.loads(body)["input"]
    return items


def _bytes_of(items: Sequence[Mapping[str, Any]]) -> bytes:
    """Return items as they stand in an array of JSON."""
    return dump(items)[1:-1].encode()


def test_items_of_hosted_tools_go_back_byte_for_byte() -> None:
    items = [reasoning(), *HOSTED_ITEMS, text("Here.", id="msg_2")]

    with ResponsesServer([response(*items), response(text("Again."))]) as server:
        model = responses_model(server)

        async def talk() -> None:
            first = await model.reply(ModelRequest(messages=[user_message("a")]))
            assert isinstance(first, ModelReply)
            messages = [user_message("a"), first.message, user_message("b")]
            await model.reply(ModelRequest(messages=messages))

        asyncio.run(talk())

    assert _bytes_of(items) in server.bodies[1]


def test_rest_of_the_engine_reads_an_ordinary_message() -> None:
    reply = reply_of(response(reasoning(), text("Hm. "), call("pay", "{}", "call_7")))

    assert "tool_calls" == reply.finish_reason
    assert "Hm. " == reply.message.content
    [request] = reply.message.tool_calls
    assert ("call_7", "pay", "{}") == (
        request.tool_call_id,
        request.tool,
        request.arguments,
    )


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('abc_\n"é'), inner),
    max_leaves=8,
)
_ITEMS = st.lists(
    st.dictionaries(st.sampled_from(["id", "type", "content", "x", "call_id"]), _VALUES)
    | st.sampled_from([*HOSTED_ITEMS, reasoning(), text("a"), text("b", phase="c")])
    | st.integers(0, 10**6).map(lambda n: call("pay", '{"n": 1}', f"call_{n}")),
    max_size=6,
    unique_by=dump,
)


@given(items=_ITEMS)
def test_any_items_round_trip(items: list[dict[str, Any]]) -> None:
    message = Message.from_json(reply_of(response(*items)).message.text)
    outputs = [tool_message(call_id, "ok") for call_id in message.tool_call_ids]
    conversation = [user_message("a"), message, *outputs, user_message("b")]
    body = build_body("m", ModelRequest(messages=conversation), RequestForm())

    expected = list(items)
    while expected and expected[-1].get("type") == "reasoning":
        expected.pop()
    sent = json.loads(body)["input"]
    given_back = sent[1 : len(sent) - len(outputs) - 1]
    assert dump(expected) == dump(given_back)


@given(stored=_VALUES)
def test_hostile_stored_field_never_breaks_a_request(stored: Any) -> None:
    """The text and the calls of the message count, whatever the field contains."""
    stored_call = {"name": "pay", "arguments": "{}"}
    fields = {
        "role": "assistant",
        "content": "Hm.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": stored_call}],
        ITEMS_FIELD: stored,
    }
    message = Message.from_mapping(fields)

    sent = _sent_items([user_message("a"), message, tool_message("call_1", "ok")])

    assert {"role": "assistant", "content": "Hm."} == sent[1]
    assert {"type": "function_call", "call_id": "call_1", **stored_call} == sent[2]
    assert {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "ok",
    } == sent[3]


_HOSTILE_ITEMS: list[Any] = [
    {"type": ["function_call"], "call_id": {}},
    {"type": "function_call"},
    {"type": "function_call", "call_id": [], "name": 1, "arguments": None},
    {"type": "message", "content": [1, [], {"text": 7, "refusal": []}]},
    {"type": "message", "content": "text", "phase": []},
    {"type": {"a": 1}, "phase": "final_answer"},
    "reasoning",
    None,
]


@pytest.mark.parametrize("item", _HOSTILE_ITEMS)
def test_hostile_item_is_not_sent(item: Any) -> None:
    fields = {"role": "assistant", "content": "Hm.", ITEMS_FIELD: [item, text("No.")]}

    sent = _sent_items([user_message("a"), Message.from_mapping(fields)])

    assert [{"role": "assistant", "content": "Hm."}] == sent[1:]


def test_changed_message_counts_and_its_items_do_not() -> None:
    """A guardrail or a summary may write another text into a message."""
    reply = reply_of(response(reasoning(), text("The key is 1234.")))
    changed = {**reply.message.data, "content": "The key is [hidden]."}

    sent = _sent_items([user_message("a"), Message.from_mapping(changed)])

    assert [{"role": "assistant", "content": "The key is [hidden]."}] == sent[1:]


def test_replaced_id_of_a_call_is_replaced_in_its_item() -> None:
    """Some servers repeat ids; the API refuses a repeated one."""
    twice = [call("a", "{}", "same"), call("b", "{}", "same")]
    message = reply_of(response(reasoning(), *twice)).message
    message = message.with_tool_call_ids(("same", "call_x"))
    outputs = [tool_message("same", "1"), tool_message("call_x", "2")]

    sent = _sent_items([user_message("a"), message, *outputs])

    assert [reasoning(), twice[0], {**twice[1], "call_id": "call_x"}] == sent[1:4]
    assert ["same", "call_x"] == [item["call_id"] for item in sent[4:]]


def test_reasoning_without_an_item_after_it_is_not_sent() -> None:
    """The reply was cut off while the model was thinking."""
    details = {"reason": "max_output_tokens"}
    cut = response(reasoning(), status="incomplete", incomplete_details=details)
    reply = reply_of(cut)

    sent = _sent_items([user_message("a"), reply.message, user_message("go on")])

    assert "length" == reply.finish_reason
    assert [item["content"] for item in sent] == ["a", "go on"]


def test_final_answer_is_the_content_without_the_comments_before_it() -> None:
    comment = text("I search first.", phase="commentary")
    message = reply_of(response(comment, text("42", phase="final_answer"))).message

    assert "42" == message.content
    assert [comment, text("42", phase="final_answer")] == _sent_items(
        [user_message("a"), message]
    )[1:]


def test_refusal_is_read_and_goes_back() -> None:
    part = {"type": "refusal", "refusal": "I cannot do that."}
    item = {**text(""), "content": [part]}
    message = reply_of(response(item)).message

    assert "I cannot do that." == message.content
    assert [item] == _sent_items([user_message("a"), message])[1:]


def test_custom_tool_call_gets_a_custom_output() -> None:
    custom = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_1",
        "name": "code_exec",
        "input": "print(1)",
    }
    message = reply_of(response(custom)).message
    conversation = [user_message("a"), message, tool_message("call_1", "1")]

    assert "print(1)" == message.tool_calls[0].arguments
    for with_stored_items in (True, False):
        sent = _sent_items(conversation, with_stored_items=with_stored_items)
        assert ["custom_tool_call", "custom_tool_call_output"] == [
            item["type"] for item in sent[1:]
        ]
        assert "print(1)" == sent[1]["input"]


def test_conversation_of_chat_completions_is_written_as_items() -> None:
    parts = [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "of_next_year", "x": 1},
    ]
    function = {"name": "pay", "arguments": '{"n":1}'}
    tool_calls = [{"id": "call_1", "type": "function", "function": function}]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "name": "jane", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": tool_calls},
        {"role": "tool", "tool_call_id": "call_1", "content": parts[:1]},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]

    sent = _sent_items([Message.from_mapping(message) for message in messages])

    assert [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "See"},
                {
                    "type": "input_image",
                    "detail": "auto",
                    "image_url": "data:image/png;base64,AA",
                },
                {"type": "input_file", "file_id": "file-1"},
                {"type": "of_next_year", "x": 1},
            ],
        },
        {"type": "function_call", "call_id": "call_1", **function},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_text", "text": "See"}],
        },
        {"role": "assistant", "content": "No."},
    ] == sent


def test_message_without_text_and_calls_is_no_item() -> None:
    """The API refuses empty messages; another server may have made one."""
    empty = Message.from_mapping({"role": "assistant", "content": ""})

    sent = _sent_items([user_message("a"), empty, user_message("b")])

    assert ["a", "b"] == [item["content"] for item in sent]


def test_chat_completions_gets_no_items() -> None:
    reply = reply_of(response(reasoning(), call("pay", '{"a":"é"}')))
    messages = [user_message("a"), reply.message, tool_message("call_1", "ok")]
    request = ModelRequest(messages=messages)

    body = json.loads(build_request_body("m", request, OPENAI_DIALECT))

    function = {"name": "pay", "arguments": '{"a":"é"}'}
    assert {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    } == body["messages"][1]


def test_lone_surrogate_is_replaced_only_in_the_request() -> None:
    message = reply_of(response(text("a\ud83d"))).message

    items = list(input_items([user_message("a"), message]))
    assert "a\ud83d" == items[1]["content"][0]["text"]
    assert (
        "a\ufffd" == _sent_items([user_message("a"), message])[1]["content"][0]["text"]
    )
    assert "a\ud83d" in jsontext.parse(message.text)["content"]
