"""How the fields of runs and frames that later formats introduced are stored.

A process that only decides loads none of them; see `field_codecs`.
"""

from __future__ import annotations

from typing import Any, cast

from continuations.core.frames import ConditionCount, DenialCount, HistoryRecord
from continuations.core.run import WHEN_BUSY, KeptSignal, is_label
from continuations.core.usage import USAGE_COUNTS, Usage, text_units, units_text
from continuations.wire.field_codecs import Codec, is_count
from continuations.wire.fields import FieldReader, invalid_object, to_milliseconds

# The order is part of the format.
_HISTORY_NUMBERS = (
    "tokens",
    "counted",
    "summary_number",
    "attempt_above",
    "tokens_before",
    "replaced",
)
# The longest text of a cost or an amount that is read.
_MAX_COST_CHARS = 60


def _read_labels(fields: FieldReader, name: str) -> tuple[tuple[str, str], ...]:
    stored = fields.mapping(name)
    if not all(is_label(*item) for item in stored.items()):
        where = f"{fields.where}.{name}"
        raise invalid_object(where, "it must map names to values of labels")
    return tuple(sorted(cast("dict[str, str]", stored).items()))


def _read_signals(fields: FieldReader, name: str) -> tuple[KeptSignal, ...]:
    return tuple(fields.list_of(name, _read_signal))


def _read_count(value: object, where: str) -> ConditionCount:
    match value:
        case [str() as name, int() as turns, int() as at] if is_count(turns):
            since = FieldReader({"since": at}, where).timestamp("since")
            return ConditionCount(name, turns, since)
        case _:
            why = "it must be a condition's name, its turns and a time"
            raise invalid_object(where, why)


def _read_history(fields: FieldReader, name: str) -> HistoryRecord | None:
    numbers: tuple[Any, ...] = fields.list_of(name, lambda value, _: value)
    if not numbers:
        return None
    if len(numbers) != len(_HISTORY_NUMBERS) or not all(map(is_count, numbers)):
        why = f"it must have {len(_HISTORY_NUMBERS)} numbers of at least 0"
        raise invalid_object(f"{fields.where}.{name}", why)
    return HistoryRecord(*numbers)


def _read_denial(value: object, where: str) -> DenialCount:
    match value:
        case [str() as tool, str() as digest, int() as count] if is_count(count):
            return DenialCount(tool, digest, count)
        case _:
            raise invalid_object(where, "it must be a tool, a digest and a number")


def _read_signal(value: object, where: str) -> KeptSignal:
    match value:
        case [int() as number, str() as name] if type(number) is int and number > 0:
            return KeptSignal(number, name)
        case _:
            raise invalid_object(where, "it must be a signal's number and name")


def _write_usage(usage: Usage) -> object:
    counts: list[object] = [getattr(usage, name) for name in USAGE_COUNTS]
    if usage.currency:
        counts += [usage.priced, units_text(usage.cost_units), usage.currency]
    return counts


def _read_usage(fields: FieldReader, name: str) -> Usage:
    where = f"{fields.where}.{name}"
    values = fields.list_of(name, lambda value, _: value)
    counts: dict[str, Any] = dict(zip((*USAGE_COUNTS, "priced"), values, strict=False))
    if not all(map(is_count, counts.values())):
        raise invalid_object(where, "it must begin with numbers of at least 0")
    cost = values[len(USAGE_COUNTS) + 1 :]
    match cost:
        case []:
            return Usage(**counts)
        case [str() as text, str() as currency] if currency:
            units = _units_of(text, where)
            return Usage(**counts, cost_units=units, currency=currency)
        case _:
            raise invalid_object(where, "it must end with a cost and its currency")


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


def _read_cost(fields: FieldReader, name: str) -> int:
    text = fields.text_or_none(name)
    return 0 if text is None else _units_of(text, f"{fields.where}.{name}")


def _read_amount(fields: FieldReader, name: str) -> object:
    text = fields.text_or_none(name)
    if text is None:
        return None
    where = f"{fields.where}.{name}"
    from decimal import Decimal  # noqa: PLC0415 - few runs have such a budget

    if len(text) <= _MAX_COST_CHARS:
        try:
            text_units(text)
        except ValueError:
            pass
        else:
            return Decimal(text)
    raise invalid_object(where, "it must be an amount of money")


SIGNALS = Codec(
    lambda kept: [[signal.number, signal.name] for signal in kept], _read_signals
)
CONDITION_COUNTS = Codec(
    lambda counts: [[c.name, c.turns, to_milliseconds(c.since)] for c in counts],
    lambda fields, name: tuple(fields.list_of(name, _read_count)),
)
HISTORY = Codec(
    lambda record: [getattr(record, name) for name in _HISTORY_NUMBERS], _read_history
)
DENIAL_COUNTS = Codec(
    lambda denials: [[each.tool, each.digest, each.count] for each in denials],
    lambda fields, name: tuple(fields.list_of(name, _read_denial)),
)
LABELS = Codec(dict, _read_labels)
COST = Codec(units_text, _read_cost)
AMOUNT = Codec(lambda amount: f"{amount:f}", _read_amount)
# The effect of a message on a busy thread; a missing text is empty: the message waits.
WHEN_BUSY_TEXT = Codec(
    lambda text: text, lambda fields, name: fields.one_of(name, WHEN_BUSY - {"queue"})
)
USAGE = Codec(_write_usage, _read_usage)
