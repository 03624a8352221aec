"""The tables of a run's rows, and of the deltas between its versions.

The names of stored fields (`birth`, `meaning`, `written`, `doubtful`, `gone`) are part
of the format; the code has clearer names for the same values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.rows import calls, frames
from continuations.core.rows import run as runs
from continuations.core.rows.delta import Delta, LogDelta
from continuations.core.rows.grants import KeptGrant
from continuations.core.trace_context import is_trace_context, is_trace_parent
from continuations.core.usage import USAGE_COUNTS, Usage, text_units, units_text
from continuations.value_class import replace
from continuations.wire import fields
from continuations.wire.fields import Row, Tagged
from continuations.wire.records import QUORUM, WAIT_ROW

if TYPE_CHECKING:
    from collections.abc import Iterable

# Money ------------------------------------------------------------------------

# The longest text of a cost or an amount that is read.
_MAX_COST_CHARS = 60


def _units_of(text: str, where: str) -> int:
    if len(text) <= _MAX_COST_CHARS:
        try:
            units = text_units(text)
        except ValueError:
            pass
        else:
            if text == units_text(units):
                return units
    raise fields.invalid_object(
        where, "it must be a cost with at most 12 decimal places"
    )


def _read_cost(value: object, where: str, name: str) -> int:
    return _units_of(fields.check_type(value, str, where, name), f"{where}.{name}")


def _read_amount(value: object, where: str, name: str) -> object:
    text: str = fields.check_type(value, str, where, name)
    from decimal import Decimal  # noqa: PLC0415 - few runs have such a budget

    if len(text) <= _MAX_COST_CHARS:
        try:
            text_units(text)
        except ValueError:
            pass
        else:
            return Decimal(text)
    raise fields.invalid_object(f"{where}.{name}", "it must be an amount of money")


def _write_usage(usage: Usage) -> list[object]:
    counts: list[object] = [getattr(usage, name) for name in USAGE_COUNTS]
    if usage.currency:
        counts += [usage.priced, units_text(usage.cost_units), usage.currency]
    return counts


def _read_usage(value: object, where: str, name: str) -> Usage:
    values: list[object] = fields.check_type(value, list, where, name)
    where = f"{where}.{name}"
    counts: dict[str, Any] = dict(zip((*USAGE_COUNTS, "priced"), values, strict=False))
    if not all(map(fields.is_count, counts.values())):
        raise fields.invalid_object(where, "it must begin with numbers of at least 0")
    match values[len(USAGE_COUNTS) + 1 :]:
        case []:
            return Usage(**counts)
        case [str() as text, str() as currency] if currency:
            units = _units_of(text, where)
            return Usage(**counts, cost_units=units, currency=currency)
        case _:
            raise fields.invalid_object(
                where, "it must end with a cost and its currency"
            )


USAGE = Row(
    "usage",
    Usage,
    **dict.fromkeys(USAGE_COUNTS, fields.COUNT),
    cost=fields.Field(_read_cost, units_text, missing=0, attribute="cost_units"),
    priced=fields.COUNT,
    currency=fields.TEXT.if_missing(""),
)
BUDGET = Row(
    "budget",
    runs.Budget,
    requests=fields.OPTIONAL_NUMBER,
    tokens=fields.OPTIONAL_NUMBER,
    cost=fields.Field(_read_amount, lambda amount: f"{amount:f}"),
    currency=fields.TEXT.if_missing(""),
)

# Run --------------------------------------------------------------------------


def _read_labels(value: object, where: str, name: str) -> tuple[tuple[str, str], ...]:
    stored: dict[str, Any] = fields.check_type(value, dict, where, name)
    if not all(runs.is_label(*item) for item in stored.items()):
        problem = "it must map names to values of labels"
        raise fields.invalid_object(f"{where}.{name}", problem)
    return tuple(sorted(stored.items()))


def _read_trace(value: object, where: str, name: str) -> tuple[tuple[str, str], ...]:
    stored: dict[str, Any] = fields.check_type(value, dict, where, name)
    if not is_trace_context(stored):
        problem = "it must have the headers of a trace context"
        raise fields.invalid_object(f"{where}.{name}", problem)
    return tuple(sorted(stored.items()))


def _read_trace_parent(value: object, where: str, name: str) -> str:
    text: str = fields.check_type(value, str, where, name)
    if not is_trace_parent(text):
        raise fields.invalid_object(
            f"{where}.{name}", "it must be a traceparent header"
        )
    return text


def _read_signal(value: object, where: str) -> runs.KeptSignal:
    match value:
        case [int() as number, str() as name] if type(number) is int and number > 0:
            return runs.KeptSignal(number, name)
        case _:
            raise fields.invalid_object(where, "it must be a signal's number and name")


CLAIM = Row(
    "claim", runs.Claim, worker=fields.ID, until=fields.AT, attempt=fields.COUNT
)
FAILURE = Row("failure", runs.Failure, code=fields.ID, message=fields.ID)
GRANT = Row(
    "grant",
    KeptGrant,
    id=fields.ID,
    tool=fields.ID,
    path=fields.TEXTS,
    contract=fields.ID,
    arguments=fields.JSON_OBJECT.of("arguments_json"),
    until=fields.TIME,
    by=fields.TEXT,
    at=fields.AT,
    wait=fields.ID.of("wait_id"),
)
RUN = Row(
    "run",
    runs.RunRow,
    id=fields.ID.in_full_copies(),
    birth=fields.ID.of("run_nonce").in_full_copies(),
    agent=fields.ID.in_full_copies(),
    created=fields.AT.of("created_at").in_full_copies(),
    input=fields.ID.of("input_digest").in_full_copies(),
    budget=fields.row_of(lambda: BUDGET).in_full_copies(),
    status=fields.one_of(runs.RUN_STATUSES),
    next=fields.NUMBER.of("next_id"),
    inbox=fields.COUNT.of("last_inbox_number"),
    claim=fields.row_of(lambda: CLAIM),
    usage=fields.row_of(lambda: USAGE).if_missing(Usage()),
    doubtful=fields.FLAG.of("history_lost"),
    output=fields.TEXT,
    failure=fields.row_of(lambda: FAILURE),
    title=fields.TEXT.in_full_copies(),
    labels=fields.Field(_read_labels, dict, missing=(), constant=True),
    requester=fields.TEXT.in_full_copies(),
    last_signal=fields.COUNT.of("last_signal_number"),
    signals=fields.items_of(_read_signal, lambda kept: [kept.number, kept.name]),
    events_taken=fields.EVENT_IDS,
    last_operator=fields.COUNT.of("last_operator_number"),
    grants=fields.rows_of(lambda: GRANT),
    last_revocation=fields.COUNT.of("last_revocation_number"),
    revoked_grants=fields.TEXTS,
    thread=fields.TEXT.of("thread_key").in_full_copies(),
    answered=fields.COUNT,
    sender=fields.TEXT,
    earlier_usage=fields.Field(_read_usage, _write_usage),
    stopping=fields.TEXT,
    reads_next=fields.COUNT,
    max_depth=fields.OPTIONAL_NUMBER.in_full_copies(),
    settings=fields.JSON_OBJECT.of("settings_json").in_full_copies(),
    forked_from=fields.TEXT.in_full_copies(),
    rewind_to=fields.COUNT,
    doubtful_tools=fields.TEXTS,
    requesters=fields.TEXTS,
    trace=fields.Field(_read_trace, dict, missing=(), attribute="trace_context"),
    traced=fields.Field(_read_trace_parent, attribute="session_trace"),
)

# Frames -----------------------------------------------------------------------

# The order is part of the format.
_HISTORY_NUMBERS = (
    "tokens",
    "counted",
    "summary_number",
    "attempt_above",
    "tokens_before",
    "replaced",
)
_TRIP_ID = re.compile(r"g[1-9][0-9]{0,15}\Z")


def _read_count(value: object, where: str) -> frames.ConditionCount:
    match value:
        case [str() as name, int() as turns, int() as at] if fields.is_count(turns):
            return frames.ConditionCount(
                name, turns, fields.read_time(at, where, "since")
            )
        case _:
            problem = "it must be a condition's name, its turns and a time"
            raise fields.invalid_object(where, problem)


def _read_denial(value: object, where: str) -> frames.DenialCount:
    match value:
        case [str() as tool, str() as digest, int() as count] if fields.is_count(count):
            return frames.DenialCount(tool, digest, count)
        case _:
            raise fields.invalid_object(
                where, "it must be a tool, a digest and a number"
            )


def _read_history(value: object, where: str, name: str) -> frames.HistoryRecord:
    numbers: list[Any] = fields.check_type(value, list, where, name)
    if len(numbers) != len(_HISTORY_NUMBERS) or not all(map(fields.is_count, numbers)):
        problem = f"it must have {len(_HISTORY_NUMBERS)} numbers of at least 0"
        raise fields.invalid_object(f"{where}.{name}", problem)
    return frames.HistoryRecord(*numbers)


def _make_trip(**attributes: Any) -> runs.Trip:
    trip = runs.Trip(**attributes)
    if _TRIP_ID.match(trip.id) is None:
        raise fields.Unfit("'id' must be g and a number")
    return trip


def _make_reply(text: str, metadata_json: str | None) -> Message:
    try:
        reply = Message.from_json(text)
    except (MalformedMessage, jsontext.NotJson) as error:
        raise fields.Unfit(f"it is not a chat message, {error}") from None
    if reply.role != "assistant" or reply.tool_call_ids:
        raise fields.Unfit("it must be a reply without calls")
    return reply if metadata_json is None else reply.with_metadata(metadata_json)


TRIP = Row(
    "trip",
    _make_trip,
    id=fields.ID,
    frame=fields.ID.of("frame_id"),
    path=fields.TEXTS,
    name=fields.ID.of("guardrail"),
    stage=fields.one_of(runs.GUARDRAIL_STAGES),
    reason=fields.ID,
)
HELD_REPLY = Row(
    "held reply",
    _make_reply,
    message=fields.ID.of("text"),
    metadata=fields.JSON_OBJECT.of("metadata_json"),
)
FRAME = Row(
    "frame",
    frames.FrameRow,
    id=fields.ID,
    agent=fields.ID,
    call=fields.TEXT.of("parent_call_id"),
    depth=fields.COUNT,
    turns=fields.COUNT,
    max_turns=fields.OPTIONAL_NUMBER,
    open=fields.TEXTS.of("open_call_ids"),
    failed_requests=fields.COUNT,
    woken_until=fields.TIME,
    pending_reply=fields.TEXT,
    polls=fields.COUNT,
    model_error=fields.TEXT,
    watched_since=fields.TIME,
    counts=fields.items_of(
        _read_count, lambda c: [c.name, c.turns, fields.to_milliseconds(c.since)]
    ),
    earlier_turns=fields.COUNT,
    denials=fields.items_of(
        _read_denial, lambda each: [each.tool, each.digest, each.count]
    ),
    retries=fields.COUNT,
    continues=fields.COUNT,
    trips=fields.rows_of(lambda: TRIP),
    history=fields.Field(
        _read_history,
        lambda record: [getattr(record, name) for name in _HISTORY_NUMBERS],
    ),
    accepted_input=fields.TEXT.if_missing(""),
    held_reply=fields.row_of(lambda: HELD_REPLY),
    step=fields.one_of(frozenset({"new", "due", "waits", "ends"})).if_missing(""),
    began_as=fields.TEXT.if_missing(""),
)

# Logs -------------------------------------------------------------------------


def _read_messages(value: object, where: str, name: str) -> list[Message]:
    place = f"{where}.{name}"
    # A message is read when it is first needed, or by `read_messages`.
    return [
        Message.unread(text, place) for text in fields.TEXTS.read(value, where, name)
    ]


def _read_metadata(value: object, where: str) -> tuple[int, str]:
    match value:
        case [int() as position, str() as text] if fields.is_count(position):
            return position, fields.read_json_object(text, where, "facts")
        case _:
            problem = "it must be a position and the text of a JSON object"
            raise fields.invalid_object(where, problem)


def _make_log(
    added: Iterable[Message], metadata: Iterable[tuple[int, str]], **attributes: Any
) -> LogDelta:
    messages = list(added)
    for position, text in metadata:
        if position >= len(messages) or messages[position].metadata_json is not None:
            raise fields.Unfit("its metadata belongs to no message")
        messages[position] = messages[position].with_metadata(text)
    return LogDelta(added=tuple(messages), **attributes)


LOG = Row(
    "log",
    _make_log,
    id=fields.NUMBER,
    keep=fields.COUNT.of("keep_count"),
    add=fields.Field(
        _read_messages,
        lambda messages: [message.text for message in messages],
        missing=(),
        attribute="added",
    ),
    metadata=fields.items_of(_read_metadata, list),
)

# Calls ------------------------------------------------------------------------


def _read_parts(value: object, where: str, name: str) -> str:
    from continuations.core.attachment_parts import InvalidReference, references  # noqa: PLC0415 - few results have attachments

    text = fields.read_json(value, where, name)
    try:
        parts = jsontext.as_array(jsontext.parse(text))
        if parts and references(parts):
            return text
    except InvalidReference:
        pass
    raise fields.invalid_object(f"{where}.{name}", "it must be parts with attachments")


def _make_call(
    written_arguments: str | None, arguments: str | None, **attributes: Any
) -> calls.CallRow:
    raw_arguments = arguments if written_arguments is None else written_arguments
    if raw_arguments is None:
        raise fields.Unfit("the arguments are missing")
    return calls.CallRow(raw_arguments=raw_arguments, arguments=arguments, **attributes)


HANDOFF = Row(
    "handoff",
    calls.Handoff,
    agent=fields.ID,
    instructions=fields.ID,
    keeps_state=fields.FLAG,
    dropped=fields.NUMBERS,
)
_OPEN_WAIT = fields.ID.of("wait_id")
STATE = Tagged(
    "state",
    proposed=Row("proposed", calls.Proposed),
    waiting=Row("waiting", calls.Waiting, wait=_OPEN_WAIT),
    ready=Row("ready", calls.Ready),
    started=Row("started", calls.Started),
    nested=Row("nested", calls.Nested, frame=fields.ID.of("frame_id")),
    unknown=Row(
        "unknown",
        calls.Unknown,
        wait=_OPEN_WAIT,
        checked=fields.FLAG.of("verify_tried"),
    ),
    parked=Row("parked", calls.Parked, wait=_OPEN_WAIT),
    returned=Row(
        "returned",
        calls.Returned,
        content=fields.ID,
        json=fields.FLAG.of("is_json"),
        handoff=fields.row_of(lambda: HANDOFF),
    ),
    errored=Row("errored", calls.Errored, code=fields.ID, content=fields.ID),
    refused=Row("refused", calls.Refused, code=fields.ID, content=fields.ID),
)
CALL = Row(
    "call",
    _make_call,
    id=fields.ID,
    frame=fields.ID.of("frame_id"),
    tool=fields.ID,
    provider_id=fields.ID.of("tool_call_id"),
    written=fields.TEXT.of("written_arguments"),
    state=fields.row_of(lambda: STATE).required(),
    arguments=fields.JSON_OBJECT,
    original=fields.JSON_OBJECT.of("original_arguments"),
    meaning=fields.TEXT.of("contract_digest"),
    approved=fields.TEXT.of("approved_digest"),
    approved_until=fields.TIME,
    repeatable=fields.FLAG,
    verifiable=fields.FLAG,
    attempts=fields.COUNT,
    patch=fields.JSON_OBJECT,
    stage=fields.COUNT,
    answer=fields.JSON,
    memo=fields.JSON,
    secrets=fields.TEXTS,
    quorum=fields.row_of(lambda: QUORUM),
    cancelled=fields.TEXT,
    grant=fields.TEXT,
    form=fields.JSON_OBJECT,
    parts=fields.Field(_read_parts, attribute="parts_json"),
    answer_used_in=fields.TEXT,
    ended=fields.TIME.of("ended_at"),
    tasks=fields.TEXTS,
)

# Deltas -----------------------------------------------------------------------


def _read_states(value: object, where: str, name: str) -> dict[str, str]:
    stored: dict[str, Any] = fields.check_type(value, dict, where, name)
    place = f"{where}.{name}"
    texts = {
        key: fields.read_json_object(text, place, key) for key, text in stored.items()
    }
    return {key: "" if text == "{}" else text for key, text in texts.items()}


def _read_files(value: object, where: str, name: str) -> dict[str, bytes]:
    """Read the attachments of a continuation.

    Raises `FormatError` if bytes do not have their digest, or are too large together.
    """
    from continuations.core.attachment_parts import MAX_RUN_BYTES  # noqa: PLC0415 - few runs have attachments
    from continuations.core.rows.attachments import digest_of  # noqa: PLC0415 - as above

    stored: dict[str, Any] = fields.check_type(value, dict, where, name)
    place = f"{where}.{name}"
    files: dict[str, bytes] = {
        digest: fields.check_type(data, bytes, place, digest)
        for digest, data in stored.items()
    }
    if any(digest_of(data) != digest for digest, data in files.items()):
        raise fields.invalid_object(
            place, "an attachment does not have the digest of its key"
        )
    if sum(map(len, files.values())) > MAX_RUN_BYTES:
        raise fields.invalid_object(
            place, f"it must have at most {MAX_RUN_BYTES} bytes"
        )
    return files


DELTA = Row(
    "delta",
    dict[str, Any],
    # The functions below write and read it: it depends on the base.
    run=fields.Field(
        lambda value, _where, _name: value, missing=fields.REQUIRED, row=lambda: RUN
    ),
    manifest=fields.TEXT,
    frames=fields.rows_of(lambda: FRAME),
    calls=fields.rows_of(lambda: CALL),
    waits=fields.rows_of(lambda: WAIT_ROW),
    logs=fields.rows_by_key_of(lambda: LOG),
    gone=replace(fields.TEXTS, write=sorted, attribute="removed_ids"),
    # The texts of JSON objects, by the ids of frames.
    states=fields.Field(
        _read_states,
        lambda states: {key: text or "{}" for key, text in states.items()},
        missing={},
    ),
    files=fields.Field(_read_files, dict, missing={}),
)


def delta_fields(delta: Delta, *, full_copy: bool = True) -> dict[str, object]:
    """Return the stored fields of a delta.

    Only full copies store the fields of a run that never change.
    """
    stored = DELTA.write(delta)
    stored["run"] = RUN.write(delta.run, full_copy=full_copy)
    return stored


def read_delta(value: object, where: str, base: runs.RunRow | None = None) -> Delta:
    """Return the delta that the stored fields describe; raises `FormatError`.

    `base` is the row of the run in the version that the delta starts from.
    """
    attributes = DELTA.read(value, where)
    run = RUN.read(attributes.pop("run"), f"{where}.run", base)
    return Delta(run=run, **attributes)
