"""Histories that no worker wrote: stored bytes with a right digest and wrong entries.

Each is refused by an error that names the run, before anything is written or runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from continuations import Answer, Approve, Flow, Runner, Suspended, ask, sleep, workflow
from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.rows.delta import diff
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.errors import (
    AgentChanged,
    ContinuationsError,
    FormatError,
    WorkflowChanged,
)
from continuations.value_class import replace
from continuations.wire.versions import decode_version, encode_version
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import RUN, add, make_runner, pay, the_wait
from tests.hostile.editable_store import EditableStore
from tests.outcomes import expect

Change: TypeAlias = "Callable[[list[Message], FrameRow], FrameRow | None]"

# The places of the entries of the history below.
START, COMMAND, OUTCOME, TIME, PATCH, SECOND_COMMAND, SECOND_OUTCOME, LAST = range(8)
ROLES = ["user", "assistant", "tool", "developer", "developer", "assistant", "tool"]
EFFECTS = ["add 2+1", "add 3+2", "add 5+3"]


@workflow(tools=[add, pay])
async def shop(flow: Flow, cents: int) -> str:
    """Add, sleep, ask beside a call, and pay."""
    first = await flow.call(add, cents, 1)
    await sleep(timedelta(minutes=1))
    second = first if not flow.patched("more") else await flow.call(add, first, 2)
    beside = asyncio.create_task(flow.call(add, second, 3))
    name = await ask("Who?")
    paid = await flow.call(pay, await beside)
    return f"{name} {paid}"


class DamagedRun:
    """A run that waits for nothing any more, whose newest version is forged.

    Args:
        change: Changes the entries in their list, and may return another frame.
    """

    def __init__(self, change: Change) -> None:
        self.store, self._clock = EditableStore(), ManualClock()
        self.runner().start(shop.bind(2), run_id=RUN)
        self._clock.seconds = 61
        waiting = self.runner().resume(RUN)
        self.runner().decide(the_wait(waiting, "question"), Answer("kim"))
        self._forge(change)
        self.bodies = self.store.bodies

    def runner(self) -> Runner:
        return make_runner(shop, store=self.store, clock=self._clock)

    def _forge(self, change: Change) -> None:
        """Store a full copy with other entries and a right digest."""
        state = self.runner().look(RUN).run_state
        log, frame = state.logs[ROOT_FRAME_ID], state.frames[ROOT_FRAME_ID]
        messages = list(log.messages)
        assert [*ROLES, "assistant", "tool"] == [each.role for each in messages]
        frame = change(messages, frame) or frame
        forged = RunState.from_rows(
            run=state.run,
            manifest=state.manifest,
            frames={ROOT_FRAME_ID: frame},
            calls=state.calls,
            waits=state.waits,
            logs={ROOT_FRAME_ID: MessageLog(log.id, tuple(messages))},
        )
        key = min(key for key in self.store.bodies if key.startswith(f"runs/{RUN}/v/"))
        header = decode_version(self.store.bodies[key], key, state.run).header
        header = replace(
            header, base=0, base_digest=None, base_object=None, root=header.number
        )
        self.store.replace_body(key, encode_version(header, diff(None, forged)))


# Changes -----------------------------------------------------------------------------


def without(place: int) -> Change:
    """Leave an entry out."""

    def change(messages: list[Message], _: FrameRow) -> None:
        del messages[place]

    return change


def twice(place: int) -> Change:
    return lambda messages, _: messages.insert(place, messages[place])


def exchanged(place: int, other: int) -> Change:
    """Let two entries change their places."""

    def change(messages: list[Message], _: FrameRow) -> None:
        messages[place], messages[other] = messages[other], messages[place]

    return change


def facts(place: int, /, **changes: Any) -> Change:
    """Change the metadata of an entry; `...` removes a fact."""

    def change(messages: list[Message], _: FrameRow) -> None:
        found = {**(messages[place].metadata or {}), **changes}
        kept = {name: fact for name, fact in found.items() if fact is not ...}
        messages[place] = messages[place].with_metadata(jsontext.canonical(kept))

    return change


def metadata(place: int, text: str) -> Change:
    def change(messages: list[Message], _: FrameRow) -> None:
        messages[place] = messages[place].with_metadata(text)

    return change


def fields(place: int, /, **changes: Any) -> Change:
    """Change fields of a message, and keep its metadata."""

    def change(messages: list[Message], _: FrameRow) -> None:
        old = messages[place]
        new = Message.from_mapping({**old.data, **changes})
        kept = old.metadata_json
        messages[place] = new if kept is None else new.with_metadata(kept)

    return change


def command(place: int, /, **changes: Any) -> Change:
    """Change the function of the first call of an entry; `...` removes a field."""

    def change(messages: list[Message], frame: FrameRow) -> None:
        calls = json.loads(json.dumps(messages[place].data["tool_calls"]))
        function = {**calls[0]["function"], **changes}
        calls[0]["function"] = {k: v for k, v in function.items() if v is not ...}
        fields(place, tool_calls=calls)(messages, frame)

    return change


def step(name: str) -> Change:
    """Let the frame stand elsewhere."""
    return lambda _, frame: replace(frame, step=name)


def emptied(messages: list[Message], _: FrameRow) -> None:
    """Leave all entries out."""
    messages.clear()


UNREADABLE: dict[str, tuple[Change, str]] = {
    "outcome without a command": (without(COMMAND), "an outcome without its call"),
    "outcome before its command": (
        exchanged(COMMAND, OUTCOME),
        "an outcome without its call",
    ),
    "two outcomes of one command": (twice(OUTCOME), "an outcome without its call"),
    "two commands with one id": (twice(COMMAND), "two calls with one id"),
    "command without an outcome": (
        without(SECOND_OUTCOME),
        "calls of a history without an outcome are not the open ones",
    ),
    "open call without a command": (without(LAST), "an outcome without its call"),
    "no calls in a command": (
        fields(COMMAND, tool_calls=[]),
        "an outcome without its call",
    ),
    "no list of calls": (fields(COMMAND, tool_calls=None), "an entry lacks"),
    "no arguments of a call": (
        command(COMMAND, arguments=...),
        "an entry lacks 'arguments'",
    ),
    "outcome that goes back": (facts(SECOND_OUTCOME, at=1), "times of a history go"),
    "time that goes back": (facts(TIME, at=1), "times of a history go back"),
    "outcomes in another order": (
        exchanged(OUTCOME, SECOND_OUTCOME),
        "times of a history go back|an outcome without its call",
    ),
    "no time": (facts(TIME, at=...), "an entry lacks 'at'"),
    "time before 1970": (facts(START, at=-1), "is not a number of milliseconds"),
    "part of a millisecond": (facts(OUTCOME, at=1.5), "is not a number of"),
    "truth as a time": (facts(OUTCOME, at=True), "is not a number of milliseconds"),
    "text as a time": (facts(OUTCOME, at="1"), "is not a number of milliseconds"),
    "unknown end": (facts(OUTCOME, end="exploded"), "an outcome has an unknown end"),
    "no end": (facts(OUTCOME, end=...), "an entry lacks 'end'"),
    "number as an end": (facts(OUTCOME, end=5), "the end of an entry is not a text"),
    "no metadata of an outcome": (metadata(OUTCOME, "{}"), "an entry lacks 'end'"),
    "list as metadata": (metadata(OUTCOME, "[1]"), "must be a JSON object"),
    "half of the metadata": (metadata(OUTCOME, "{"), "is not valid JSON"),
    "no start": (without(START), "a history has no start"),
    "no entries": (emptied, "a history has no start"),
    "start in second place": (exchanged(START, COMMAND), "a history has no start"),
    "two starts": (twice(START), "a history starts twice"),
    "history of a workflow that never ran": (
        step("new"),
        "a workflow that never ran has a history",
    ),
    "outcome without content": (fields(OUTCOME, content=None), "of another type"),
    "list as an outcome": (fields(OUTCOME, content=[1]), "of another type"),
    "number as a code": (facts(OUTCOME, code=5), "of another type"),
    "text as a flag": (facts(OUTCOME, json="yes"), "of another type"),
    "number as the start": (fields(START, content=5), "content of an entry is not"),
    "start after its outcomes": (facts(START, at=4_000_000_000_000), "times of a hist"),
    "no seed": (facts(START, seed=...), "an entry lacks 'seed'"),
    "empty seed": (facts(START, seed=""), "the seed of an entry is not a text"),
    "number as a seed": (facts(START, seed=5), "the seed of an entry is not a text"),
    "patch without a name": (facts(PATCH, patched=""), "patched of an entry is not a"),
    "number as a patch": (facts(PATCH, patched=1), "patched of an entry is not a text"),
    "role of no entry": (fields(TIME, role="system"), "a message is not an entry"),
    "unknown step": (step("dances"), "one of due, ends, new, waits"),
}
REFUSED: dict[str, tuple[Change, type[ContinuationsError], str]] = {
    "another value": (
        fields(OUTCOME, content="4"),
        WorkflowChanged,
        "with other arguments than the history",
    ),
    "arguments that are no JSON": (
        command(COMMAND, arguments="{"),
        WorkflowChanged,
        "the recorded ones are no JSON",
    ),
    "value of another type": (
        fields(OUTCOME, content='"x"'),
        WorkflowChanged,
        "the recorded result of a call of add does not fit its type",
    ),
    "half of a value": (
        fields(OUTCOME, content="{"),
        WorkflowChanged,
        "the recorded result of a call of add does not fit its type",
    ),
    "deep value": (
        fields(OUTCOME, content="[" * 100_000),
        WorkflowChanged,
        "the recorded result of a call of add does not fit its type",
    ),
    "error in place of a value": (
        facts(OUTCOME, end="failed"),
        WorkflowChanged,
        "where the code makes no call: it raised CallFailed",
    ),
    "call that the code did not cancel": (
        facts(OUTCOME, by="workflow"),
        WorkflowChanged,
        "the history cancels a call of add, and the code does not",
    ),
    "other arguments of a call": (
        command(COMMAND, arguments='{"first":9,"second":1}'),
        WorkflowChanged,
        r"with other arguments than the history \(first\)",
    ),
    "list as arguments of a call": (
        command(COMMAND, arguments="[]"),
        WorkflowChanged,
        r"with other arguments than the history \(first, second\)",
    ),
    "another tool": (
        command(COMMAND, name="remove"),
        WorkflowChanged,
        "the history has a call of remove where the code has a call of add",
    ),
    "a time more": (
        twice(TIME),
        WorkflowChanged,
        "the code has a call of add where the history has no call",
    ),
    "no time passed": (
        without(TIME),
        WorkflowChanged,
        "the history has a call of add where the code makes no call",
    ),
    "another patch": (
        facts(PATCH, patched="less"),
        WorkflowChanged,
        r"the history has a call of add where the code has ask\(\.\.\.\)",
    ),
    "arguments of another type": (
        fields(START, content='{"cents":"x"}'),
        WorkflowChanged,
        "its arguments do not fit",
    ),
    "end of the function": (
        step("ends"),
        WorkflowChanged,
        "the code goes on where the history ends",
    ),
    "frame of an agent": (step(""), AgentChanged, "is a workflow in this process"),
}


# Tests -------------------------------------------------------------------------------


def check_refused_everywhere(
    run: DamagedRun, kind: type[ContinuationsError], text: str, change: str
) -> None:
    """Resume, drift and sweep name the run; only the sweep notes its failure."""
    with pytest.raises(kind, match=text) as caught:
        run.runner().resume(RUN)
    assert RUN in str(caught.value)
    (row,) = run.runner().drift()
    assert [("refuse", change)] == [(row.verdict, each.change) for each in row.why]
    assert run.bodies == run.store.bodies
    errors = run.runner().sweep().errors
    assert {RUN: kind} == {key: type(error) for key, error in errors.items()}
    versions = {key for key in run.store.bodies if key.startswith(f"runs/{RUN}/v/")}
    assert versions == {key for key in run.bodies if key in versions}


@pytest.mark.parametrize("what", UNREADABLE)
def test_entries_that_do_not_fit_together_are_not_read(what: str) -> None:
    change, text = UNREADABLE[what]
    run = DamagedRun(change)

    with pytest.raises(FormatError, match=text) as caught:
        run.runner().look(RUN)

    assert f"runs/{RUN}/v/" in str(caught.value)
    check_refused_everywhere(run, FormatError, text, "stored")
    assert EFFECTS == effect_log.names()


@pytest.mark.parametrize("what", REFUSED)
def test_entries_that_the_code_does_not_make_are_shown_and_not_resumed(
    what: str,
) -> None:
    change, kind, text = REFUSED[what]
    run = DamagedRun(change)

    assert "suspended" == run.runner().look(RUN).status
    expected = "kind" if kind is AgentChanged else "workflow"
    check_refused_everywhere(run, kind, text, expected)
    assert EFFECTS == effect_log.names()


@pytest.mark.parametrize(
    "change",
    [step("waits"), step("due"), twice(PATCH)],
    ids=["nothing", "a step that is due", "a patch twice"],
)
def test_entries_that_fit_go_on(change: Change) -> None:
    """Without a damage, the forged bytes are as good as those of a worker."""
    run = DamagedRun(change)

    waiting = expect(run.runner().resume(RUN), Suspended)

    run.runner().decide(the_wait(waiting), Approve(by="kim"))
    assert "kim paid 8" == run.runner().resume(RUN).result()
    assert [*EFFECTS, "pay 8"] == effect_log.names()
