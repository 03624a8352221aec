"""The text of a call for people: its sentence, its amounts, and no secrets.

`Money` and `Secret` stand in the types of a tool's parameters, or in `readings=`.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from continuations.authoring import callables
from continuations.core import jsontext
from continuations.core.words import secret_arguments, summaries
from continuations.core.words.call_display import CallDisplay
from continuations.core.words.secret_arguments import ANY_ITEM, path_of
from continuations.errors import InvalidInput
from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True)
class Money:
    """An argument is an amount of money: `Annotated[int, Money("EUR", 100)]`.

    People read `€12,400.00` beside the value `1240000`. The tool gets the value.

    Attributes:
        currency: The currency, as ISO 4217 code of three capital letters.
        units: How many units of the value are one of the currency: 100 for cents, 1
            for whole amounts. A power of ten, at most 10^9.

    Raises:
        InvalidInput: `currency` or `units` is invalid.
    """

    currency: str
    units: int = 1

    def __post_init__(self) -> None:
        """Check the options when the tool is declared."""
        if type(self.currency) is not str or not summaries.CURRENCY.fullmatch(
            self.currency
        ):
            raise InvalidInput(
                "Money: currency must be a code of three capital letters, got "
                f'{self.currency!r}. Pass for example Money("EUR", 100).'
            )
        if type(self.units) is not int or self.units not in summaries.UNITS:
            raise InvalidInput(
                "Money: units must be a power of ten from 1 to 10^9, got "
                f"{self.units!r}. Pass 100 if the argument counts cents."
            )

    @property
    def reading(self) -> summaries.MoneyReading:
        """The reading that waits store."""
        return summaries.MoneyReading(self.currency, self.units)


@dataclass(frozen=True, slots=True)
class Secret:
    """People must not read an argument: `pin: Annotated[str, Secret()]`.

    Waits, pages, mails, webhooks and the command line have `"[secret]"` in place of the
    value. The tool gets the value, and an approval is bound to it. The versions of the
    run contain the value: in the call, and in the message that the model wrote.
    """


Reading: TypeAlias = Money | Secret


def split_readings(
    readings: Mapping[str, Reading],
) -> tuple[tuple[tuple[str, summaries.MoneyReading], ...], tuple[str, ...]]:
    """Return the amounts with their paths, and the paths of secrets, both sorted."""
    money = [
        (path, each.reading)
        for path, each in sorted(readings.items())
        if isinstance(each, Money)
    ]
    secrets = [
        path for path, each in sorted(readings.items()) if isinstance(each, Secret)
    ]
    return tuple(money), tuple(secrets)


_Steps = tuple[str, ...]


def readings_of(types_by_name: Mapping[str, Any]) -> dict[str, Reading]:
    """Return the readings in types, by their paths; raises `InvalidInput`."""
    found: dict[str, Reading] = {}
    for name, type_ in types_by_name.items():
        for steps, reading in _Search().find(type_, (name,)):
            found[path_of(steps)] = reading
    return found


def without_readings(type_: Any) -> tuple[Any, Reading | None]:
    """Return an annotated type without its reading, and the reading.

    Any other annotation is returned as it is.
    """
    if get_origin(type_) is Annotated:
        inner, *metadata = get_args(type_)
        if len(metadata) == 1 and isinstance(metadata[0], Money | Secret):
            return inner, metadata[0]
    return type_, None


def bare_type(type_: Any) -> Any:
    """Return a type without its annotations."""
    return get_args(type_)[0] if get_origin(type_) is Annotated else type_


def is_secret(type_: Any) -> bool:
    """Return whether a type is annotated with `Secret()`, or contains such a type."""
    found = readings_of({"value": type_})
    return any(isinstance(each, Secret) for each in found.values())


def fields_of(type_: Any) -> dict[str, Any] | None:
    """Return the fields of a model, dataclass or typed dictionary by their JSON names.

    Returns `None` for another type, and if its annotations cannot be read yet.
    """
    try:
        return _fields(type_)
    except Exception:  # noqa: BLE001 - an annotation may raise anything
        return None


def _fields(type_: Any) -> dict[str, Any] | None:
    if not isinstance(type_, type):
        return None
    cls: Any = type_
    model_fields: dict[str, Any] | None = getattr(cls, "model_fields", None)
    if model_fields is not None:
        return {
            info.serialization_alias or info.alias or name: _annotated(info)
            for name, info in model_fields.items()
        }
    if dataclasses.is_dataclass(cls):
        hints = hints_of(cls, include_extras=True)
        return {each.name: hints[each.name] for each in dataclasses.fields(cls)}
    if hasattr(cls, "__required_keys__"):  # a typed dictionary
        return hints_of(cls, include_extras=True)
    return None


def _annotated(info: Any) -> Any:
    """Return the annotation of a pydantic field, with its metadata."""
    if not info.metadata:
        return info.annotation
    return Annotated[(info.annotation, *info.metadata)]


class _Search:
    """One walk through a type; it ends at a class that contains itself."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._recursive: set[Any] = set()

    def find(self, type_: Any, steps: _Steps) -> Iterator[tuple[_Steps, Reading]]:
        """Yield the readings of a type with the steps that lead to them."""
        type_ = getattr(type_, "__value__", type_)  # an alias made with `type`
        type_ = getattr(type_, "__supertype__", type_)  # a NewType
        origin = get_origin(type_)
        if origin is Annotated:
            inner, *metadata = get_args(type_)
            found = list(self._of_metadata(metadata, steps))
            yield from found
            if not any(isinstance(each, Secret) for _, each in found):
                yield from self.find(inner, steps)
        elif origin in {Union, types.UnionType}:
            for option in get_args(type_):
                yield from self.find(option, steps)
        elif origin is not None:
            yield from self._of_generic(type_, origin, steps)
        else:
            yield from self._of_class(type_, steps)

    def _of_metadata(
        self, metadata: list[Any], steps: _Steps
    ) -> Iterator[tuple[_Steps, Reading]]:
        for each in metadata:
            if isinstance(each, Money | Secret):
                yield steps, each
            elif each is Secret or each is Money:
                name = each.__name__
                raise InvalidInput(
                    f"the parameter {steps[0]} is annotated with the class {name}. "
                    f"Write {name}{'()' if each is Secret else '(...)'}."
                )

    def _of_generic(
        self, type_: Any, origin: Any, steps: _Steps
    ) -> Iterator[tuple[_Steps, Reading]]:
        if not isinstance(origin, type):
            # Required[...], Literal[...] and the like
            for inner in get_args(type_):
                yield from self.find(inner, steps)
        elif issubclass(origin, Mapping):
            yield from self.find(get_args(type_)[-1], (*steps, ANY_ITEM))
        elif issubclass(origin, Iterable):
            for inner in get_args(type_):
                yield from self.find(inner, (*steps, ANY_ITEM))
        else:
            yield from self._of_class(origin, steps)

    def _of_class(self, type_: Any, steps: _Steps) -> Iterator[tuple[_Steps, Reading]]:
        if type_ in self._open:
            self._recursive.add(type_)
            return
        fields = fields_of(type_) if isinstance(type_, type) else None
        if fields is None:
            return
        self._open.append(type_)
        found = [
            each
            for name, inner in fields.items()
            for each in self.find(inner, (*steps, name))
        ]
        self._open.pop()
        if found and type_ in self._recursive:
            # The places in a type that contains itself have no end.
            raise InvalidInput(
                f"the parameter {steps[0]} has readings in {type_.__name__}, which "
                "contains itself. Annotate the whole parameter with Secret()."
            )
        yield from found


# A template, or a function of the arguments by name that returns the title.
Summary: TypeAlias = "str | Callable[..., str]"

_log = logging.getLogger("continuations")
_NUMBERS: tuple[Any, ...] = (int, float, Decimal)
# The types that a format cannot read, of those that are certain.
_UNREADABLE: Mapping[str, tuple[Any, ...]] = {
    "money": (bool, str),
    "date": (bool, *_NUMBERS),
    "count": (bool, str, *_NUMBERS),
}


@dataclass(frozen=True, slots=True)
class DeclaredDisplay:
    """The declarations of a tool about how people read its calls.

    Attributes:
        tool: Name of the tool, for errors.
        summary: The template or function of the title, or `None`.
        reversible: Whether the effect can be undone; `None`: not declared.
        money: How amounts are read.
        secrets: Paths of the arguments that people must not read.
    """

    tool: str
    summary: Summary | None
    reversible: bool | None
    money: tuple[tuple[str, summaries.MoneyReading], ...]
    secrets: tuple[str, ...]

    def of_call(
        self, arguments_json: str, values: Callable[[], Mapping[str, Any]]
    ) -> CallDisplay:
        """Return what people read about a call.

        Args:
            arguments_json: The effective arguments.
            values: Returns them as Python values by name.

        Returns:
            The display. It has no title if the function of the summary fails.
        """
        template = self.summary if isinstance(self.summary, str) else None
        title = None
        if template is not None:
            arguments = jsontext.parse(arguments_json)
            shown = secret_arguments.masked(arguments, self.secrets)
            title = summaries.render_template(template, shown, dict(self.money))
        elif self.summary is not None:
            title = self._title_by_function(arguments_json, values)
        return CallDisplay(
            title=title,
            template=template,
            money=self.money,
            secrets=self.secrets,
            reversible=self.reversible,
        )

    def _title_by_function(
        self, arguments_json: str, values: Callable[[], Mapping[str, Any]]
    ) -> str | None:
        assert callable(self.summary)  # noqa: S101 - a template is not called
        try:
            chosen = callables.accepted_arguments(self.summary, values())
            title: object = self.summary(**chosen)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see the next line
            # The call waits also without a title. A traceback may contain arguments.
            name = type(error).__name__
            _log.warning("tool %s: summary raised %s; no title", self.tool, name)
            return None
        if type(title) is not str or not title.strip():
            _log.warning("tool %s: summary returned no text; no title", self.tool)
            return None
        text = secret_arguments.scrubbed(title, arguments_json, self.secrets)
        return summaries.title_text(text)


def check_summary(
    tool: str,
    summary: object,
    names: Sequence[str] | None,
    type_of: Callable[[str], Any],
) -> None:
    """Raise `InvalidInput` for a summary that cannot be made from the arguments.

    Args:
        tool: Name of the tool.
        summary: The option.
        names: Names of the arguments; `None` if they are not readable.
        type_of: Returns the type of an argument; it may raise anything.
    """
    label = f"tool {tool}: summary"
    if callable(summary):
        if inspect.iscoroutinefunction(summary):
            msg = f"{label} must be a plain function, got an async one. Write def."
            raise InvalidInput(msg)
        callables.check_callback_parameters(summary, names, label)
        return
    if not isinstance(summary, str):
        got = type(summary).__name__
        msg = f"{label} must be a template or a function, got {got}."
        raise InvalidInput(f'{msg} Write for example "Send {{cents}} to {{to}}".')
    try:
        fields = [each for each in summaries.parse_template(summary) if each.path]
    except summaries.TemplateInvalid as error:
        msg = f"{label} is not a template: {error}. Write text with {{argument}}."
        raise InvalidInput(msg) from None
    for each in fields:
        if names is not None and each.path[0] not in names:
            raise _unknown_name_error(label, each, each.path[0], names)
        _check_types(label, each, type_of)


def _check_types(
    label: str, field: summaries.Field, type_of: Callable[[str], Any]
) -> None:
    """Check a field of a template with the types, as far as they can be read now."""
    try:
        type_ = type_of(field.path[0])
    except Exception:  # noqa: BLE001 - the annotation may name what is defined later
        return
    place = ".".join(field.path)
    for step in field.path[1:]:
        if without_readings(type_)[1] == Secret():
            break
        known = fields_of(bare_type(type_))
        if known is None:
            return
        if step not in known:
            raise _unknown_name_error(label, field, step, tuple(known))
        type_ = known[step]
    if is_secret(type_):
        msg = f"{label} shows {place}, which is Secret. Leave it out of the summary."
        raise InvalidInput(msg)
    plain = bare_type(type_)
    if plain in _UNREADABLE.get(field.format, ()):
        raise InvalidInput(
            f"{label}: the format {field.format!r} cannot read {place}, which is "
            f"{plain.__name__}. Leave the format out, or use another one."
        )


def _unknown_name_error(
    label: str, field: summaries.Field, step: str, known: Sequence[str]
) -> InvalidInput:
    place = ".".join(field.path)
    msg = (
        f"{label} has {{{place}}}, and there is no argument {step!r} "
        f"(there are: {', '.join(known) or 'none'}). Correct the name."
    )
    return InvalidInput(msg)
