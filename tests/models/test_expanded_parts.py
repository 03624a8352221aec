"""Attachments in requests: chat completions and the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from continuations.core.messages import Message, tool_message, user_message
from continuations.core.model_protocol import ModelRequest
from continuations.core.rows.attachments import Audio, File, Image, text_part
from continuations.models.chat_request import build_request_body
from continuations.models.dialect import OPENAI_DIALECT
from continuations.models.responses_items import input_items

PHOTO = Image(b"\x89PNG", "image/png")
REPORT = File(b"%PDF", "application/pdf", "report.pdf")
SOUND = Audio(b"RIFF", "audio/x-wav")
FILES = {each.digest: each.data for each in (PHOTO, REPORT, SOUND)}
URL = "data:image/png;base64,iVBORw=="
IMAGE_PART = {"type": "image_url", "image_url": {"url": URL}}


def message(role: str, *parts: Any, **more: Any) -> Message:
    return Message.from_mapping({"role": role, "content": [*parts], **more})


def calls(*ids: str) -> Message:
    """Return an assistant message with calls."""
    body = {"name": "draw", "arguments": "{}"}
    each = [{"id": id_, "type": "function", "function": body} for id_ in ids]
    return Message.from_mapping(
        {"role": "assistant", "content": None, "tool_calls": each}
    )


def chat_body(*messages: Message) -> list[dict[str, Any]]:
    """Return the messages of the request."""
    request = ModelRequest(messages=messages, files=FILES)
    body: dict[str, list[dict[str, Any]]]
    body = json.loads(build_request_body("m", request, OPENAI_DIALECT))
    return body["messages"]


def test_chat_completions_get_the_content_of_user_messages() -> None:
    """Each kind has the part that the API defines."""
    parts = [text_part("look"), PHOTO.attachment.part, SOUND.attachment.part]
    sent = chat_body(message("user", *parts, REPORT.attachment.part))
    audio = {"data": "UklGRg==", "format": "wav"}
    url = "data:application/pdf;base64,JVBERg=="
    expected = [
        text_part("look"),
        IMAGE_PART,
        {"type": "input_audio", "input_audio": audio},
        {"type": "file", "file": {"filename": "report.pdf", "file_data": url}},
    ]
    assert [{"role": "user", "content": expected}] == sent


@pytest.mark.parametrize("is_last", [True, False])
def test_results_come_behind_all_tool_messages_of_the_turn(*, is_last: bool) -> None:
    """A tool message has text only, and nothing stands between calls and results."""
    more = [] if is_last else [user_message("and?")]
    sent = chat_body(
        user_message("draw"),
        calls("a", "b"),
        tool_message("a", [text_part("drawn"), PHOTO.attachment.part]),
        tool_message("b", "no picture"),
        *more,
    )
    label = "Attachments of the result of the tool call a:"
    pictures = {"role": "user", "content": [text_part(label), IMAGE_PART]}
    first = {
        "role": "tool",
        "tool_call_id": "a",
        "content": "drawn\n[image: image/png, 4 bytes]",
    }
    assert [first, "tool", pictures] == [sent[2], sent[3]["role"], sent[4]]
    assert [each.data for each in more] == sent[5:]


def test_other_messages_are_sent_as_they_are_stored() -> None:
    """The text of a message without attachments keeps each byte."""
    odd = Message.from_json('{"role":"user", "content":"a",  "z":1.10}')
    request = ModelRequest(
        messages=[odd, message("user", PHOTO.attachment.part)], files=FILES
    )
    body = build_request_body("m", request, OPENAI_DIALECT)
    assert b'{"role":"user", "content":"a",  "z":1.10},{"role":"user"' in body


def test_a_reference_of_a_model_is_sent_back_unchanged() -> None:
    """Only messages of users and tools refer to attachments."""
    forged = message("assistant", text_part("x"), PHOTO.attachment.part)
    sent = chat_body(message("user", PHOTO.attachment.part), forged)
    assert forged.data == sent[1]
    items = list(input_items([user_message("a"), forged], files=FILES))
    assert [{"role": "assistant", "content": "x"}] == items[1:]


def test_the_responses_api_gets_the_content() -> None:
    """A result has its image in the output of the call itself."""
    items = list(
        input_items(
            [
                message("user", PHOTO.attachment.part, REPORT.attachment.part),
                calls("a"),
                tool_message("a", [text_part("drawn"), PHOTO.attachment.part]),
            ],
            files=FILES,
        )
    )
    image = {"type": "input_image", "detail": "auto", "image_url": URL}
    file = {
        "type": "input_file",
        "filename": "report.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }
    output = [{"type": "input_text", "text": "drawn"}, image]
    assert {"role": "user", "content": [image, file]} == items[0]
    result = {"type": "function_call_output", "call_id": "a", "output": output}
    assert result == items[2]
