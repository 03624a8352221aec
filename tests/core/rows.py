"""Small rows to tell stories with: one run, its waits, what a model asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from continuations.core import messages as said
from continuations.core.calls import (
    CallRow,
    Errored,
    Nested,
    Proposed,
    Ready,
    Refused,
    Returned,
    Started,
    State,
    Unknown,
    Waiting,
)
from continuations.core.decisions import Decision, DecisionKind
from continuations.core.events import (
    Admitted,
    Begun,
    CallReturned,
    Entered,
    Event,
    Gated,
    Interrupted,
    ModelReplied,
    Rejected,
)
from continuations.core.frames import FrameRow, Log
from continuations.core.messages import Message
from continuations.core.reducer import advance
from continuations.core.run import RunRow
from continuations.core.table import ROOT, Table
from continuations.core.usage import Usage
from continuations.core.waits import Wait, WaitKind

if TYPE_CHECKING:
    from collections.abc import Mapping

MOMENT = datetime(2026, 11, 21, 9, 30, 0, 125_000, tzinfo=UTC)
RUN = "jane-1"

STATES: tuple[State, ...] = (
    Proposed(),
    Waiting("w1"),
    Ready(),
    Started(),
    Nested("f9"),
    Unknown("w1"),
    Returned("42"),
    Errored("exception", "ERROR: it broke"),
    Refused("denied", "DENIED"),
)


def run_row() -> RunRow:
    """Return the row of a run that has just begun."""
    return RunRow(
        id=RUN,
        birth="01birth",
        agent="hr",
        created_at=MOMENT,
        input_digest="0a" * 32,
        next_id=3,
    )


def new_table(*messages: Message, max_turns: int | None = None) -> Table:
    """Return a run that has just begun, whose model will be asked first."""
    frame = FrameRow(id=ROOT, agent="hr", call=None, max_turns=max_turns)
    return Table.of(
        run=run_row(),
        manifest='{"agents":{}}',
        frames={ROOT: frame},
        calls={},
        waits={},
        logs={ROOT: Log(2, messages or (said.user("Onboard Jane"),))},
    )


def assistant(content: str | None = None, *calls: Mapping[str, Any]) -> Message:
    """Return an assistant's message as a provider gives it."""
    data: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        data["tool_calls"] = list(calls)
    return Message.of(data)


def request(tool: str, given: str = "", arguments: str = "{}") -> dict[str, Any]:
    """Return one tool call as a provider gives it."""
    function = {"name": tool, "arguments": arguments}
    return {"id": given, "type": "function", "function": function}


def wants(*tools: str, frame: str = ROOT) -> ModelReplied:
    """Return a reply that calls tools, with ids `p0`, `p1`, ..."""
    calls = [request(tool, f"p{index}") for index, tool in enumerate(tools)]
    return ModelReplied(
        frame=frame, message=assistant(None, *calls), usage=Usage(requests=1)
    )


def says(text: str, frame: str = ROOT, finish: str = "stop") -> ModelReplied:
    """Return a reply in words."""
    usage = Usage(requests=1, input_tokens=10, output_tokens=2)
    return ModelReplied(
        frame=frame, message=assistant(text), usage=usage, finish=finish
    )


def wait_for(call: str, wait_id: str = "w1", kind: WaitKind = "approval") -> Wait:
    """Return a wait of a call."""
    return Wait(
        id=wait_id,
        run_id=RUN,
        call_id=call,
        kind=kind,
        path=("hr", "transfer"),
        tool="transfer",
        arguments_json='{"cents":500}',
        schema_json='{"type":"object"}',
        digest="d1",
        created_at=MOMENT,
    )


def decided(
    kind: DecisionKind = "deny", wait_id: str = "w1", reason: str | None = None
) -> Decision:
    """Return the record of a decision."""
    return Decision(
        id="d-1", wait_id=wait_id, kind=kind, at=MOMENT, digest="d1", reason=reason
    )


def admitted(call: str, *, repeatable: bool = False) -> Admitted:
    """Return that a call is sound and free."""
    return Admitted(
        call=call, arguments='{"cents":500}', meaning="m1", repeatable=repeatable
    )


def gated(call: str, wait_id: str = "w1") -> Gated:
    """Return that a call is sound and needs a person."""
    return Gated(
        call=call,
        arguments='{"cents":500}',
        meaning="m1",
        wait=wait_for(call, wait_id),
    )


def entered(call: str, agent: str = "accounts") -> Entered:
    """Return that a call's agent begins."""
    return Entered(call=call, agent=agent, messages=(said.user("pay"),))


def told(table: Table, *events: Event) -> Table:
    """Return the table after events."""
    for event in events:
        table = advance(table, event)
    return table


def one_call(state: State) -> Table:  # noqa: PLR0911 - one row for each state
    """Return a run whose one open call `c3` came to a state by lawful events."""
    begun = told(new_table(), wants("transfer", "balance"))
    match state:
        case Proposed():
            return begun
        case Waiting():
            return told(begun, gated("c3"))
        case Ready():
            return told(begun, admitted("c3"))
        case Started():
            return told(begun, admitted("c3"), Begun(call="c3"))
        case Nested():
            return told(begun, admitted("c3"), entered("c3"))
        case Unknown():
            lost = Interrupted(call="c3", wait=wait_for("c3", kind="unknown"))
            return told(begun, admitted("c3"), Begun(call="c3"), lost)
        case Returned():
            done = CallReturned(call="c3", content="42")
            return told(begun, admitted("c3"), Begun(call="c3"), done)
        case Errored():
            wrong = Rejected(call="c3", code="arguments", content="ERROR: no")
            return told(begun, wrong)
        case Refused():
            table = told(begun, gated("c3"))
            calls = {**table.calls, "c3": with_state(table, "c3", state)}
            return Table.of(
                run=table.run,
                manifest=table.manifest,
                frames=table.frames,
                calls=calls,
                waits={},
                logs=table.logs,
            )


def with_state(table: Table, call: str, state: State) -> CallRow:
    """Return a call's row in another state."""
    return replace(table.calls[call], state=state)


def tower(levels: int) -> Table:
    """Return a run in which agents called agents, the deepest call waiting."""
    table = new_table()
    frame = ROOT
    for level in range(1, levels):
        table = told(table, wants("agent", frame=frame))
        call = table.frames[frame].open[0]
        table = told(table, admitted(call), entered(call, f"level-{level}"))
        frame = deepest(table)
    table = told(table, wants("transfer", frame=frame))
    return told(table, gated(table.frames[frame].open[0]))


def deepest(table: Table) -> str:
    """Return the id of the frame that was entered last."""
    return list(table.frames)[-1]


def relisted(table: Table) -> Table:
    """Return the table of the same rows, with its agenda made anew."""
    return Table.of(
        run=table.run,
        manifest=table.manifest,
        frames=table.frames,
        calls=table.calls,
        waits=table.waits,
        logs=table.logs,
    )
