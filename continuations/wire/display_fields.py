"""The stored form of what people read about a call (`CallDisplay`)."""

from __future__ import annotations

from typing import Any

from continuations.core.call_display import CallDisplay
from continuations.core.evidence import Finding
from continuations.core.reading_texts import CURRENCY, UNITS, MoneyReading
from continuations.wire.fields import FieldReader, invalid_object, omit_empty

_REVERSIBLE = {"yes": True, "no": False}


def write(display: CallDisplay) -> dict[str, object]:
    """Return the stored fields of what people read."""
    words = {value: word for word, value in _REVERSIBLE.items()}
    return omit_empty(
        title=display.title,
        template=display.template,
        money=[[path, *money] for path, money in display.money],
        secrets=list(display.secrets),
        reversible=None if display.reversible is None else words[display.reversible],
        evidence=[list(each) for each in display.evidence],
        agent_words=display.agent_words,
        requester=display.requester,
    )


def read(fields: FieldReader, name: str) -> CallDisplay | None:
    """Read what people read, which may be missing; raises `FormatError`."""
    return fields.nested_or_none(name, read_display)


def read_display(value: object, where: str) -> CallDisplay:
    """Return what people read from its stored fields; raises `FormatError`."""
    fields = FieldReader(value, where)
    word = fields.text_or_none("reversible")
    if word is not None and word not in _REVERSIBLE:
        raise invalid_object(where, "'reversible' must be yes or no")
    display = CallDisplay(
        title=fields.text_or_none("title"),
        template=fields.text_or_none("template"),
        money=fields.list_of("money", _read_money),
        secrets=fields.texts("secrets"),
        reversible=None if word is None else _REVERSIBLE[word],
        evidence=fields.list_of("evidence", _read_finding),
        agent_words=fields.text_or_none("agent_words"),
        requester=fields.text_or_none("requester"),
    )
    fields.check_all_read()
    _check_template(display.template, where)
    return display


def _check_template(template: str | None, where: str) -> None:
    if template is None:
        return
    from continuations.core.summaries import TemplateInvalid, parse_template  # noqa: PLC0415 - few waits have one

    try:
        parse_template(template)
    except TemplateInvalid as error:
        raise invalid_object(where, f"'template' is invalid: {error}") from None


def _read_money(value: Any, where: str) -> tuple[str, MoneyReading]:
    match value:
        case [str() as path, str() as currency, int() as units] if (
            type(units) is int
            and units in UNITS
            and (not currency or CURRENCY.fullmatch(currency))
        ):
            return path, MoneyReading(currency, units)
        case _:
            raise invalid_object(where, "it must be a path, a currency and its units")


def _read_finding(value: Any, where: str) -> Finding:
    match value:
        case [str() as source, str() as text, int() as length, bool() as by_agent] if (
            type(length) is int and length >= 0
        ):
            return Finding(source, text, length, by_agent)
        case _:
            raise invalid_object(where, "it must be the result of a call")
