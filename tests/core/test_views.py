"""Views: `Frame` and `Call` as applications see them."""

from __future__ import annotations

import pytest

from continuations.core.changes.events import Approved, CallInvalid
from continuations.core.reading.views import Call, Frame
from continuations.core.rows import calls
from continuations.core.rows.state import ROOT_FRAME_ID
from tests.core.rows import (
    STATES,
    apply_events,
    assistant_message,
    nested_agents,
    new_state,
    reply_with_calls,
    state_with_call_in,
)


def test_frame_shows_agent_and_chat_messages() -> None:
    frame = Frame(new_state(), ROOT_FRAME_ID)

    assert (ROOT_FRAME_ID, "hr", 0, ()) == (
        frame.id,
        frame.agent,
        frame.turns,
        frame.calls,
    )
    assert [{"role": "user", "content": "Onboard Jane"}] == frame.messages


def test_view_returns_copies() -> None:
    frame = Frame(new_state(), ROOT_FRAME_ID)
    frame.messages[0]["content"] = "changed"
    frame.messages.append({})

    assert [{"role": "user", "content": "Onboard Jane"}] == frame.messages


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_call_shows_its_state_frame_and_wait(state: calls.CallState) -> None:
    call = Call(state_with_call_in(state), "c3")

    assert calls.STATE_NAMES[type(state)] == call.state
    assert (call.frame is not None) == isinstance(state, calls.Nested)
    assert (call.wait is not None) == isinstance(state, calls.WAITING_STATES)
    assert ("c3", "transfer") == (call.id, call.tool)


def test_arguments_are_the_effective_arguments() -> None:
    """Before the call is examined, they are the text of the model."""
    proposed = Call(apply_events(new_state(), reply_with_calls("transfer")), "c3")
    assert ("{}", None) == (proposed.arguments, proposed.original_arguments)

    edit = Approved(call_id="c3", digest="d2", arguments="{}")
    edited = Call(apply_events(state_with_call_in(calls.Waiting("w1")), edit), "c3")
    assert ({}, {"cents": 500}) == (edited.arguments, edited.original_arguments)


def test_invalid_call_shows_the_arguments_of_the_model() -> None:
    invalid = CallInvalid(call_id="c3", code="arguments", content="ERROR")

    assert (
        "{}"
        == Call(apply_events(state_with_call_in(STATES[0]), invalid), "c3").arguments
    )


def test_calls_have_the_order_of_the_model() -> None:
    frame = Frame(
        apply_events(new_state(), reply_with_calls("b", "a", "b")), ROOT_FRAME_ID
    )

    assert ["b", "a", "b"] == [call.tool for call in frame.calls]


def test_thousand_levels_can_be_walked_without_recursion() -> None:
    """The default recursion limit is enough."""
    last = Frame(nested_agents(1000), ROOT_FRAME_ID).calls[0]
    levels = 1
    while last.frame is not None:
        levels += 1
        last = last.frame.calls[0]

    assert 1000 == levels
    assert last.wait is not None
    assert "w1" == last.wait.id


def test_repr_shows_no_message_and_no_argument() -> None:
    """A `repr` may end up in a log."""
    secret = assistant_message("the secret is 42")
    state = state_with_call_in(calls.Waiting("w1"))

    assert "<Frame f1 of hr>" == repr(Frame(new_state(secret), ROOT_FRAME_ID))
    assert "<Call c3 of transfer: waiting>" == repr(Call(state, "c3"))
