"""Every fact that could come next, for a run of made-up models, tools and people.

A schedule is a list of numbers: each picks one of the facts that are possible, in an
order which follows from the rows alone, so the same numbers tell the same story
however often the run is put away in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st

from continuations.core import messages as said
from continuations.core.actions import Action, Ask, Begin, Examine, Verify
from continuations.core.calls import Unknown
from continuations.core.events import (
    Admitted,
    Answered,
    Approved,
    Begun,
    CallRaised,
    CallReturned,
    Denied,
    Entered,
    Event,
    Expired,
    Gated,
    Interrupted,
    ModelReplied,
    Rejected,
    Reopened,
    Repeated,
    RunStopped,
    Unverified,
    UserSaid,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED, Failure
from continuations.core.table import ROOT
from continuations.core.usage import Usage
from continuations.core.waits import Wait
from tests.core.rows import (
    assistant,
    decided,
    new_table,
    request,
    says,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations.core.calls import CallRow
    from continuations.core.table import Table

MOST_DEPTH = 4
MOST_STEPS = 5000
CHOICES = st.lists(st.integers(0, 2**20), min_size=30, max_size=60)

# Tools by what their calls go through; several turns ask for the same tool twice,
# with ids that a bad provider repeats or leaves empty.
_TURNS: tuple[tuple[str, ...], ...] = (
    ("free",),
    ("gated", "free", "gated"),
    ("agent",),
    ("agent", "agent"),
    ("gated agent", "missing"),
    ("missing", "missing"),
)
_IDS = (("", "", ""), ("x", "x", "x"), ("x", "y", "z"))


def begin(choices: list[int]) -> Table:
    """Return the table that a schedule begins with."""
    turns = (None, None, 2, 4)[sum(choices) % 4]
    return new_table(said.system("be kind"), said.user("hello"), max_turns=turns)


def play(
    table: Table,
    choices: Iterable[int],
    watch: Callable[[Table, Event, Table], None] | None = None,
    between: Callable[[int, Table], Table] | None = None,
) -> Table:
    """Return the table at the end of a schedule; it always comes to an end."""
    for step, choice in enumerate(choices, 1):
        # Mixed, because hypothesis likes small numbers and the same ones again.
        mixed = ((choice + step * 7919) * 2_654_435_761 & 0xFFFFFFFF) >> 5
        events = facts(table, mixed)
        if not events:
            break
        table = _moved(table, events[mixed % len(events)], watch)
        table = between(step, table) if between else table
    return _finish(table, watch)


def _finish(table: Table, watch: Callable[[Table, Event, Table], None] | None) -> Table:
    # The first fact of each kind leads to an end: words, a result, a Yes.
    for _ in range(MOST_STEPS):
        events = facts(table, 0)
        if not events:
            return table
        table = _moved(table, events[0], watch)
    pytest.fail(f"the run did not come to an end in {MOST_STEPS} steps")


def _moved(
    table: Table,
    event: Event,
    watch: Callable[[Table, Event, Table], None] | None,
) -> Table:
    after = advance(table, event)
    if watch is not None:
        watch(table, event, after)
    return after


def facts(table: Table, choice: int) -> list[Event]:
    """Return what may happen next to one row, chosen by a number."""
    if table.run.status in ENDED:
        return []
    if choice % 97 == 96:
        return [RunStopped(failure=Failure(code="cancelled", message="by kim"))]
    if choice % 13 == 12 and not table.frames[ROOT].open:
        number = table.run.inbox + 1
        return [UserSaid(number=number, message=said.user(f"more {number}"))]
    rows: list[Action | Wait] = [*plan(table), *table.waits.values()]
    rows.sort(key=lambda row: (type(row).__name__, repr(row)))
    row = rows[choice // 7 % len(rows)]
    return _decisions(table, row) if isinstance(row, Wait) else _outcomes(table, row)


def _outcomes(table: Table, action: Action) -> list[Event]:
    if isinstance(action, Ask):
        return _replies(table, action.frame)
    call = table.calls[action.call]
    if isinstance(action, Examine):
        return _verdicts(table, call)
    if isinstance(action, Begin):
        return [_beginning(call)]
    if isinstance(action, Verify):
        return _findings(call)
    lost: Event = (
        Repeated(call=call.id)
        if call.repeatable
        else Interrupted(call=call.id, wait=_wait(table, call, "unknown"))
    )
    return [
        CallReturned(call=call.id, content=f"result of {call.id}"),
        CallRaised(call=call.id, code="exception", content=f"error of {call.id}"),
        lost,
    ]


def _replies(table: Table, frame_id: str) -> list[Event]:
    replies: list[Event] = [says("the end", frame_id), says("cut", frame_id, "length")]
    frame = table.frames[frame_id]
    # A tree that can be finished: few turns, and few levels.
    if frame.turns >= 4:
        return replies
    for tools in _TURNS:
        if frame.depth >= MOST_DEPTH and any("agent" in tool for tool in tools):
            continue
        for ids in _IDS:
            calls = [request(t, i, "{}") for t, i in zip(tools, ids, strict=False)]
            message = assistant("I shall", *calls)
            usage = Usage(requests=1, input_tokens=5)
            replies.append(ModelReplied(frame=frame_id, message=message, usage=usage))
    return replies


def _verdicts(table: Table, call: CallRow) -> list[Event]:
    if call.tool == "missing":
        return [Rejected(call=call.id, code="unknown_tool", content=f"no {call.id}")]
    if "gated" in call.tool:
        return [
            Gated(
                call=call.id,
                arguments='{"n":1}',
                meaning="m",
                wait=_wait(table, call, "approval"),
                verifiable=verifiable,
            )
            for verifiable in (False, True)
        ]
    return [
        Admitted(
            call=call.id,
            arguments='{"n":1}',
            meaning="m",
            repeatable=repeatable,
            verifiable=verifiable,
        )
        for repeatable in (False, True)
        for verifiable in (False, True)
    ]


def _beginning(call: CallRow) -> Event:
    if "agent" not in call.tool:
        return Begun(call=call.id)
    messages = (said.system("you are below"), said.user(f"input of {call.id}"))
    return Entered(call=call.id, agent="below", messages=messages, max_turns=3)


def _findings(call: CallRow) -> list[Event]:
    assert isinstance(call.state, Unknown)
    return [
        Unverified(call=call.id),
        Answered(call=call.id, content=f"found {call.id}"),
        Approved(call=call.id, digest="d2"),
        Denied(call=call.id, decision=decided(wait_id=call.state.wait)),
    ]


def _decisions(table: Table, wait: Wait) -> list[Event]:
    call = table.calls[wait.call_id]
    no = decided("deny", wait.id, f"no to {call.id}")
    events: list[Event] = [
        Approved(call=call.id, digest=wait.digest),
        Approved(call=call.id, digest="d3", arguments='{"n":2}'),
        Denied(call=call.id, decision=no),
        Expired(call=call.id, decision=decided("expire", wait.id)),
        Reopened(call=call.id, wait=_wait(table, call, wait.kind)),
    ]
    if wait.kind == "unknown":
        events.append(Answered(call=call.id, content=f"told {call.id}"))
    return events


def _wait(table: Table, call: CallRow, kind: str) -> Wait:
    # A wait id comes from the engine's dice; here it counts what was there before.
    number = sum(len(log.messages) for log in table.logs.values())
    old = next((w.id for w in table.waits.values() if w.call_id == call.id), "w")
    new = wait_for(call.id, f"{old}.{number}.{call.id}.{call.attempts}")
    return replace(new, kind="unknown" if kind == "unknown" else "approval")
