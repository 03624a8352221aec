"""The tables of a run's rows, and of the deltas between its versions.

The names of stored fields (`birth`, `meaning`, `written`, `doubtful`, `gone`) are part
of the format; the code has clearer names for the same values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import MalformedMessage, Message
from continuations.core.rows.calls import (
    CallRow,
    Errored,
    Handoff,
    Nested,
    Parked,
    Proposed,
    Ready,
    Refused,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.rows.delta import Delta, LogDelta
from continuations.core.rows.frames import (
    ConditionCount,
    DenialCount,
    FrameRow,
    HistoryRecord,
)
from continuations.core.rows.grants import KeptGrant
from continuations.core.rows.run import (
    GUARDRAIL_STAGES,
    RUN_STATUSES,
    Budget,
    Claim,
    Failure,
    KeptSignal,
    RunRow,
    Trip,
    is_label,
)
from continuations.core.trace_context import is_trace_context, is_trace_parent
from continuations.core.usage import USAGE_COUNTS, Usage, text_units, units_text
from continuations.value_class import replace
from continuations.wire.fields import (
    AT,
    COUNT,
    EVENT_IDS,
    FLAG,
    ID,
    JSON,
    JSON_OBJECT,
    NUMBER,
    NUMBERS,
    OPTIONAL_NUMBER,
    REQUIRED,
    TEXT,
    TEXTS,
    TIME,
    Field,
    Unfit,
    check_type,
    invalid_object,
    is_count,
    one_of,
    read_items,
    read_json,
    read_json_object,
    read_time,
    row_of,
    rows_by_key_of,
    rows_of,
    to_milliseconds,
)
from continuations.wire.formats import Row, Tagged
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
    raise invalid_object(where, "it must be a cost with at most 12 decimal places")


def _read_cost(value: object, where: str, name: str) -> int:
    return _units_of(check_type(value, str, where, name), f"{where}.{name}")


def _read_amount(value: object, where: str, name: str) -> object:
    text: str = check_type(value, str, where, name)
    from decimal import Decimal  # noqa: PLC0415 - few runs have such a budget

    if len(text) <= _MAX_COST_CHARS:
        try:
            text_units(text)
        except ValueError:
            pass
        else:
            return Decimal(text)
    raise invalid_object(f"{where}.{name}", "it must be an amount of money")


def _write_usage(usage: Usage) -> list[object]:
    counts: list[object] = [getattr(usage, name) for name in USAGE_COUNTS]
    if usage.currency:
        counts += [usage.priced, units_text(usage.cost_units), usage.currency]
    return counts


def _read_usage(value: object, where: str, name: str) -> Usage:
    values: list[object] = check_type(value, list, where, name)
    where = f"{where}.{name}"
    counts: dict[str, Any] = dict(zip((*USAGE_COUNTS, "priced"), values, strict=False))
    if not all(map(is_count, counts.values())):
        raise invalid_object(where, "it must begin with numbers of at least 0")
    match values[len(USAGE_COUNTS) + 1 :]:
        case []:
            return Usage(**counts)
        case [str() as text, str() as currency] if currency:
            units = _units_of(text, where)
            return Usage(**counts, cost_units=units, currency=currency)
        case _:
            raise invalid_object(where, "it must end with a cost and its currency")


USAGE = Row(
    "usage",
    Usage,
    **dict.fromkeys(USAGE_COUNTS, COUNT),
    cost=Field(_read_cost, units_text, missing=0, attribute="cost_units"),
    priced=COUNT,
    currency=TEXT.if_missing(""),
)
BUDGET = Row(
    "budget",
    Budget,
    requests=OPTIONAL_NUMBER,
    tokens=OPTIONAL_NUMBER,
    cost=Field(_read_amount, lambda amount: f"{amount:f}"),
    currency=TEXT.if_missing(""),
)

# Run --------------------------------------------------------------------------


def _read_labels(value: object, where: str, name: str) -> tuple[tuple[str, str], ...]:
    stored: dict[str, Any] = check_type(value, dict, where, name)
    if not all(is_label(*item) for item in stored.items()):
        problem = "it must map names to values of labels"
        raise invalid_object(f"{where}.{name}", problem)
    return tuple(sorted(stored.items()))


def _read_trace(value: object, where: str, name: str) -> tuple[tuple[str, str], ...]:
    stored: dict[str, Any] = check_type(value, dict, where, name)
    if not is_trace_context(stored):
        problem = "it must have the headers of a trace context"
        raise invalid_object(f"{where}.{name}", problem)
    return tuple(sorted(stored.items()))


def _read_trace_parent(value: object, where: str, name: str) -> str:
    text: str = check_type(value, str, where, name)
    if not is_trace_parent(text):
        raise invalid_object(f"{where}.{name}", "it must be a traceparent header")
    return text


def _read_signal(value: object, where: str) -> KeptSignal:
    match value:
        case [int() as number, str() as name] if type(number) is int and number > 0:
            return KeptSignal(number, name)
        case _:
            raise invalid_object(where, "it must be a signal's number and name")


CLAIM = Row("claim", Claim, worker=ID, until=AT, attempt=COUNT)
FAILURE = Row("failure", Failure, code=ID, message=ID)
GRANT = Row(
    "grant",
    KeptGrant,
    id=ID,
    tool=ID,
    path=TEXTS,
    contract=ID,
    arguments=JSON_OBJECT.of("arguments_json"),
    until=TIME,
    by=TEXT,
    at=AT,
    wait=ID.of("wait_id"),
)
RUN = Row(
    "run",
    RunRow,
    id=ID.in_full_copies(),
    birth=ID.of("run_nonce").in_full_copies(),
    agent=ID.in_full_copies(),
    created=AT.of("created_at").in_full_copies(),
    input=ID.of("input_digest").in_full_copies(),
    budget=row_of(lambda: BUDGET).in_full_copies(),
    status=one_of(RUN_STATUSES),
    next=NUMBER.of("next_id"),
    inbox=COUNT.of("last_inbox_number"),
    claim=row_of(lambda: CLAIM),
    usage=row_of(lambda: USAGE).if_missing(Usage()),
    doubtful=FLAG.of("history_lost"),
    output=TEXT,
    failure=row_of(lambda: FAILURE),
    title=TEXT.in_full_copies(),
    labels=Field(_read_labels, dict, missing=(), constant=True),
    requester=TEXT.in_full_copies(),
    last_signal=COUNT.of("last_signal_number"),
    signals=Field(
        lambda value, where, name: read_items(value, where, name, _read_signal),
        lambda kept: [[signal.number, signal.name] for signal in kept],
        missing=(),
    ),
    events_taken=EVENT_IDS,
    last_operator=COUNT.of("last_operator_number"),
    grants=rows_of(lambda: GRANT),
    last_revocation=COUNT.of("last_revocation_number"),
    revoked_grants=TEXTS,
    thread=TEXT.of("thread_key").in_full_copies(),
    answered=COUNT,
    sender=TEXT,
    earlier_usage=Field(_read_usage, _write_usage),
    stopping=TEXT,
    reads_next=COUNT,
    max_depth=OPTIONAL_NUMBER.in_full_copies(),
    settings=JSON_OBJECT.of("settings_json").in_full_copies(),
    forked_from=TEXT.in_full_copies(),
    rewind_to=COUNT,
    doubtful_tools=TEXTS,
    requesters=TEXTS,
    trace=Field(_read_trace, dict, missing=(), attribute="trace_context"),
    traced=Field(_read_trace_parent, attribute="session_trace"),
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


def _read_count(value: object, where: str) -> ConditionCount:
    match value:
        case [str() as name, int() as turns, int() as at] if is_count(turns):
            return ConditionCount(name, turns, read_time(at, where, "since"))
        case _:
            problem = "it must be a condition's name, its turns and a time"
            raise invalid_object(where, problem)


def _read_denial(value: object, where: str) -> DenialCount:
    match value:
        case [str() as tool, str() as digest, int() as count] if is_count(count):
            return DenialCount(tool, digest, count)
        case _:
            raise invalid_object(where, "it must be a tool, a digest and a number")


def _read_history(value: object, where: str, name: str) -> HistoryRecord:
    numbers: list[Any] = check_type(value, list, where, name)
    if len(numbers) != len(_HISTORY_NUMBERS) or not all(map(is_count, numbers)):
        problem = f"it must have {len(_HISTORY_NUMBERS)} numbers of at least 0"
        raise invalid_object(f"{where}.{name}", problem)
    return HistoryRecord(*numbers)


def _make_trip(**attributes: Any) -> Trip:
    trip = Trip(**attributes)
    if _TRIP_ID.match(trip.id) is None:
        msg = "'id' must be g and a number"
        raise Unfit(msg)
    return trip


def _make_reply(text: str, metadata_json: str | None) -> Message:
    try:
        reply = Message.from_json(text)
    except (MalformedMessage, jsontext.NotJson) as error:
        msg = f"it is not a chat message, {error}"
        raise Unfit(msg) from None
    if reply.role != "assistant" or reply.tool_call_ids:
        msg = "it must be a reply without calls"
        raise Unfit(msg)
    return reply if metadata_json is None else reply.with_metadata(metadata_json)


TRIP = Row(
    "trip",
    _make_trip,
    id=ID,
    frame=ID.of("frame_id"),
    path=TEXTS,
    name=ID.of("guardrail"),
    stage=one_of(GUARDRAIL_STAGES),
    reason=ID,
)
HELD_REPLY = Row(
    "held reply",
    _make_reply,
    message=ID.of("text"),
    metadata=JSON_OBJECT.of("metadata_json"),
)
FRAME = Row(
    "frame",
    FrameRow,
    id=ID,
    agent=ID,
    call=TEXT.of("parent_call_id"),
    depth=COUNT,
    turns=COUNT,
    max_turns=OPTIONAL_NUMBER,
    open=TEXTS.of("open_call_ids"),
    failed_requests=COUNT,
    woken_until=TIME,
    pending_reply=TEXT,
    polls=COUNT,
    model_error=TEXT,
    watched_since=TIME,
    counts=Field(
        lambda value, where, name: read_items(value, where, name, _read_count),
        lambda counts: [[c.name, c.turns, to_milliseconds(c.since)] for c in counts],
        missing=(),
    ),
    earlier_turns=COUNT,
    denials=Field(
        lambda value, where, name: read_items(value, where, name, _read_denial),
        lambda denials: [[each.tool, each.digest, each.count] for each in denials],
        missing=(),
    ),
    retries=COUNT,
    continues=COUNT,
    trips=rows_of(lambda: TRIP),
    history=Field(
        _read_history,
        lambda record: [getattr(record, name) for name in _HISTORY_NUMBERS],
    ),
    accepted_input=TEXT.if_missing(""),
    held_reply=row_of(lambda: HELD_REPLY),
    step=one_of(frozenset({"new", "due", "waits", "ends"})).if_missing(""),
    began_as=TEXT.if_missing(""),
)

# Logs -------------------------------------------------------------------------


def _read_messages(value: object, where: str, name: str) -> list[Message]:
    place = f"{where}.{name}"
    # A message is read when it is first needed, or by `read_messages`.
    return [Message.unread(text, place) for text in TEXTS.read(value, where, name)]


def _read_metadata(value: object, where: str) -> tuple[int, str]:
    match value:
        case [int() as position, str() as text] if is_count(position):
            return position, read_json_object(text, where, "facts")
        case _:
            problem = "it must be a position and the text of a JSON object"
            raise invalid_object(where, problem)


def _make_log(
    added: Iterable[Message], metadata: Iterable[tuple[int, str]], **attributes: Any
) -> LogDelta:
    messages = list(added)
    for position, text in metadata:
        if position >= len(messages) or messages[position].metadata_json is not None:
            msg = "its metadata belongs to no message"
            raise Unfit(msg)
        messages[position] = messages[position].with_metadata(text)
    return LogDelta(added=tuple(messages), **attributes)


LOG = Row(
    "log",
    _make_log,
    id=NUMBER,
    keep=COUNT.of("keep_count"),
    add=Field(
        _read_messages,
        lambda messages: [message.text for message in messages],
        missing=(),
        attribute="added",
    ),
    metadata=Field(
        lambda value, where, name: read_items(value, where, name, _read_metadata),
        lambda pairs: [list(pair) for pair in pairs],
        missing=(),
    ),
)

# Calls ------------------------------------------------------------------------


def _read_parts(value: object, where: str, name: str) -> str:
    from continuations.core.attachment_parts import InvalidReference, references  # noqa: PLC0415 - few results have attachments

    text = read_json(value, where, name)
    try:
        parts = jsontext.as_array(jsontext.parse(text))
        if parts and references(parts):
            return text
    except InvalidReference:
        pass
    raise invalid_object(f"{where}.{name}", "it must be parts with attachments")


def _make_call(
    written_arguments: str | None, arguments: str | None, **attributes: Any
) -> CallRow:
    raw_arguments = arguments if written_arguments is None else written_arguments
    if raw_arguments is None:
        msg = "the arguments are missing"
        raise Unfit(msg)
    return CallRow(raw_arguments=raw_arguments, arguments=arguments, **attributes)


HANDOFF = Row(
    "handoff",
    Handoff,
    agent=ID,
    instructions=ID,
    keeps_state=FLAG,
    dropped=NUMBERS,
)
_OPEN_WAIT = ID.of("wait_id")
STATE = Tagged(
    "state",
    proposed=Row("proposed", Proposed),
    waiting=Row("waiting", Waiting, wait=_OPEN_WAIT),
    ready=Row("ready", Ready),
    started=Row("started", Started),
    nested=Row("nested", Nested, frame=ID.of("frame_id")),
    unknown=Row("unknown", Unknown, wait=_OPEN_WAIT, checked=FLAG.of("verify_tried")),
    parked=Row("parked", Parked, wait=_OPEN_WAIT),
    returned=Row(
        "returned",
        Returned,
        content=ID,
        json=FLAG.of("is_json"),
        handoff=row_of(lambda: HANDOFF),
    ),
    errored=Row("errored", Errored, code=ID, content=ID),
    refused=Row("refused", Refused, code=ID, content=ID),
)
CALL = Row(
    "call",
    _make_call,
    id=ID,
    frame=ID.of("frame_id"),
    tool=ID,
    provider_id=ID.of("tool_call_id"),
    written=TEXT.of("written_arguments"),
    state=row_of(lambda: STATE).required(),
    arguments=JSON_OBJECT,
    original=JSON_OBJECT.of("original_arguments"),
    meaning=TEXT.of("contract_digest"),
    approved=TEXT.of("approved_digest"),
    approved_until=TIME,
    repeatable=FLAG,
    verifiable=FLAG,
    attempts=COUNT,
    patch=JSON_OBJECT,
    stage=COUNT,
    answer=JSON,
    memo=JSON,
    secrets=TEXTS,
    quorum=row_of(lambda: QUORUM),
    cancelled=TEXT,
    grant=TEXT,
    form=JSON_OBJECT,
    parts=Field(_read_parts, attribute="parts_json"),
    answer_used_in=TEXT,
    ended=TIME.of("ended_at"),
    tasks=TEXTS,
)

# Deltas -----------------------------------------------------------------------


def _read_states(value: object, where: str, name: str) -> dict[str, str]:
    stored: dict[str, Any] = check_type(value, dict, where, name)
    place = f"{where}.{name}"
    texts = {key: read_json_object(text, place, key) for key, text in stored.items()}
    return {key: "" if text == "{}" else text for key, text in texts.items()}


def _read_files(value: object, where: str, name: str) -> dict[str, bytes]:
    """Read the attachments of a continuation.

    Raises `FormatError` if bytes do not have their digest, or are too large together.
    """
    from continuations.core.attachment_parts import MAX_RUN_BYTES  # noqa: PLC0415 - few runs have attachments
    from continuations.core.rows.attachments import digest_of  # noqa: PLC0415 - as above

    stored: dict[str, Any] = check_type(value, dict, where, name)
    place = f"{where}.{name}"
    files: dict[str, bytes] = {
        digest: check_type(data, bytes, place, digest)
        for digest, data in stored.items()
    }
    if any(digest_of(data) != digest for digest, data in files.items()):
        raise invalid_object(place, "an attachment does not have the digest of its key")
    if sum(map(len, files.values())) > MAX_RUN_BYTES:
        raise invalid_object(place, f"it must have at most {MAX_RUN_BYTES} bytes")
    return files


DELTA = Row(
    "delta",
    dict[str, Any],
    # The functions below write and read it: it depends on the base.
    run=Field(lambda value, _where, _name: value, missing=REQUIRED, row=lambda: RUN),
    manifest=TEXT,
    frames=rows_of(lambda: FRAME),
    calls=rows_of(lambda: CALL),
    waits=rows_of(lambda: WAIT_ROW),
    logs=rows_by_key_of(lambda: LOG),
    gone=replace(TEXTS, write=sorted, attribute="removed_ids"),
    # The texts of JSON objects, by the ids of frames.
    states=Field(
        _read_states,
        lambda states: {key: text or "{}" for key, text in states.items()},
        missing={},
    ),
    files=Field(_read_files, dict, missing={}),
)


def delta_fields(delta: Delta, *, full_copy: bool = True) -> dict[str, object]:
    """Return the stored fields of a delta.

    Only full copies store the fields of a run that never change.
    """
    fields = DELTA.write(delta)
    fields["run"] = RUN.write(delta.run, full_copy=full_copy)
    return fields


def read_delta(value: object, where: str, base: RunRow | None = None) -> Delta:
    """Return the delta that the stored fields describe; raises `FormatError`.

    `base` is the row of the run in the version that the delta starts from.
    """
    attributes = DELTA.read(value, where)
    run = RUN.read(attributes.pop("run"), f"{where}.run", base)
    return Delta(run=run, **attributes)
