"""Stored objects of one value: how they are encoded, and the tables of two of them.

A process that decides needs waits and decisions. The other objects are in `arrivals`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from continuations.core import jsontext
from continuations.core.rows.decisions import DECISION_KINDS, Decision, parse_action
from continuations.core.rows.quorum import Quorum
from continuations.core.rows.wait_rules import WAIT_KINDS, WAIT_RULES
from continuations.core.rows.waits import Wait
from continuations.errors import Corrupt
from continuations.wire import fields
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.fields import OBJECTS, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.words.call_display import CallDisplay, Finding
    from continuations.core.words.summaries import MoneyReading

T = TypeVar("T")

# Objects ----------------------------------------------------------------------

# The header of an object of a run, and of an object of no run.
OF_RUN: Row[dict[str, Any]] = Row("header", dict[str, Any], run=fields.ID)
OF_NO_RUN: Row[dict[str, Any]] = Row("header", dict[str, Any])


def open_object(data: bytes, name: str, kind: str, header: Row[T]) -> tuple[T, object]:
    """Return the header of an object of this kind, and its body as it is stored.

    Raises `FormatError` or `Corrupt`.
    """
    opened = decode_object(data, name)
    where = f"the header of {name}"
    check_kind(opened.header, kind, where)
    return header.read(opened.header, where), opened.body


def check_kind(header: dict[str, Any], kind: str, where: str) -> None:
    """Remove the kind from a header; raises `FormatError` if it is another one."""
    if "kind" not in header:
        raise fields.invalid_object(where, "'kind' is missing")
    fields.one_of(frozenset({kind})).read(header.pop("kind"), where, "kind")


class Record(Generic[T]):
    """The objects of one kind, each of which has one value as its body.

    Args:
        row: The table of the value; its kind is that of the objects.
        header: The table of the header.
    """

    def __init__(self, row: Row[T], header: Row[dict[str, Any]] = OF_RUN) -> None:
        self.row, self.header = row, header
        OBJECTS[row.kind] = header, row

    def encode(self, value: T, run_id: str = "") -> bytes:
        """Return the bytes of an object; events belong to no run."""
        header = {"run": run_id} if self.header is OF_RUN else {}
        return encode_object({"kind": self.row.kind, **header}, self.row.write(value))

    def decode(self, data: bytes, name: str, run_id: str = "") -> T:
        """Decode an object of the run `run_id`; raises `FormatError` or `Corrupt`."""
        header, body = open_object(data, name, self.row.kind, self.header)
        check_run(header.get("run", run_id), name, run_id)
        return self.row.read(body, name)


class SplitRecord(Generic[T]):
    """The objects of one kind that have a part of their value in the header.

    Args:
        kind: The kind.
        make: Returns the value from the attributes of both parts, as in a `Row`.
        header: The table of the attributes that operators can read.
        body: The table of the other attributes.
    """

    def __init__(
        self,
        kind: str,
        make: Callable[..., T],
        header: Row[dict[str, Any]],
        body: Row[dict[str, Any]],
    ) -> None:
        self.kind, self.make, self.header, self.body = kind, make, header, body
        OBJECTS[kind] = header, body

    def encode(self, value: T) -> bytes:
        """Return the bytes of an object; raises `FormatError` if it is too large."""
        header: dict[str, object] = {"kind": self.kind}
        header |= self.header.write(value)
        return encode_object(header, self.body.write(value))

    def decode(self, data: bytes, name: str) -> T:
        """Decode an object; raises `FormatError` or `Corrupt`."""
        header, body = open_object(data, name, self.kind, self.header)
        try:
            return self.make(**header, **self.body.read(body, name))
        except fields.Unfit as error:
            raise fields.invalid_object(name, str(error)) from None


def check_run(stored_run_id: str, name: str, run_id: str) -> None:
    """Raise `Corrupt` if an object belongs to another run than `run_id`."""
    if stored_run_id != run_id:
        msg = (
            f"{name} belongs to run {stored_run_id[:128]}, not to run {run_id}. It was "
            "not changed. Restore the right object from a backup."
        )
        raise Corrupt(msg, run_id=run_id)


# Waits ------------------------------------------------------------------------

_REVERSIBLE = {True: "yes", False: "no"}


def _read_deadline_action(value: object, where: str, name: str) -> str:
    text = fields.read_json_object(value, where, name)
    try:
        parse_action(text)
    except jsontext.NotJson as error:
        raise fields.invalid_object(f"{where}.{name}", str(error)) from None
    return text


def _make_quorum(**attributes: Any) -> Quorum:
    quorum = Quorum(**attributes)
    if quorum.votes < 1:
        raise fields.Unfit("it must need a vote")
    return quorum


QUORUM = Row(
    "quorum",
    _make_quorum,
    approvers=fields.TEXTS,
    votes=fields.NUMBER,
    not_requester=fields.FLAG,
    requester=fields.TEXT,
    requesters=fields.TEXTS,
)


def _read_reversible(value: object, where: str, name: str) -> bool:
    for flag, word in _REVERSIBLE.items():
        if value == word:
            return flag
    raise fields.invalid_object(where, f"{name!r} must be yes or no")


def _read_money(value: Any, where: str) -> tuple[str, MoneyReading]:
    from continuations.core.words.summaries import CURRENCY, UNITS, MoneyReading  # noqa: PLC0415 - few waits have money

    match value:
        case [str() as path, str() as currency, int() as units] if (
            type(units) is int
            and units in UNITS
            and (not currency or CURRENCY.fullmatch(currency))
        ):
            return path, MoneyReading(currency, units)
        case _:
            raise fields.invalid_object(
                where, "it must be a path, a currency and its units"
            )


def _read_finding(value: Any, where: str) -> Finding:
    from continuations.core.words.call_display import Finding  # noqa: PLC0415 - few waits have evidence

    match value:
        case [str() as source, str() as text, int() as length, bool() as by_agent] if (
            type(length) is int and length >= 0
        ):
            return Finding(source, text, length, by_agent)
        case _:
            raise fields.invalid_object(where, "it must be the result of a call")


def _read_template(value: object, where: str, name: str) -> str:
    from continuations.core.words.summaries import TemplateInvalid, parse_template  # noqa: PLC0415 - few waits have one

    text: str = fields.TEXT.read(value, where, name)
    try:
        parse_template(text)
    except TemplateInvalid as error:
        raise fields.invalid_object(where, f"{name!r} is invalid: {error}") from None
    return text


@lru_cache
def display_row() -> Row[CallDisplay]:
    """Return the table of what people read about a call."""
    from continuations.core.words.call_display import CallDisplay  # noqa: PLC0415 - few waits have one

    return Row(
        "display",
        CallDisplay,
        title=fields.TEXT,
        template=fields.Field(_read_template),
        money=fields.items_of(_read_money, lambda each: [each[0], *each[1]]),
        secrets=fields.TEXTS,
        reversible=fields.Field(_read_reversible, _REVERSIBLE.__getitem__),
        evidence=fields.items_of(_read_finding, list),
        agent_words=fields.TEXT,
        requester=fields.TEXT,
    )


def _make_wait(**attributes: Any) -> Wait:
    wait = Wait(**attributes)
    of_call = "call" in WAIT_RULES[wait.kind].subjects
    if of_call and not wait.call_id:
        raise fields.Unfit("'call' is missing")
    if wait.subject not in wait.rules.subjects or (of_call and wait.frame_id):
        raise fields.Unfit(f"a wait of kind {wait.kind} has another subject")
    return wait


# A wait has the same fields in its object and in a version.
WAIT_ROW = Row(
    "wait",
    _make_wait,
    id=fields.ID,
    run=fields.ID.of("run_id"),
    call=fields.TEXT.of("call_id").if_missing(""),
    kind=fields.one_of(WAIT_KINDS),
    path=fields.TEXTS,
    tool=fields.ID,
    arguments=fields.JSON_OBJECT.of("arguments_json").required(),
    schema=fields.JSON_OBJECT.of("schema_json").required(),
    digest=fields.ID,
    created=fields.AT.of("created_at"),
    deadline=fields.TIME,
    valid_for=fields.OPTIONAL_NUMBER,
    policy=fields.TEXT,
    denial_stops=fields.FLAG,
    expiry_stops=fields.FLAG,
    note=fields.TEXT,
    approve_after=fields.TIME,
    question=fields.TEXT,
    answer_schema=fields.JSON_OBJECT.of("answer_schema_json"),
    event=fields.TEXT,
    event_key=fields.TEXT,
    stage=fields.COUNT,
    on_deadline=fields.Field(_read_deadline_action, attribute="on_deadline_json"),
    continues=fields.FLAG,
    editable=fields.NAMES.of("editable_json"),
    cancels=fields.FLAG,
    events_taken=fields.EVENT_IDS,
    frame=fields.TEXT.of("frame_id").if_missing(""),
    display=fields.row_of(display_row),
    quorum=fields.row_of(lambda: QUORUM),
    remind_after=fields.COUNT,
    form_schema=fields.JSON_OBJECT.of("form_schema_json"),
)


class _WaitRecord(Record[Wait]):
    """Waits: the body names the run too."""

    def encode(self, value: Wait, run_id: str = "") -> bytes:
        return super().encode(value, run_id or value.run_id)

    def decode(self, data: bytes, name: str, run_id: str = "") -> Wait:
        wait = super().decode(data, name, run_id)
        check_run(wait.run_id, name, run_id)
        return wait


WAIT = _WaitRecord(WAIT_ROW)

# Decisions --------------------------------------------------------------------


def _read_grant(value: object, where: str, name: str) -> str:
    from continuations.core.rows.grants import parse_grant_text  # noqa: PLC0415 - rarely given

    text = fields.read_json_object(value, where, name)
    try:
        parse_grant_text(text)
    except jsontext.NotJson as error:
        raise fields.invalid_object(f"{where}.{name}", str(error)) from None
    return text


DECISION = Record(
    Row(
        "decision",
        Decision,
        id=fields.ID,
        wait=fields.ID.of("wait_id"),
        kind=fields.one_of(DECISION_KINDS),
        at=fields.AT,
        digest=fields.ID,
        by=fields.TEXT,
        reason=fields.TEXT,
        arguments=fields.JSON_OBJECT,
        value=fields.JSON,
        marker=fields.TEXT,
        signal=fields.COUNT,
        groups=fields.TEXTS,
        shown=fields.TEXT,
        event=fields.EVENT_ID,
        voters=fields.TEXTS,
        door=fields.TEXT,
        authentication=fields.TEXT,
        rule=fields.TEXT,
        grant=fields.Field(_read_grant, attribute="grant_json"),
        form=fields.JSON_OBJECT,
    )
)
