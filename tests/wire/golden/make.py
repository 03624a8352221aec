"""Writes the golden bytes of format 1, once; what exists is never written again.

    python -m tests.wire.golden.make

Each shape is two files: `v1-<shape>.bin`, and beside it what a reader must find in it
as `v1-<shape>.json`, described from the value before it was encoded. A format that was
released is for ever: these files are only ever added to. (Before the first release:
delete the .bin and .json files by hand and run this again.)
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from continuations.core import messages as said
from continuations.core.calls import Started
from continuations.core.decisions import Decision, DecisionKind
from continuations.core.delta import diff
from continuations.core.draft import Draft
from continuations.core.events import (
    Approved,
    Begun,
    CallRaised,
    CallReturned,
    Denied,
    Interrupted,
    ModelReplied,
    RunStopped,
    UserSaid,
)
from continuations.core.messages import Message
from continuations.core.run import Budget, Claim, Failure
from continuations.core.table import ROOT, Table
from continuations.core.usage import Usage
from continuations.wire.continuation import Continuation
from continuations.wire.records import (
    Cancellation,
    Letter,
    encode_cancellation,
    encode_decision,
    encode_letter,
    encode_wait,
)
from continuations.wire.versions import Header, VersionObject, encode_version
from tests.core.rows import (
    MOMENT,
    RUN,
    admitted,
    decided,
    deepest,
    entered,
    gated,
    new_table,
    one_call,
    says,
    told,
    tower,
    wait_for,
    wants,
)

if TYPE_CHECKING:
    from continuations.core.waits import Wait

FOLDER = Path(__file__).parent
# What breaks other formats, and what a provider may send that nobody here knows of.
ODD_TEXT = "caf\u00e9 e\u0301 \u2028 \x00 \u202e \U0001f9d1\u200d\U0001f680 \ud800"
ODD_REPLY = (
    '{"z":1.10,"role":"assistant","content":null,"reasoning":[{"k":"\\ud83d\\ude00"}],'
    '"tool_calls":[{"id":"call_1","type":"function","function":{"name":"balance",'
    '"arguments":"{\\"account\\": 12345678901234567890}"},"extra":{"__proto__":{}}}]}'
)


@dataclass(frozen=True, slots=True)
class Shape:
    """One golden object: its bytes, and the value that it was made from."""

    data: bytes
    value: object


# Values -----------------------------------------------------------------------


def full_wait() -> Wait:
    """Return a wait with every field."""
    return replace(
        wait_for("c3"),
        arguments_json='{"cents":500,"note":"\u00e9"}',
        deadline=MOMENT + timedelta(hours=72),
        valid_for=3600,
        policy="large sums",
        denial_stops=True,
        expiry_stops=True,
        note="The approval was older than its 3600 s.",
    )


def running() -> Table:
    """Return a run under a claim, one call started, one finished."""
    reply = ModelReplied(
        frame=ROOT,
        message=Message.read(ODD_REPLY),
        usage=Usage(
            requests=1,
            input_tokens=1234,
            output_tokens=56,
            cached_tokens=78,
            reasoning_tokens=9,
        ),
    )
    table = new_table(said.system(ODD_TEXT), said.user("Onboard Jane"))
    table = told(table, UserSaid(number=1, message=said.user("today")), reply)
    table = told(table, replace(admitted("c3", repeatable=True), verifiable=True))
    table = told(table, Begun(call="c3"), CallReturned(call="c3", content=ODD_TEXT))
    table = told(table, wants("transfer", "balance"), admitted("c5"), admitted("c4"))
    failed = CallRaised(call="c4", code="exception", content="ERROR: it broke")
    table = told(table, Begun(call="c4"), failed, Begun(call="c5"))
    claim = Claim(
        worker="w-1",
        until=datetime(2026, 11, 21, 9, 31, tzinfo=UTC),
        attempt=2,
    )
    return replace(table, run=replace(table.run, claim=claim))


def waiting() -> Table:
    """Return a run that is suspended, with a wait three agents deep."""
    table = tower(3)
    (wait,) = table.waits.values()
    asked = replace(full_wait(), call_id=wait.call_id, path=("hr", "agent", "agent"))
    run = replace(table.run, status="suspended")
    return replace(table, run=run, waits={wait.id: asked})


def unknown() -> Table:
    """Return a run whose worker died inside a call, which `verify` did not see."""
    table = told(one_call_begun(), lost())
    call = replace(table.calls["c3"], verifiable=True)
    state = replace(cast("Any", call.state), checked=True)
    calls = {**table.calls, "c3": replace(call, state=state)}
    return replace(table, calls=calls, run=replace(table.run, status="suspended"))


def one_call_begun() -> Table:
    """Return a run with a call under way."""
    return told(new_table(), wants("transfer"), admitted("c3"), Begun(call="c3"))


def lost() -> Interrupted:
    """Return that the outcome of that call is not known."""
    return Interrupted(call="c3", wait=wait_for("c3", kind="unknown"))


def edited() -> Table:
    """Return a run whose call was approved with other arguments."""
    edit = Approved(call="c3", digest="d2", arguments='{"cents":5}')
    return told(new_table(max_turns=7), wants("transfer", "a"), gated("c3"), edit)


def cancelled() -> Table:
    """Return a run that was cancelled while an agent below had calls open."""
    table = told(new_table(), wants("free", "agent"), admitted("c4"), entered("c4"))
    table = told(table, wants("gated", "free", frame=deepest(table)))
    table = told(table, gated(table.frames[deepest(table)].open[0]))
    return told(
        table, RunStopped(failure=Failure(code="cancelled", message="by kim: no more"))
    )


def finished() -> Table:
    """Return a run that came to its end, with a denial on the way."""
    table = told(new_table(), wants("transfer"), gated("c3"))
    no = Denied(call="c3", decision=decided(reason="over budget"))
    return told(table, no, says("I could not pay Jane. " * 20))


def bounded() -> Table:
    """Return a run with a budget, of which it has used some."""
    table = new_table()
    budget = Budget(requests=20, tokens=100_000)
    spent = Usage(requests=1, input_tokens=10)
    return replace(table, run=replace(table.run, budget=budget, usage=spent))


def changed() -> VersionObject:
    """Return a version that keeps, adds to and rewrites logs, and lost rows."""
    base = told(new_table(), wants("agent", "agent"))
    base = told(base, admitted("c3"), entered("c3"), admitted("c4"), entered("c4"))
    base = told(base, wants("free", frame="f7"))
    new = told(base, says("below", frame="f5"), admitted("c9"))
    draft = Draft(new)
    draft.new_log("f7", (*new.logs["f7"].messages[:1], said.user("a summary")))
    draft.append("f7", said.user("more"))
    draft.append(ROOT, said.user("and more"))
    new = replace(draft.table(), manifest='{"agents":{"hr":{}}}')
    return version(base, new)


def version(base: Table | None, new: Table) -> VersionObject:
    """Return a version object with every header field."""
    header = Header(
        run_id=RUN,
        number=6,
        root=3,
        base=4 if base else 0,
        base_digest=bytes(range(16)) if base else None,
        status=new.run.status,
        at=MOMENT,
        until=MOMENT if base else None,
        markers=("due/1", "due/2") if base else (),
    )
    delta = diff(base, new)
    return VersionObject(header, replace(delta, gone=tuple(sorted(delta.gone))), b"")


def decision(kind: DecisionKind) -> Decision:
    """Return a decision of a kind, with what such a one holds."""
    return Decision(
        id="01decision",
        wait_id="w1",
        kind=kind,
        at=MOMENT,
        digest="d1",
        by=None if kind in ("expire", "cancel") else "kim@example.com",
        reason=ODD_TEXT if kind == "deny" else None,
        arguments="{}" if kind == "approve" else None,
        value="null" if kind == "answer" else None,
        marker="due/1",
    )


# Shapes -----------------------------------------------------------------------


def shapes() -> dict[str, Shape]:
    """Return every golden object by its name."""
    made: dict[str, Shape] = {}
    for make in (running, waiting, unknown, edited, cancelled, finished, bounded):
        whole = Continuation(make(), 12)
        made[make.__name__] = Shape(whole.to_bytes(), whole)
    for name, made_version in (
        ("version-full", version(None, one_call(Started()))),
        ("version-delta", changed()),
    ):
        data = encode_version(made_version.header, made_version.delta)
        made[name] = Shape(data, made_version)
    for name, wait in (("wait", full_wait()), ("wait-bare", wait_for("c3"))):
        made[name] = Shape(encode_wait(wait), wait)
    kinds: tuple[DecisionKind, ...] = ("approve", "deny", "answer", "expire", "cancel")
    for kind in kinds:
        record = decision(kind)
        made[f"decision-{kind}"] = Shape(encode_decision(record, RUN), record)
    letter = Letter(
        id="01letter",
        number=3,
        at=MOMENT,
        message=said.user(ODD_TEXT),
        by="kim",
        marker="due/1",
    )
    made["message"] = Shape(encode_letter(letter, RUN), letter)
    wish = Cancellation(
        id="01wish", at=MOMENT, by="kim", reason="no more", marker="due/1"
    )
    made["cancellation"] = Shape(encode_cancellation(wish, RUN), wish)
    return made


def described(value: object) -> Any:
    """Return a value as JSON tells it, every field by name."""
    match value:
        case Continuation():
            told: Any = {"version": value.version, "table": described(value.table)}
        case Message():
            told = value.text
        case datetime():
            told = value.isoformat()
        case dict():
            items = cast("dict[str, object]", value).items()
            told = {key: described(inner) for key, inner in items}
        case tuple():
            told = [described(inner) for inner in cast("tuple[object, ...]", value)]
        case None | str() | int():
            told = value
        case bytes():
            told = value.hex()
        case _:
            told = _row(value)
    return told


def _row(value: object) -> dict[str, Any]:
    assert is_dataclass(value)
    # What follows from the rest, or is of the bytes and not of what they say.
    left_out = ("agenda", "digest") if isinstance(value, Table | VersionObject) else ()
    told = {
        field.name: described(getattr(value, field.name))
        for field in fields(value)
        if field.name not in left_out
    }
    return {"type": type(value).__name__, **told}


def write(folder: Path) -> list[str]:
    """Write the shapes that are not there yet; return their names."""
    written: list[str] = []
    for name, shape in shapes().items():
        data, story = folder / f"v1-{name}.bin", folder / f"v1-{name}.json"
        if data.exists():
            continue
        text = json.dumps(described(shape.value), indent=1) + "\n"
        # "x" makes sure of it: nothing that exists is ever opened for writing.
        with data.open("xb") as file:
            file.write(shape.data)
        with story.open("x", encoding="ascii") as file:
            file.write(text)
        written.append(name)
    return written


if __name__ == "__main__":
    names = write(FOLDER)
    sys.stdout.write(f"written: {', '.join(names) or 'nothing; all of them exist'}\n")
