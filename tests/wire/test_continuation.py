"""A run's whole state as one value: to bytes, back, and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from continuations.core import messages as said
from continuations.core.calls import Ready, Waiting
from continuations.core.events import (
    Approved,
    Begun,
    CallReturned,
    ModelReplied,
)
from continuations.core.frames import Log
from continuations.core.messages import Message
from continuations.core.table import ROOT, Table
from continuations.core.usage import Usage
from continuations.errors import Corrupt, FormatError
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import read_header, seal
from tests.core.rows import (
    RUN,
    STATES,
    assistant,
    deepest,
    gated,
    new_table,
    one_call,
    request,
    says,
    told,
    tower,
    wait_for,
    wants,
    with_state,
)
from tests.wire.objects import HEADER, body, small


def back(table: Table, version: int = 0) -> Continuation:
    """Return a continuation that has been bytes."""
    return Continuation.from_bytes(Continuation(table, version).to_bytes())


def with_messages(*messages: Message) -> Table:
    """Return a run whose root heard these."""
    return replace(new_table(), logs={ROOT: Log(2, messages)})


# There and back ---------------------------------------------------------------


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_every_state_comes_back_equal(state: Any) -> None:
    table = one_call(state)
    whole = Continuation(table, 3)

    again = Continuation.from_bytes(whole.to_bytes())

    assert whole == again
    assert table == again.table
    assert set(table.agenda) == set(again.table.agenda)
    assert 3 == again.version
    assert hash(whole) == hash(again)


def test_bytes_of_a_copy_are_the_same_bytes() -> None:
    """A run that nothing happened to has one digest."""
    data = Continuation(tower(3), 7).to_bytes()

    assert data == Continuation.from_bytes(data).to_bytes()


def test_another_version_is_another_value() -> None:
    assert Continuation(new_table(), 1) != Continuation(new_table(), 2)
    assert Continuation(new_table()) != Continuation(told(new_table(), says("x")))
    assert Continuation(new_table()) != new_table()


def test_one_payload_restored_twice_gives_two_runs_that_never_meet() -> None:
    """R-B3, openai-agents#2501."""
    data = Continuation(tower(2)).to_bytes()
    first, second = (Continuation.from_bytes(data).table for _ in range(2))
    call = first.frames[deepest(first)].open[0]

    told(first, Approved(call=call, digest="d1"), Begun(call=call))

    assert second == Continuation.from_bytes(data).table
    assert Waiting("w1") == second.calls[call].state


def test_three_waits_in_a_row_in_one_child() -> None:
    """R-B5: each after a full round trip."""
    table = tower(2)
    frame = deepest(table)
    for number in range(3):
        table = back(table).table
        (wait,) = table.waits.values()
        call = wait.call_id
        table = told(table, Approved(call=call, digest=wait.digest))
        table = told(back(table).table, Begun(call=call))
        table = told(table, CallReturned(call=call, content=f"{number}"))
        table = told(table, wants("transfer", frame=frame))
        again = table.frames[frame].open[0]
        table = told(table, gated(again, f"w{number + 2}"))

    said_below = [m.content for m in table.logs[frame].messages if m.role == "tool"]
    assert ["0", "1", "2"] == said_below


def test_the_facts_about_a_run_can_be_read() -> None:
    table = told(new_table(), says("welcome"))
    whole = Continuation(table, 5)

    assert (RUN, 5, "finished", "welcome") == (
        whole.run_id,
        whole.version,
        whole.status,
        whole.output,
    )
    assert whole.failure is None
    assert Usage(requests=1, input_tokens=10, output_tokens=2) == whole.usage
    assert ("hr", ROOT) == (whole.root.agent, whole.root.id)


def test_waits_are_listed_the_oldest_first() -> None:
    """R-B6: each by its own id."""
    table = told(new_table(), wants("a", "b"), gated("c4", "w9"))
    later = replace(wait_for("c3", "w1"), created_at=wait_for("c3").created_at)
    early = replace(later, id="w2", created_at=later.created_at.replace(year=2025))
    calls = {**table.calls, "c3": with_state(table, "c3", Waiting("w2"))}
    table = replace(table, calls=calls, waits={**table.waits, "w2": early})

    assert ["w2", "w9"] == [wait.id for wait in Continuation(table).waits]


def test_names_tell_nothing_that_was_said() -> None:
    """R-I5, R-J2."""
    whole = Continuation(with_messages(said.user("my secret")), 4)

    assert "<Continuation of jane-1, version 4: running>" == repr(whole)
    assert {"kind": "continuation", "run": RUN, "version": 4} == read_header(
        whole.to_bytes(), "it"
    )


# Depth ------------------------------------------------------------------------


def test_a_thousand_nested_frames() -> None:
    """R-B1, R-I4: under the default recursion limit; repr, ==, bytes, JSON, a walk."""
    assert 1000 == sys.getrecursionlimit()
    whole = Continuation(tower(1000), 2)

    again = Continuation.from_bytes(whole.to_bytes())

    assert whole == again
    assert repr(whole) == repr(again)
    assert hash(whole) == hash(again)
    assert 1000 == len(json.loads(again.to_json())["frames"])
    call, levels = again.root.calls[0], 1
    while call.frame is not None:
        call, levels = call.frame.calls[0], levels + 1
    assert 1000 == levels
    assert call.wait == again.waits[0]
    assert repr(call)


def test_a_thousand_frames_resume_and_finish() -> None:
    """R-B1, R-I4: the deepest tool runs, then every parent in order."""
    table = back(tower(1000)).table
    call = table.frames[deepest(table)].open[0]
    table = told(table, Approved(call=call, digest="d1"), Begun(call=call))
    table = back(told(table, CallReturned(call=call, content="paid"))).table
    while table.run.status == "running":
        table = told(table, says("up", frame=deepest(table)))

    assert "finished" == back(table).status


def test_as_deep_as_json_may_be_it_can_be_reported() -> None:
    """R-I4, B-19: whatever a message may hold, `to_json` can tell."""
    deep: list[Any] = []
    for _ in range(198):
        deep = [deep]
    message = Message.of({"role": "user", "content": "x", "deep": deep})

    whole = back(with_messages(message))

    assert json.loads(whole.to_json())["frames"][0]["messages"][0]["deep"] == deep


# Refusals ---------------------------------------------------------------------


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
def test_a_header_of_something_else_is_refused(header: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="header"):
        Continuation.from_bytes(seal(header, body()))


def test_a_header_of_another_run_is_refused() -> None:
    """R-C8, B-11."""
    with pytest.raises(Corrupt, match=r"jane-1.*other"):
        Continuation.from_bytes(seal({**HEADER, "run": "other"}, body()))


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": []},
        {"calls": []},
        {"waits": []},
        {"logs": {}},
        {"manifest": None},
        {"frames": body()["frames"] * 2},
        {"calls": body()["calls"] * 2},
        {"waits": body()["waits"] * 2},
        {"logs": {**body()["logs"], "f1": {"id": 2, "keep": 1}}},
        {"logs": {**body()["logs"], "f77": {"id": 2}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_rows_that_do_not_fit_together_are_refused(changes: dict[str, Any]) -> None:
    """R-C8: whoever forged them."""
    stored = {k: v for k, v in body(**changes).items() if v is not None}

    with pytest.raises(FormatError):
        Continuation.from_bytes(seal(HEADER, stored))


def test_the_rows_that_were_changed_above_are_sound_by_themselves() -> None:
    assert Continuation(tower(2)) == Continuation.from_bytes(seal(HEADER, body()))


@pytest.mark.parametrize("data", ["text", 5, None, ["x"]], ids=repr)
def test_what_is_not_bytes_is_not_guessed_at(data: Any) -> None:
    """`bytes(5)` would be five zeros."""
    with pytest.raises((TypeError, FormatError)):
        Continuation.from_bytes(data)


# JSON -------------------------------------------------------------------------


def test_the_report_shows_rows_messages_and_waits() -> None:
    edit = Approved(call="c3", digest="d2", arguments="{}")
    table = told(one_call(Waiting("w1")), edit, gated("c4", "w4"))

    report = json.loads(Continuation(table, 9).to_json())

    assert ("jane-1", 9, "running", None) == tuple(
        report["run"][name] for name in ("id", "version", "status", "failure")
    )
    assert table.logs[ROOT].messages[0].data == report["frames"][0]["messages"][0]
    first = report["calls"][0]
    assert ("ready", {}, {"cents": 500}) == (
        first["state"],
        first["arguments"],
        first["original_arguments"],
    )
    assert ["w4"] == [wait["id"] for wait in report["waits"]]
    assert {"cents": 500} == report["waits"][0]["arguments"]


@pytest.mark.parametrize("arguments", ["0", "null", "false", '""', "[]"])
def test_arguments_that_are_not_true_are_shown(arguments: str) -> None:
    table = one_call(Ready())
    call = replace(table.calls["c3"], arguments=arguments)
    whole = Continuation(replace(table, calls={**table.calls, "c3": call}))

    report = json.loads(whole.to_json())

    assert json.loads(arguments) == report["calls"][0]["arguments"]


# Loading runs nothing ----------------------------------------------------------

AUDITED = """
import sys
sys.path[:0] = {path!r}
from continuations.wire.continuation import Continuation
data = bytes.fromhex(sys.stdin.read())
Continuation.from_bytes(data)  # zstd and the codecs are loaded by now
seen, modules = [], set(sys.modules)
FORBIDDEN = ("import", "exec", "compile", "open", "os.", "subprocess", "socket",
             "pickle", "marshal", "ctypes", "code.", "sys.")
def look(event, args):
    if event.startswith(FORBIDDEN):
        seen.append(event)
sys.addaudithook(look)
for _ in range(3):
    whole = Continuation.from_bytes(data)
    whole.to_json(), repr(whole), whole.waits, whole.root.messages
print(seen, sorted(set(sys.modules) - modules))
"""


@pytest.mark.parametrize("text", ["os.system", "__reduce__"])
def test_loading_imports_opens_and_executes_nothing(text: str) -> None:
    """R-I1, promise 6: watched by the interpreter's own audit hook."""
    call = request("__import__", "builtins.eval", '{"__class__": "os.system"}')
    reply = ModelReplied(frame=ROOT, message=assistant(text, call), usage=Usage())
    table = told(with_messages(said.user("!!python/object:os.system" * 50)), reply)
    script = AUDITED.format(path=[entry for entry in sys.path if entry])

    done = subprocess.run(
        [sys.executable, "-c", script],
        input=Continuation(table).to_bytes().hex(),
        check=True,
        capture_output=True,
        text=True,
    )

    assert "[] []" == done.stdout.strip()


def test_small_and_large_continuations_differ_only_in_size() -> None:
    assert len(small()) < 600 < len(Continuation(tower(50)).to_bytes())
