"""Text that breaks other formats comes back equal and can be reported as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from continuations.core.changes.events import ModelReplied, RunStopped
from continuations.core.messages import (
    Message,
    system_message,
    tool_message,
    user_message,
)
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.run import Failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.usage import Usage
from continuations.wire.continuation import Continuation
from tests.core.rows import (
    apply_events,
    approval_requested_event,
    assistant_message,
    make_wait,
    new_state,
    tool_request,
)

HOSTILE = [
    "\ud800",
    "\udc00\ud800 two halves in the wrong order",
    "\ud83d",
    "nul \x00 inside",
    "\u2028\u2029\x85",
    "\u202eabc\u202c \u05d0\u05d1",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0010ffff\uffff\ufffe",
    "e\u0301 and \u00e9",
    "\ufb01 \u212b A\u030a",
    "\ufeff",
    "\x1b[2J\x07\x7f",
    "a" * 70_000,
    "",
]


def round_trip(state: RunState, version: int = 0) -> Continuation:
    """Return a continuation that was encoded and decoded."""
    return Continuation.from_bytes(Continuation(state, version).to_bytes())


def state_with_messages(*messages: Message) -> RunState:
    """Return a run whose root frame has these messages."""
    return replace(new_state(), logs={ROOT_FRAME_ID: MessageLog(2, messages)})


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_text_comes_back_equal(text: str) -> None:
    """The text is in messages, keys, arguments, results, ids and reasons."""
    request = assistant_message(
        text, tool_request("transfer", f"id{text}", json.dumps({text: text}))
    )
    state = state_with_messages(
        system_message(text),
        user_message(text),
        tool_message("odd", text),
    )
    state = apply_events(
        replace(
            state,
            logs={ROOT_FRAME_ID: MessageLog(2, state.logs[ROOT_FRAME_ID].messages[:2])},
        ),
        ModelReplied(frame_id=ROOT_FRAME_ID, message=request, usage=Usage()),
    )
    wait = replace(
        make_wait("c3"), note=text, policy=text, arguments_json=json.dumps({text: text})
    )
    state = apply_events(
        state,
        replace(
            approval_requested_event("c3"), arguments=json.dumps({"": text}), wait=wait
        ),
    )
    state = replace(state, manifest=json.dumps({text: text}))

    again = round_trip(state)

    assert state == again.run_state
    assert text == again.root.messages[1]["content"]
    assert {text: text} == again.waits[0].arguments
    assert {"": text} == again.root.calls[0].arguments
    assert text in again.to_json() or json.loads(again.to_json())
    stopped = RunStopped(failure=Failure(code="cancelled", message=text))
    assert (
        apply_events(state, stopped)
        == round_trip(apply_events(state, stopped)).run_state
    )


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_to_json_is_valid_utf_8(text: str) -> None:
    continuation = Continuation(state_with_messages(user_message(text)))

    report = json.loads(continuation.to_json().encode("utf-8"))

    assert text == report["frames"][0]["messages"][0]["content"]


EXTRA: list[dict[str, Any]] = [
    {"__proto__": {"polluted": True}, "constructor": 1, "__class__": "x"},
    {"n": 2**53 + 1, "m": 10**400, "f": 0.1 + 0.2, "z": -0.0, "e": 1e-320},
    {"": {"": [None, True, False, {}, []]}},
    {"caf\u00e9": 1, "cafe\u0301": 2},
]


@pytest.mark.parametrize(
    "extra", EXTRA, ids=["prototype", "numbers", "empty", "nfc and nfd"]
)
def test_unknown_fields_come_back_equal_and_in_order(extra: dict[str, Any]) -> None:
    data = {"zz": 1, "role": "assistant", **extra, "content": "x", "aa": 2}

    again = round_trip(state_with_messages(Message.from_mapping(data))).root.messages[0]

    assert data == again
    assert list(data) == list(again)
    assert repr(list(data.values())) == repr(list(again.values()))


def test_text_of_a_message_comes_back_byte_for_byte() -> None:
    """White space, escapes, spelling of numbers and repeated keys stay unchanged."""
    text = (
        '{ "role" : "assistant","content":null ,\n"reasoning_details":[{"x": 1.00,'
        '"x":1E2, "e":"\\u00e9\\ud800\\/"}] , "refusal":null,"audio":{"id":"a"}}'
    )

    assert (
        text
        == round_trip(state_with_messages(Message.from_json(text)))
        .run_state.logs[ROOT_FRAME_ID]
        .messages[0]
        .text
    )
