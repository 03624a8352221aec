"""Continuations: to bytes, from bytes, and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from continuations.core.changes.events import (
    Approved,
    CallReturned,
    CallStarted,
    ModelReplied,
)
from continuations.core.messages import Message, user_message
from continuations.core.rows.calls import Ready, Waiting
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.usage import Usage
from continuations.errors import Corrupt, FormatError
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import decode_object_header, encode_object
from tests.core.rows import (
    RUN,
    STATES,
    apply_events,
    approval_requested_event,
    assistant_message,
    deepest_frame,
    make_wait,
    nested_agents,
    new_state,
    reply_with_calls,
    reply_with_text,
    state_with_call_in,
    tool_request,
    with_state,
)
from tests.wire.handmade_objects import HEADER, small_continuation, stored_fields


def round_trip(state: RunState, version: int = 0) -> Continuation:
    """Return a continuation that was encoded and decoded."""
    return Continuation.from_bytes(Continuation(state, version).to_bytes())


def state_with_messages(*messages: Message) -> RunState:
    """Return a run whose root frame has these messages."""
    return replace(new_state(), logs={ROOT_FRAME_ID: MessageLog(2, messages)})


# Encode and decode ------------------------------------------------------------


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_every_state_comes_back_equal(state: Any) -> None:
    run_state = state_with_call_in(state)
    continuation = Continuation(run_state, 3)

    decoded = Continuation.from_bytes(continuation.to_bytes())

    assert continuation == decoded
    assert run_state == decoded.run_state
    assert set(run_state.runnable) == set(decoded.run_state.runnable)
    assert 3 == decoded.version
    assert hash(continuation) == hash(decoded)


def test_decoded_continuation_encodes_to_the_same_bytes() -> None:
    """An unchanged run always has the same bytes."""
    data = Continuation(nested_agents(3), 7).to_bytes()

    assert data == Continuation.from_bytes(data).to_bytes()


def test_continuations_of_other_versions_are_not_equal() -> None:
    assert Continuation(new_state(), 1) != Continuation(new_state(), 2)
    assert Continuation(new_state()) != Continuation(
        apply_events(new_state(), reply_with_text("x"))
    )
    assert Continuation(new_state()) != new_state()


def test_same_bytes_loaded_twice_give_independent_states() -> None:
    data = Continuation(nested_agents(2)).to_bytes()
    first, second = (Continuation.from_bytes(data).run_state for _ in range(2))
    call = first.frames[deepest_frame(first)].open_call_ids[0]

    apply_events(first, Approved(call_id=call, digest="d1"), CallStarted(call_id=call))

    assert second == Continuation.from_bytes(data).run_state
    assert Waiting("w1") == second.calls[call].state


def test_three_consecutive_waits_in_one_sub_agent() -> None:
    """The state is encoded and decoded before and after each decision."""
    state = nested_agents(2)
    frame = deepest_frame(state)
    for number in range(3):
        state = round_trip(state).run_state
        (wait,) = state.waits.values()
        call = wait.call_id
        state = apply_events(state, Approved(call_id=call, digest=wait.digest))
        state = apply_events(round_trip(state).run_state, CallStarted(call_id=call))
        state = apply_events(state, CallReturned(call_id=call, content=f"{number}"))
        state = apply_events(state, reply_with_calls("transfer", frame=frame))
        again = state.frames[frame].open_call_ids[0]
        state = apply_events(state, approval_requested_event(again, f"w{number + 2}"))

    results = [m.content for m in state.logs[frame].messages if m.role == "tool"]
    assert ["0", "1", "2"] == results


def test_properties_of_a_continuation() -> None:
    state = apply_events(new_state(), reply_with_text("welcome"))
    continuation = Continuation(state, 5)

    assert (RUN, 5, "finished", "welcome") == (
        continuation.run_id,
        continuation.version,
        continuation.status,
        continuation.output,
    )
    assert continuation.failure is None
    assert Usage(requests=1, input_tokens=10, output_tokens=2) == continuation.usage
    assert ("hr", ROOT_FRAME_ID) == (continuation.root.agent, continuation.root.id)


def test_waits_are_sorted_by_creation_time() -> None:
    state = apply_events(
        new_state(), reply_with_calls("a", "b"), approval_requested_event("c4", "w9")
    )
    later = replace(make_wait("c3", "w1"), created_at=make_wait("c3").created_at)
    early = replace(later, id="w2", created_at=later.created_at.replace(year=2025))
    calls = {**state.calls, "c3": with_state(state, "c3", Waiting("w2"))}
    state = replace(state, calls=calls, waits={**state.waits, "w2": early})

    assert ["w2", "w9"] == [wait.id for wait in Continuation(state).waits]


def test_repr_and_header_show_no_message() -> None:
    continuation = Continuation(state_with_messages(user_message("my secret")), 4)

    assert "<Continuation of jane-1, version 4: running>" == repr(continuation)
    assert {"kind": "continuation", "run": RUN, "version": 4} == decode_object_header(
        continuation.to_bytes(), "it"
    )


# Depth ------------------------------------------------------------------------


def test_thousand_nested_frames_can_be_encoded_and_walked() -> None:
    """repr, ==, bytes and JSON work under the default recursion limit."""
    assert 1000 == sys.getrecursionlimit()
    continuation = Continuation(nested_agents(1000), 2)

    decoded = Continuation.from_bytes(continuation.to_bytes())

    assert continuation == decoded
    assert repr(continuation) == repr(decoded)
    assert hash(continuation) == hash(decoded)
    assert 1000 == len(json.loads(decoded.to_json())["frames"])
    call, levels = decoded.root.calls[0], 1
    while call.frame is not None:
        call, levels = call.frame.calls[0], levels + 1
    assert 1000 == levels
    assert call.wait == decoded.waits[0]
    assert repr(call)


def test_thousand_frames_resume_and_finish() -> None:
    """The deepest tool runs, then every parent frame ends in order."""
    state = round_trip(nested_agents(1000)).run_state
    call = state.frames[deepest_frame(state)].open_call_ids[0]
    state = apply_events(
        state, Approved(call_id=call, digest="d1"), CallStarted(call_id=call)
    )
    state = round_trip(
        apply_events(state, CallReturned(call_id=call, content="paid"))
    ).run_state
    while state.run.status == "running":
        state = apply_events(state, reply_with_text("up", frame=deepest_frame(state)))

    assert "finished" == round_trip(state).status


def test_to_json_accepts_the_deepest_allowed_message() -> None:
    """Every message that can be stored can be reported as JSON."""
    deep: list[Any] = []
    for _ in range(198):
        deep = [deep]
    message = Message.from_mapping({"role": "user", "content": "x", "deep": deep})

    continuation = round_trip(state_with_messages(message))

    assert (
        json.loads(continuation.to_json())["frames"][0]["messages"][0]["deep"] == deep
    )


# Invalid bytes ----------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        {},
        {**HEADER, "kind": "version"},
        {**HEADER, "kind": "wait"},
        {**HEADER, "version": -1},
        {**HEADER, "version": True},
        {**HEADER, "version": "1"},
        {**HEADER, "more": 1},
        {**HEADER, "run": 7},
        {"kind": "continuation", "version": 0},
    ],
    ids=str,
)
def test_invalid_header_is_rejected(header: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="header"):
        Continuation.from_bytes(encode_object(header, stored_fields()))


def test_header_of_another_run_is_rejected() -> None:
    with pytest.raises(Corrupt, match=r"other.*jane-1"):
        Continuation.from_bytes(
            encode_object({**HEADER, "run": "other"}, stored_fields())
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": []},
        {"calls": []},
        {"waits": []},
        {"logs": {}},
        {"manifest": None},
        {"frames": stored_fields()["frames"] * 2},
        {"calls": stored_fields()["calls"] * 2},
        {"waits": stored_fields()["waits"] * 2},
        {"logs": {**stored_fields()["logs"], "f1": {"id": 2, "keep": 1}}},
        {"logs": {**stored_fields()["logs"], "f77": {"id": 2}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_rows_that_do_not_fit_together_are_rejected(changes: dict[str, Any]) -> None:
    """Forged rows with a valid digest are rejected."""
    stored = {k: v for k, v in stored_fields(**changes).items() if v is not None}

    with pytest.raises(FormatError):
        Continuation.from_bytes(encode_object(HEADER, stored))


def test_unchanged_stored_rows_load() -> None:
    assert Continuation(nested_agents(2)) == Continuation.from_bytes(
        encode_object(HEADER, stored_fields())
    )


@pytest.mark.parametrize("data", ["text", 5, None, ["x"]], ids=repr)
def test_from_bytes_rejects_other_types(data: Any) -> None:
    """The argument is not converted: `bytes(5)` would be five zero bytes."""
    with pytest.raises(FormatError, match="data must be bytes"):
        Continuation.from_bytes(data)


# JSON -------------------------------------------------------------------------


def test_to_json_shows_rows_messages_and_waits() -> None:
    edit = Approved(call_id="c3", digest="d2", arguments="{}")
    state = apply_events(
        state_with_call_in(Waiting("w1")), edit, approval_requested_event("c4", "w4")
    )

    report = json.loads(Continuation(state, 9).to_json())

    assert ("jane-1", 9, "running", None) == tuple(
        report[name] for name in ("run_id", "version", "status", "failure")
    )
    assert (
        state.logs[ROOT_FRAME_ID].messages[0].data == report["frames"][0]["messages"][0]
    )
    first = report["calls"][0]
    assert ("ready", {}, {"cents": 500}) == (
        first["state"],
        first["arguments"],
        first["original_arguments"],
    )
    assert ["w4"] == [wait["id"] for wait in report["waits"]]
    assert {"cents": 500} == report["waits"][0]["arguments"]


@pytest.mark.parametrize("arguments", ["0", "null", "false", '""', "[]"])
def test_to_json_shows_falsy_arguments(arguments: str) -> None:
    state = state_with_call_in(Ready())
    call = replace(state.calls["c3"], arguments=arguments)
    continuation = Continuation(replace(state, calls={**state.calls, "c3": call}))

    report = json.loads(continuation.to_json())

    assert json.loads(arguments) == report["calls"][0]["arguments"]


# Loading never runs code -------------------------------------------------------

AUDIT_SCRIPT = """
import sys
sys.path[:0] = {path!r}
from continuations.wire.continuation import Continuation
data = bytes.fromhex(sys.stdin.read())
first = Continuation.from_bytes(data)  # imports zstd and the codecs
first.to_json(), first.root  # import the forms
seen, modules = [], set(sys.modules)
FORBIDDEN = ("import", "exec", "compile", "open", "os.", "subprocess", "socket",
             "pickle", "marshal", "ctypes", "code.", "sys.")
def record(event, args):
    if event.startswith(FORBIDDEN):
        seen.append(event)
sys.addaudithook(record)
for _ in range(3):
    continuation = Continuation.from_bytes(data)
    continuation.to_json(), repr(continuation)
    continuation.waits, continuation.root.messages
print(seen, sorted(set(sys.modules) - modules))
"""


@pytest.mark.parametrize("text", ["os.system", "__reduce__"])
def test_loading_imports_opens_and_executes_nothing(text: str) -> None:
    """Promise 6 (loading never runs code): an audit hook records every such event."""
    call = tool_request("__import__", "builtins.eval", '{"__class__": "os.system"}')
    reply = ModelReplied(
        frame_id=ROOT_FRAME_ID, message=assistant_message(text, call), usage=Usage()
    )
    state = apply_events(
        state_with_messages(user_message("!!python/object:os.system" * 50)), reply
    )
    script = AUDIT_SCRIPT.format(path=[entry for entry in sys.path if entry])

    done = subprocess.run(
        [sys.executable, "-c", script],
        input=Continuation(state).to_bytes().hex(),
        check=True,
        capture_output=True,
        text=True,
    )

    assert "[] []" == done.stdout.strip()


def test_small_continuation_is_under_600_bytes() -> None:
    assert (
        len(small_continuation())
        < 600
        < len(Continuation(nested_agents(50)).to_bytes())
    )
