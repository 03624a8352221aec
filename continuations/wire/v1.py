"""Format 1: the rows of a run and the deltas between its versions, as plain values.

Frozen once released: a change of what is written here is a new format number, a new
reader and new golden bytes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.core.calls import (
    STATE_NAMES,
    STATES,
    CallRow,
    Errored,
    Nested,
    Refused,
    Returned,
    State,
    Unknown,
    Waiting,
)
from continuations.core.delta import Delta, LogDelta
from continuations.core.frames import FrameRow
from continuations.core.run import STATUSES, Budget, Claim, Failure, RunRow
from continuations.core.usage import Usage
from continuations.errors import FormatError
from continuations.wire.fields import Fields, milliseconds, present
from continuations.wire.records import read_message, read_wait, wait_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

STATE_KINDS = frozenset(STATES)


def delta_fields(delta: Delta, *, whole: bool = True) -> dict[str, object]:
    """Return a delta as stored; only a whole one says what never changes of a run."""
    return present(
        run=_run_fields(delta.run, whole=whole),
        manifest=delta.manifest,
        frames=[_frame_fields(row) for row in delta.frames],
        calls=[_call_fields(row) for row in delta.calls],
        waits=[wait_fields(row) for row in delta.waits],
        logs={key: _log_fields(log) for key, log in delta.logs.items()},
        gone=sorted(delta.gone),
    )


def read_delta(value: object, where: str, base: RunRow | None = None) -> Delta:
    """Return the delta of its stored fields; raises `FormatError`.

    `base` is the run's row in the version that it is a delta from.
    """
    fields = Fields(value, where)
    run = fields.one("run", partial(_read_run, base=base))
    if run is None:
        msg = f"{where} lacks its run"
        raise FormatError(msg)
    delta = Delta(
        run=run,
        manifest=fields.text_or_none("manifest"),
        frames=fields.each("frames", _read_frame),
        calls=fields.each("calls", _read_call),
        waits=fields.each("waits", read_wait),
        logs={
            key: _read_log(log, f"{where}.logs.{key}")
            for key, log in fields.mapping("logs").items()
        },
        gone=fields.texts("gone"),
    )
    fields.end()
    return delta


# Run ------------------------------------------------------------------------


def _run_fields(row: RunRow, *, whole: bool) -> dict[str, object]:
    constant = present(
        id=row.id,
        birth=row.birth,
        agent=row.agent,
        created=milliseconds(row.created_at),
        input=row.input_digest,
        budget=_budget_fields(row.budget),
    )
    return (constant if whole else {}) | present(
        status=row.status,
        next=row.next_id,
        inbox=row.inbox or None,
        claim=_claim_fields(row.claim),
        usage=_usage_fields(row.usage),
        doubtful=row.doubtful,
        output=row.output,
        failure=_failure_fields(row.failure),
    )


def _read_run(value: object, where: str, base: RunRow | None) -> RunRow:
    fields = Fields(value, where)
    row = RunRow(
        id=base.id if base else fields.text("id"),
        birth=base.birth if base else fields.text("birth"),
        agent=base.agent if base else fields.text("agent"),
        created_at=base.created_at if base else fields.moment("created"),
        input_digest=base.input_digest if base else fields.text("input"),
        budget=base.budget if base else fields.one("budget", _read_budget),
        status=fields.chosen("status", STATUSES),
        next_id=fields.number("next"),
        inbox=fields.number("inbox", 0),
        claim=fields.one("claim", _read_claim),
        usage=fields.one("usage", _read_usage) or Usage(),
        doubtful=fields.flag("doubtful"),
        output=fields.text_or_none("output"),
        failure=fields.one("failure", _read_failure),
    )
    fields.end()
    return row


def _claim_fields(claim: Claim | None) -> dict[str, object] | None:
    if claim is None:
        return None
    return present(
        worker=claim.worker,
        until=milliseconds(claim.until),
        attempt=claim.attempt or None,
    )


def _read_claim(value: object, where: str) -> Claim:
    fields = Fields(value, where)
    claim = Claim(
        worker=fields.text("worker"),
        until=fields.moment("until"),
        attempt=fields.number("attempt", 0),
    )
    fields.end()
    return claim


_USAGE = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
)


def _usage_fields(usage: Usage) -> dict[str, object]:
    return present(**{name: getattr(usage, name) or None for name in _USAGE})


def _read_usage(value: object, where: str) -> Usage:
    fields = Fields(value, where)
    usage = Usage(**{name: fields.number(name, 0) for name in _USAGE})
    fields.end()
    return usage


def _budget_fields(budget: Budget | None) -> dict[str, object] | None:
    if budget is None:
        return None
    return present(requests=budget.requests, tokens=budget.tokens)


def _read_budget(value: object, where: str) -> Budget:
    fields = Fields(value, where)
    budget = Budget(
        requests=fields.number_or_none("requests"),
        tokens=fields.number_or_none("tokens"),
    )
    fields.end()
    return budget


def _failure_fields(failure: Failure | None) -> dict[str, object] | None:
    if failure is None:
        return None
    return {"code": failure.code, "message": failure.message}


def _read_failure(value: object, where: str) -> Failure:
    fields = Fields(value, where)
    failure = Failure(code=fields.text("code"), message=fields.text("message"))
    fields.end()
    return failure


# Frames and logs ------------------------------------------------------------


def _frame_fields(row: FrameRow) -> dict[str, object]:
    return present(
        id=row.id,
        agent=row.agent,
        call=row.call,
        depth=row.depth or None,
        turns=row.turns or None,
        max_turns=row.max_turns,
        open=list(row.open),
    )


def _read_frame(value: object, where: str) -> FrameRow:
    fields = Fields(value, where)
    row = FrameRow(
        id=fields.text("id"),
        agent=fields.text("agent"),
        call=fields.text_or_none("call"),
        depth=fields.number("depth", 0),
        turns=fields.number("turns", 0),
        max_turns=fields.number_or_none("max_turns"),
        open=fields.texts("open"),
    )
    fields.end()
    return row


def _log_fields(log: LogDelta) -> dict[str, object]:
    return present(
        id=log.id, keep=log.keep or None, add=[message.text for message in log.add]
    )


def _read_log(value: object, where: str) -> LogDelta:
    fields = Fields(value, where)
    log = LogDelta(
        id=fields.number("id"),
        keep=fields.number("keep", 0),
        add=fields.each("add", read_message),
    )
    fields.end()
    return log


# Calls ----------------------------------------------------------------------


def _call_fields(row: CallRow) -> dict[str, object]:
    return present(
        id=row.id,
        frame=row.frame,
        tool=row.tool,
        provider_id=row.provider_id,
        # Where both are the same text, it is stored once.
        written=None if row.written == row.arguments else row.written,
        state=_state_fields(row.state),
        arguments=row.arguments,
        original=row.original,
        meaning=row.meaning,
        approved=row.approved,
        approved_until=_moment_field(row.approved_until),
        repeatable=row.repeatable,
        verifiable=row.verifiable,
        attempts=row.attempts or None,
    )


def _read_call(value: object, where: str) -> CallRow:
    fields = Fields(value, where)
    state = fields.one("state", _read_state)
    arguments = fields.json_object_or_none("arguments")
    written = fields.text_or_none("written")
    if state is None or (written is None and arguments is None):
        msg = f"{where} lacks its state or its arguments"
        raise FormatError(msg)
    row = CallRow(
        id=fields.text("id"),
        frame=fields.text("frame"),
        tool=fields.text("tool"),
        provider_id=fields.text("provider_id"),
        written=written if written is not None else str(arguments),
        state=state,
        arguments=arguments,
        original=fields.json_object_or_none("original"),
        meaning=fields.text_or_none("meaning"),
        approved=fields.text_or_none("approved"),
        approved_until=fields.moment_or_none("approved_until"),
        repeatable=fields.flag("repeatable"),
        verifiable=fields.flag("verifiable"),
        attempts=fields.number("attempts", 0),
    )
    fields.end()
    return row


def _moment_field(moment: datetime | None) -> int | None:
    return None if moment is None else milliseconds(moment)


def _state_fields(state: State) -> dict[str, object]:
    kind = STATE_NAMES[type(state)]
    match state:
        case Waiting(wait=wait):
            return {"kind": kind, "wait": wait}
        case Unknown(wait=wait, checked=checked):
            return present(kind=kind, wait=wait, checked=checked)
        case Nested(frame=frame):
            return {"kind": kind, "frame": frame}
        case Returned(content=content):
            return {"kind": kind, "content": content}
        case Errored(code=code, content=content) | Refused(code=code, content=content):
            return {"kind": kind, "code": code, "content": content}
        case _:
            return {"kind": kind}


_STATE_READERS: dict[str, Callable[[Fields], tuple[Any, ...]]] = {
    "waiting": lambda fields: (fields.text("wait"),),
    "unknown": lambda fields: (fields.text("wait"), fields.flag("checked")),
    "nested": lambda fields: (fields.text("frame"),),
    "returned": lambda fields: (fields.text("content"),),
    "errored": lambda fields: (fields.text("code"), fields.text("content")),
    "refused": lambda fields: (fields.text("code"), fields.text("content")),
}


def _read_state(value: object, where: str) -> State:
    fields = Fields(value, where)
    kind = fields.chosen("kind", STATE_KINDS)
    read = _STATE_READERS.get(kind)
    state = STATES[kind](*(read(fields) if read else ()))
    fields.end()
    return state
