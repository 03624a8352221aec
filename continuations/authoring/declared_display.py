"""The declarations of a tool about how people read its calls."""

from __future__ import annotations

import inspect
import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.authoring import callables
from continuations.authoring.readings import Secret
from continuations.core import jsontext, secret_arguments
from continuations.core.call_display import CallDisplay
from continuations.core.summaries import (
    TemplateInvalid,
    parse_template,
    render_template,
    title_text,
)
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from continuations.core.reading_texts import MoneyReading
    from continuations.core.summaries import Field

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
    money: tuple[tuple[str, MoneyReading], ...]
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
            title = render_template(template, shown, dict(self.money))
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
        return title_text(text)


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
        fields = [each for each in parse_template(summary) if each.path]
    except TemplateInvalid as error:
        msg = f"{label} is not a template: {error}. Write text with {{argument}}."
        raise InvalidInput(msg) from None
    for each in fields:
        if names is not None and each.path[0] not in names:
            raise _unknown_name_error(label, each, each.path[0], names)
        _check_types(label, each, type_of)


def _check_types(label: str, field: Field, type_of: Callable[[str], Any]) -> None:
    """Check a field of a template with the types, as far as they can be read now."""
    from continuations.authoring import reading_types  # noqa: PLC0415 - only for summaries

    try:
        type_ = type_of(field.path[0])
    except Exception:  # noqa: BLE001 - the annotation may name what is defined later
        return
    place = ".".join(field.path)
    for step in field.path[1:]:
        if reading_types.without_readings(type_)[1] == Secret():
            break
        known = reading_types.fields_of(reading_types.bare_type(type_))
        if known is None:
            return
        if step not in known:
            raise _unknown_name_error(label, field, step, tuple(known))
        type_ = known[step]
    if reading_types.is_secret(type_):
        msg = f"{label} shows {place}, which is Secret. Leave it out of the summary."
        raise InvalidInput(msg)
    plain = reading_types.bare_type(type_)
    if plain in _UNREADABLE.get(field.format, ()):
        msg = (
            f"{label}: the format {field.format!r} cannot read {place}, which is "
            f"{plain.__name__}. Leave the format out, or use another one."
        )
        raise InvalidInput(msg)


def _unknown_name_error(
    label: str, field: Field, step: str, known: Sequence[str]
) -> InvalidInput:
    place = ".".join(field.path)
    msg = (
        f"{label} has {{{place}}}, and there is no argument {step!r} "
        f"(there are: {', '.join(known) or 'none'}). Correct the name."
    )
    return InvalidInput(msg)
