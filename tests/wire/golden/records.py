"""The golden objects of every kind: one for each shape that differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from continuations.core.messages import user_message
from continuations.core.operator_request import OperatorRequest
from continuations.core.rows.calls import Started
from continuations.core.rows.decisions import Decision, DecisionKind
from continuations.core.rows.delta import diff
from continuations.core.rows.slots import Slot
from continuations.core.rows.state import ROOT_FRAME_ID, Draft, RunState
from continuations.core.rows.waits import Wait
from continuations.core.words.call_display import CallDisplay
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    EVENT,
    FILE,
    MESSAGE,
    MESSAGE_ID,
    MISSING_CODE,
    OPERATOR_REQUEST,
    REVOCATION,
    SIGNAL,
    SIGNAL_ID,
    SLOT,
    CancelRequest,
    FirstNumber,
    InboxMessage,
    MissingCode,
    PublishedEvent,
    Revocation,
    Signal,
    StoredFile,
    decode_file,
)
from continuations.wire.continuation import Continuation
from continuations.wire.records import DECISION, WAIT
from continuations.wire.versions import (
    TOMBSTONE,
    Tombstone,
    VersionHeader,
    VersionObject,
    decode_header,
    decode_version,
    encode_version,
)
from tests.core import rows
from tests.wire.golden import runs

NAME = "golden"
OF_RUN: Any = {
    "wait": WAIT,
    "decision": DECISION,
    "message": MESSAGE,
    "message id": MESSAGE_ID,
    "signal": SIGNAL,
    "signal id": SIGNAL_ID,
    "cancellation": CANCEL_REQUEST,
    "operator request": OPERATOR_REQUEST,
    "revocation": REVOCATION,
    "slot": SLOT,
    "missing code": MISSING_CODE,
}
OF_NO_RUN: Any = {"event": EVENT, "tombstone": TOMBSTONE}


class GoldenObject(NamedTuple):
    """One golden object: its kind, and the value that is encoded."""

    kind: str
    value: Any

    @property
    def data(self) -> bytes:
        return encode(self.kind, self.value)


def encode(kind: str, value: Any) -> bytes:
    """Return the bytes of an object of any kind."""
    if kind in OF_RUN:
        data: bytes = OF_RUN[kind].encode(value, rows.RUN)
        return data
    encoders: dict[str, Callable[[Any], bytes]] = {
        "continuation": Continuation.to_bytes,
        "version": lambda version: encode_version(version.header, version.delta),
        "file": FILE.encode,
        **{name: record.encode for name, record in OF_NO_RUN.items()},
    }
    return encoders[kind](value)


def decode(kind: str, data: bytes) -> Any:
    """Return the value of an object of any kind."""
    if kind in OF_RUN:
        return OF_RUN[kind].decode(data, NAME, rows.RUN)
    if kind == "version":
        # Deltas omit the fields of a run that never change.
        base = decode_header(data, NAME).base
        return decode_version(data, NAME, rows.run_row() if base else None)
    decoders: dict[str, Callable[[bytes], Any]] = {
        "continuation": Continuation.from_bytes,
        "file": lambda stored: decode_file(stored, NAME),
        "event": lambda stored: EVENT.decode(stored, NAME),
        "tombstone": lambda stored: TOMBSTONE.decode(stored, NAME),
    }
    return decoders[kind](data)


# Versions -----------------------------------------------------------------------


def make_version(base: RunState | None, new: RunState) -> VersionObject:
    """Return a version that has a base, or a full copy."""
    run = new.run
    is_thread = run.thread_key is not None
    header = VersionHeader(
        run_id=rows.RUN,
        number=6,
        root=3,
        base=4 if base else 0,
        base_digest=bytes(range(16)) if base else None,
        status=run.status,
        at=rows.MOMENT,
        claimed_until=rows.MOMENT if base else None,
        markers=("due/1", "due/2") if base else (),
        inbox=run.last_inbox_number if is_thread else 0,
        answered=run.answered if is_thread else 0,
        replies=(3, 0, 9) if is_thread else (),
    )
    delta = diff(base, new)
    removed = tuple(sorted(delta.removed_ids))
    return VersionObject(header, replace(delta, removed_ids=removed), b"")


def version_with_changed_logs() -> VersionObject:
    """Return a delta that extends and rewrites logs and removes rows."""
    base = rows.apply_events(rows.new_state(), rows.reply_with_calls("agent", "agent"))
    base = rows.apply_events(
        base,
        rows.accepted_event("c3"),
        rows.sub_agent_started_event("c3"),
        rows.accepted_event("c4"),
        rows.sub_agent_started_event("c4"),
    )
    base = rows.apply_events(base, rows.reply_with_calls("free", frame="f7"))
    new = rows.apply_events(
        base, rows.reply_with_text("below", frame="f5"), rows.accepted_event("c9")
    )
    draft = Draft(new)
    draft.start_log("f7", (*new.logs["f7"].messages[:1], user_message("a summary")))
    draft.append("f7", user_message("more"))
    draft.append(ROOT_FRAME_ID, user_message("and more"))
    new = replace(draft.to_run_state(), manifest='{"agents":{"hr":{}}}')
    return make_version(base, new)


def version_that_carries_its_base() -> VersionObject:
    """Return a suspended version with the bytes of its base."""
    version = make_version(rows.new_state(), runs.waiting())
    return replace(version, header=replace(version.header, base_object=b"CONT"))


def _versions() -> dict[str, VersionObject]:
    before, after = runs.before_and_after()
    return {
        "version-full": make_version(None, rows.state_with_call_in(Started())),
        "version-delta": version_with_changed_logs(),
        "version-carries-its-base": version_that_carries_its_base(),
        "version-state": make_version(before, after),
        "version-no-state": make_version(after, before),
        "version-thread": make_version(None, runs.resting_thread()),
    }


# Waits and decisions ------------------------------------------------------------


def _waits() -> dict[str, Wait]:
    event = replace(
        rows.make_wait("c3", kind="event"), event="receipt", event_key="42", stage=1
    )
    return {
        "wait": rows.make_wait("c3"),
        "wait-approval": runs.full_approval(),
        "wait-not-editable": replace(
            rows.make_wait("c3"),
            editable_json="[]",
            display=CallDisplay(secrets=("pin",), reversible=True),
        ),
        "wait-quorum": runs.shared_wait(),
        "wait-question": runs.question_wait(),
        "wait-event": replace(event, events_taken=runs.EVENT_IDS[:1]),
        "wait-external": replace(rows.make_wait("c3", kind="external"), cancels=True),
        "wait-unknown": replace(
            rows.make_wait("c3", kind="unknown"), approve_after=rows.MOMENT
        ),
        "wait-output": runs.judged_wait("output"),
    }


def decision_of_kind(kind: DecisionKind, **changes: Any) -> Decision:
    """Return a decision that a person or a deadline made."""
    made = Decision(
        id="01decision", wait_id="w1", kind=kind, at=rows.MOMENT, digest="d1"
    )
    return replace(made, marker="due/1", **changes)


def _decisions() -> dict[str, Decision]:
    by = "kim@example.com"
    return {
        "decision-approve": decision_of_kind(
            "approve",
            by=by,
            arguments="{}",
            groups=("finance", runs.ODD_TEXT),
            shown="d1",
            voters=("kim", "lee"),
            door="http",
            authentication="verifier",
            grant_json='{"arguments":{"maxProperties":1},"tool":"pay","until":1800000}',
            form='{"number":1}',
        ),
        "decision-deny": decision_of_kind("deny", by=by, reason=runs.ODD_TEXT),
        "decision-answer": decision_of_kind("answer", by=by, value="null", signal=2),
        "decision-fail": decision_of_kind(
            "fail", wait_id=runs.QUESTION, by=by, value='"it broke"'
        ),
        "decision-expire": decision_of_kind("expire"),
        "decision-cancel": decision_of_kind("cancel"),
        "decision-by-rule": decision_of_kind("approve", rule=f"small {runs.ODD_TEXT}"),
        "decision-by-event": decision_of_kind(
            "answer", value="5", event=runs.EVENT_IDS[0]
        ),
    }


# Arrivals -----------------------------------------------------------------------


def _slots() -> dict[str, Slot]:
    vote = decision_of_kind("approve", by="kim@example.com", groups=("finance",))
    slot = Slot(
        id="01slot",
        wait_id="w1",
        number=1,
        kind="vote",
        at=rows.MOMENT,
        digest="d1",
        vote=vote,
    )
    later = replace(slot, number=2, kind="extend", vote=None, deadline=rows.MOMENT)
    return {"slot-vote": slot, "slot-extend": replace(later, by="shop")}


def _arrivals() -> dict[str, GoldenObject]:
    asked: dict[str, Any] = {
        "id": "01asked",
        "at": rows.MOMENT,
        "by": "kim",
        "reason": runs.ODD_TEXT,
        "door": "http",
        "authentication": "verifier",
    }
    sent: dict[str, Any] = {
        "id": "id:mail-7",
        "number": 3,
        "at": rows.MOMENT,
        "by": "shop",
        "marker": "due/1",
    }
    signal = Signal(
        **sent,
        name="receipt",
        data='{"cents":5}',
        door="cli",
        authentication="login",
    )
    bare = Signal(id="01signal", number=1, at=rows.MOMENT, name="receipt", data="null")
    behind = replace(signal, names_before=b"receipt.reminder")
    request = OperatorRequest(
        **asked,
        number=3,
        action="interrupt",
        call_id="c2",
        marker="due/1",
        message_number=2,
        signal_name=runs.ODD_TEXT,
        signal_number=9,
    )
    message = InboxMessage(**sent, message=user_message(runs.ODD_TEXT))
    closing = replace(message, when_busy="merge", closes=True, unread_bytes=70_000)
    return {
        "message": GoldenObject("message", message),
        "message-closes": GoldenObject("message", closing),
        "message-id": GoldenObject("message id", FirstNumber(5)),
        "signal": GoldenObject("signal", signal),
        "signal-bare": GoldenObject("signal", bare),
        "signal-behind": GoldenObject("signal", behind),
        "signal-id": GoldenObject("signal id", FirstNumber(7)),
        "cancellation": GoldenObject(
            "cancellation", CancelRequest(**asked, marker="due/1")
        ),
        "operator-request": GoldenObject("operator request", request),
        "missing-code": GoldenObject(
            "missing code",
            MissingCode(at=rows.MOMENT, text="agent boss has no tool pay"),
        ),
        "revocation": GoldenObject(
            "revocation", Revocation(**asked, number=2, grant="01grant")
        ),
        **{name: GoldenObject("slot", slot) for name, slot in _slots().items()},
    }


def _other_objects() -> dict[str, GoldenObject]:
    event = PublishedEvent(
        id=runs.EVENT_IDS[0],
        name="receipt",
        key=runs.ODD_TEXT,
        at=rows.MOMENT,
        data='{"cents":5}',
        by="shop",
        own_id="mail-7",
        door="http",
        authentication="verifier",
    )
    bare = PublishedEvent(
        id=event.id, name=event.name, key=None, at=rows.MOMENT, data="null"
    )
    stone = Tombstone(
        run_id=rows.RUN,
        number=7,
        at=rows.MOMENT,
        late_keys=(f"index/live/{rows.RUN}", f"waits/approval-01w@{rows.RUN}"),
    )
    files = {
        name: StoredFile(
            run_id=rows.RUN,
            media_type=content.media_type,
            name=content.name,
            data=content.data,
            digest=content.digest,
        )
        for name, content in (("file", runs.REPORT), ("file-image", runs.PHOTO))
    }
    return {
        "event": GoldenObject("event", event),
        "event-bare": GoldenObject("event", bare),
        "tombstone": GoldenObject("tombstone", stone),
        **{name: GoldenObject("file", file) for name, file in files.items()},
    }


def golden_objects() -> dict[str, GoldenObject]:
    """Return every golden object by its name."""
    states = (
        runs.running,
        runs.waiting,
        runs.unknown,
        runs.edited,
        runs.granted,
        runs.answered,
        runs.paused,
        runs.described,
        runs.cancelled,
        runs.finished,
        runs.delayed,
        runs.held_input,
        runs.held_output,
        runs.compacted,
        runs.run_with_fallback,
        runs.changed_state,
        runs.busy_thread,
        runs.run_with_file,
        runs.answer_used,
        runs.waiting_again,
        runs.workflow,
        runs.workflow_with_tasks,
        runs.handoff,
        runs.filtered_handoff,
        runs.traced,
    )
    continuations = {make.__name__: Continuation(make(), 12) for make in states}
    files = runs.attached_files()
    carried = Continuation(runs.run_with_file(), 0, files)
    continuations["continuation_with_files"] = carried
    return {
        **{
            name: GoldenObject("continuation", each)
            for name, each in continuations.items()
        },
        **{name: GoldenObject("version", each) for name, each in _versions().items()},
        **{name: GoldenObject("wait", each) for name, each in _waits().items()},
        **{name: GoldenObject("decision", each) for name, each in _decisions().items()},
        **_arrivals(),
        **_other_objects(),
    }
