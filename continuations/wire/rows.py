"""A run's rows, and the deltas between its versions, as plain stored values.

The fields that are named here are those of format 1, which is frozen. `formats` adds
those of later formats. The names of stored fields (`birth`, `meaning`, `written`,
`doubtful`, `gone`) are part of the format; the code has clearer names for the same
values.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.core.calls import (
    STATE_NAMES,
    STATE_TYPES,
    CallRow,
    CallState,
    Errored,
    Nested,
    Parked,
    Refused,
    Returned,
    Unknown,
    Waiting,
)
from continuations.core.delta import Delta, LogDelta
from continuations.core.frames import FrameRow
from continuations.core.messages import Message
from continuations.core.run import RUN_STATUSES, Budget, Claim, Failure, RunRow
from continuations.core.usage import USAGE_COUNTS, Usage
from continuations.wire.fields import (
    FieldReader,
    invalid_object,
    omit_empty,
    to_milliseconds,
)
from continuations.wire.formats import fields_of, read_fields
from continuations.wire.records import read_wait, wait_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

_STATE_KINDS = frozenset(STATE_TYPES)


def delta_fields(delta: Delta, *, full_copy: bool = True) -> dict[str, object]:
    """Return the stored fields of a delta.

    Only full copies store the fields of a run that never change.
    """
    return omit_empty(
        run=_run_fields(delta.run, full_copy=full_copy),
        manifest=delta.manifest,
        frames=[_frame_fields(row) for row in delta.frames],
        calls=[_call_fields(row) for row in delta.calls],
        waits=[wait_fields(row) for row in delta.waits],
        logs={key: _log_fields(log) for key, log in delta.logs.items()},
        gone=sorted(delta.removed_ids),
        **(fields_of("delta", delta) if delta.states or delta.files else {}),
    )


def read_delta(value: object, where: str, base: RunRow | None = None) -> Delta:
    """Return the delta that the stored fields describe; raises `FormatError`.

    `base` is the row of the run in the version that the delta starts from.
    """
    fields = FieldReader(value, where)
    run = fields.nested_or_none("run", partial(_read_run, base=base))
    if run is None:
        raise invalid_object(where, "'run' is missing")
    delta = Delta(
        run=run,
        manifest=fields.text_or_none("manifest"),
        frames=fields.list_of("frames", _read_frame),
        calls=fields.list_of("calls", _read_call),
        waits=fields.list_of("waits", read_wait),
        logs={
            key: _read_log(log, f"{where}.logs.{key}")
            for key, log in fields.mapping("logs").items()
        },
        removed_ids=fields.texts("gone"),
        **read_fields("delta", fields),
    )
    fields.check_all_read()
    return delta


# Run ------------------------------------------------------------------------


def _run_fields(row: RunRow, *, full_copy: bool) -> dict[str, object]:
    constant = omit_empty(
        id=row.id,
        birth=row.run_nonce,
        agent=row.agent,
        created=to_milliseconds(row.created_at),
        input=row.input_digest,
        budget=_budget_fields(row.budget),
    )
    return (constant if full_copy else {}) | omit_empty(
        status=row.status,
        next=row.next_id,
        inbox=row.last_inbox_number or None,
        claim=_claim_fields(row.claim),
        usage=_usage_fields(row.usage),
        doubtful=row.history_lost,
        output=row.output,
        failure=_failure_fields(row.failure),
        **fields_of("run", row, full_copy=full_copy),
    )


def _read_run(value: object, where: str, base: RunRow | None) -> RunRow:
    fields = FieldReader(value, where)
    row = RunRow(
        id=base.id if base else fields.text("id"),
        run_nonce=base.run_nonce if base else fields.text("birth"),
        agent=base.agent if base else fields.text("agent"),
        created_at=base.created_at if base else fields.timestamp("created"),
        input_digest=base.input_digest if base else fields.text("input"),
        budget=base.budget if base else fields.nested_or_none("budget", _read_budget),
        status=fields.one_of("status", RUN_STATUSES),
        next_id=fields.number("next"),
        last_inbox_number=fields.number("inbox", 0),
        claim=fields.nested_or_none("claim", _read_claim),
        usage=fields.nested_or_none("usage", _read_usage) or Usage(),
        history_lost=fields.flag("doubtful"),
        output=fields.text_or_none("output"),
        failure=fields.nested_or_none("failure", _read_failure),
        **read_fields("run", fields, base),
    )
    fields.check_all_read()
    return row


def _claim_fields(claim: Claim | None) -> dict[str, object] | None:
    if claim is None:
        return None
    return omit_empty(
        worker=claim.worker,
        until=to_milliseconds(claim.until),
        attempt=claim.attempt or None,
        **fields_of("claim", claim),
    )


def _read_claim(value: object, where: str) -> Claim:
    fields = FieldReader(value, where)
    claim = Claim(
        worker=fields.text("worker"),
        until=fields.timestamp("until"),
        attempt=fields.number("attempt", 0),
        **read_fields("claim", fields),
    )
    fields.check_all_read()
    return claim


def _usage_fields(usage: Usage) -> dict[str, object]:
    counts = {name: getattr(usage, name) or None for name in USAGE_COUNTS}
    return omit_empty(**counts, **fields_of("usage", usage))


def _read_usage(value: object, where: str) -> Usage:
    fields = FieldReader(value, where)
    counts: dict[str, Any] = {n: fields.number(n, 0) for n in USAGE_COUNTS}
    usage = Usage(**counts, **read_fields("usage", fields))
    fields.check_all_read()
    return usage


def _budget_fields(budget: Budget | None) -> dict[str, object] | None:
    if budget is None:
        return None
    return omit_empty(
        requests=budget.requests, tokens=budget.tokens, **fields_of("budget", budget)
    )


def _read_budget(value: object, where: str) -> Budget:
    fields = FieldReader(value, where)
    budget = Budget(
        requests=fields.number_or_none("requests"),
        tokens=fields.number_or_none("tokens"),
        **read_fields("budget", fields),
    )
    fields.check_all_read()
    return budget


def _failure_fields(failure: Failure | None) -> dict[str, object] | None:
    if failure is None:
        return None
    fields: dict[str, object] = {"code": failure.code, "message": failure.message}
    return fields | fields_of("failure", failure)


def _read_failure(value: object, where: str) -> Failure:
    fields = FieldReader(value, where)
    failure = Failure(
        code=fields.text("code"),
        message=fields.text("message"),
        **read_fields("failure", fields),
    )
    fields.check_all_read()
    return failure


# Frames and logs ------------------------------------------------------------


def _frame_fields(row: FrameRow) -> dict[str, object]:
    return omit_empty(
        id=row.id,
        agent=row.agent,
        call=row.parent_call_id,
        depth=row.depth or None,
        turns=row.turns or None,
        max_turns=row.max_turns,
        open=list(row.open_call_ids),
        **fields_of("frame", row),
    )


def _read_frame(value: object, where: str) -> FrameRow:
    fields = FieldReader(value, where)
    row = FrameRow(
        id=fields.text("id"),
        agent=fields.text("agent"),
        parent_call_id=fields.text_or_none("call"),
        depth=fields.number("depth", 0),
        turns=fields.number("turns", 0),
        max_turns=fields.number_or_none("max_turns"),
        open_call_ids=fields.texts("open"),
        **read_fields("frame", fields),
    )
    fields.check_all_read()
    return row


def _log_fields(log: LogDelta) -> dict[str, object]:
    return omit_empty(
        id=log.id,
        keep=log.keep_count or None,
        add=[message.text for message in log.added],
        **fields_of("log", log),
    )


def _read_log(value: object, where: str) -> LogDelta:
    fields = FieldReader(value, where)
    place = f"{where}.add"
    # A message is read when it is first needed, or by `read_messages`.
    added = [Message.unread(text, place) for text in fields.texts("add")]
    found: tuple[tuple[int, str], ...] = read_fields("log", fields).get("metadata", ())
    for position, metadata in found:
        if position >= len(added) or added[position].metadata_json is not None:
            raise invalid_object(where, "its metadata belongs to no message")
        added[position] = added[position].with_metadata(metadata)
    log = LogDelta(
        id=fields.number("id"),
        keep_count=fields.number("keep", 0),
        added=tuple(added),
    )
    fields.check_all_read()
    return log


# Calls ----------------------------------------------------------------------


def _call_fields(row: CallRow) -> dict[str, object]:
    return omit_empty(
        id=row.id,
        frame=row.frame_id,
        tool=row.tool,
        provider_id=row.tool_call_id,
        # If both texts are equal, only `arguments` is stored.
        written=None if row.raw_arguments == row.arguments else row.raw_arguments,
        state=_state_fields(row.state),
        arguments=row.arguments,
        original=row.original_arguments,
        meaning=row.contract_digest,
        approved=row.approved_digest,
        approved_until=_milliseconds_or_none(row.approved_until),
        repeatable=row.repeatable,
        verifiable=row.verifiable,
        attempts=row.attempts or None,
        **fields_of("call", row),
    )


def _read_call(value: object, where: str) -> CallRow:
    fields = FieldReader(value, where)
    state = fields.nested_or_none("state", _read_state)
    arguments = fields.json_object_or_none("arguments")
    raw_arguments = fields.text_or_none("written")
    if state is None or (raw_arguments is None and arguments is None):
        raise invalid_object(where, "the state or the arguments are missing")
    row = CallRow(
        id=fields.text("id"),
        frame_id=fields.text("frame"),
        tool=fields.text("tool"),
        tool_call_id=fields.text("provider_id"),
        raw_arguments=raw_arguments if raw_arguments is not None else str(arguments),
        state=state,
        arguments=arguments,
        original_arguments=fields.json_object_or_none("original"),
        contract_digest=fields.text_or_none("meaning"),
        approved_digest=fields.text_or_none("approved"),
        approved_until=fields.timestamp_or_none("approved_until"),
        repeatable=fields.flag("repeatable"),
        verifiable=fields.flag("verifiable"),
        attempts=fields.number("attempts", 0),
        **read_fields("call", fields),
    )
    fields.check_all_read()
    return row


def _milliseconds_or_none(time: datetime | None) -> int | None:
    return None if time is None else to_milliseconds(time)


def _state_fields(state: CallState) -> dict[str, object]:
    kind = STATE_NAMES[type(state)]
    match state:
        case Waiting(wait_id=wait_id) | Parked(wait_id=wait_id):
            return {"kind": kind, "wait": wait_id}
        case Unknown(wait_id=wait_id, verify_tried=verify_tried):
            return omit_empty(kind=kind, wait=wait_id, checked=verify_tried)
        case Nested(frame_id=frame_id):
            return {"kind": kind, "frame": frame_id}
        case Returned(content=content):
            return {"kind": kind, "content": content}
        case Errored(code=code, content=content) | Refused(code=code, content=content):
            return {"kind": kind, "code": code, "content": content}
        case _:
            return {"kind": kind}


_STATE_READERS: dict[str, Callable[[FieldReader], tuple[Any, ...]]] = {
    "waiting": lambda fields: (fields.text("wait"),),
    "parked": lambda fields: (fields.text("wait"),),
    "unknown": lambda fields: (fields.text("wait"), fields.flag("checked")),
    "nested": lambda fields: (fields.text("frame"),),
    "returned": lambda fields: (fields.text("content"),),
    "errored": lambda fields: (fields.text("code"), fields.text("content")),
    "refused": lambda fields: (fields.text("code"), fields.text("content")),
}


def _read_state(value: object, where: str) -> CallState:
    fields = FieldReader(value, where)
    kind = fields.one_of("kind", _STATE_KINDS)
    read = _STATE_READERS.get(kind)
    state = STATE_TYPES[kind](*(read(fields) if read else ()))
    fields.check_all_read()
    return state
