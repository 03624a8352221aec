"""The inputs of a modal for an answer or a form, and what a person submitted.

An input exists for texts, numbers, truth values, choices, dates and lists of choices,
also inside objects. A form with anything else does not fit into Slack. The names of the
fields are those of the pages (`continuations.serve.pages.form_view`), so a submission
is read as the posted form of a page.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from slack_sdk.models.blocks import (
    CheckboxesElement,
    DatePickerElement,
    InputBlock,
    NumberInputElement,
    Option,
    PlainTextInputElement,
    StaticMultiSelectElement,
    StaticSelectElement,
    TimePickerElement,
)

from continuations.interop.slack.message_blocks import DoesNotFit, context, plain
from continuations.serve.pages.form_view import PREFIX, field_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slack_sdk.models.blocks import Block, InputInteractiveElement

    from continuations.serve.pages.decision_view import FormView
    from continuations.serve.pages.form_view import FieldView, OptionView

# The ids of the blocks with the choice and the reason, and of the element of each.
CHOICE, REASON, INPUT = "choice", "reason", "input"
MAX_INPUT_CHARS = 3000
_MAX_LABEL, _MAX_OPTION_TEXT, _MAX_OPTION_VALUE = 2000, 75, 150


class Origin(NamedTuple):
    """The message whose button opened a modal.

    Attributes:
        channel: The id of its channel, or an empty text.
        ts: Its id in the channel, or an empty text.
        headline: The first line of the message.
    """

    channel: str = ""
    ts: str = ""
    headline: str = ""


def form_inputs(
    forms: Sequence[FormView],
) -> tuple[list[Block], list[tuple[str, str]]]:
    """Return the inputs of the forms, and the verdict and name of each field.

    Raises `DoesNotFit` for a field that has no input in Slack.
    """
    blocks: list[Block] = []
    names: list[tuple[str, str]] = []
    for form in forms:
        if form.fields and len(forms) > 1:
            blocks += context(f"Only for the decision: {form.label}")
        for view in _leaves(form.fields):
            if view.kind != "object":
                blocks.append(_input(view, len(names)))
            names.append((form.verdict, view.name))
    return blocks, names


def _leaves(views: Sequence[FieldView]) -> Iterator[FieldView]:
    for view in views:
        yield view
        yield from _leaves(view.parts)


def _input(view: FieldView, number: int) -> Block:
    hints = " ".join(filter(None, (*view.hints, view.error)))
    return InputBlock(
        label=plain(view.label, _MAX_LABEL),
        hint=plain(hints, _MAX_LABEL) if hints else None,
        block_id=_block_id(number),
        # Another decision needs no value, so `read_submission` looks for missing ones.
        optional=True,
        element=_element(view),
    )


def _block_id(number: int) -> str:
    return f"field-{number}"


def _element(view: FieldView) -> InputInteractiveElement:
    start = view.value or None
    if view.kind in ("text", "line"):
        if len(view.value) > MAX_INPUT_CHARS:
            raise DoesNotFit
        return PlainTextInputElement(
            action_id=INPUT,
            multiline=view.kind == "text",
            max_length=MAX_INPUT_CHARS,
            initial_value=start,
        )
    if view.kind == "number":
        is_decimal = view.mode == "decimal"
        return NumberInputElement(
            action_id=INPUT, is_decimal_allowed=is_decimal, initial_value=start
        )
    if view.kind == "date":
        return DatePickerElement(action_id=INPUT, initial_date=start)
    if view.kind == "time":
        return TimePickerElement(action_id=INPUT, initial_time=start)
    return _choice(view)


def _choice(view: FieldView) -> InputInteractiveElement:
    options = [_option(number, each) for number, each in enumerate(view.options)]
    chosen = [
        option
        for option, each in zip(options, view.options, strict=True)
        if each.is_chosen
    ]
    if not options:
        raise DoesNotFit
    if view.kind == "select":
        return StaticSelectElement(
            action_id=INPUT,
            options=options,
            initial_option=chosen[0] if chosen else None,
        )
    if view.kind == "checkbox":
        return CheckboxesElement(
            action_id=INPUT, options=options, initial_options=chosen or None
        )
    if view.kind == "checkboxes":
        return StaticMultiSelectElement(
            action_id=INPUT, options=options, initial_options=chosen or None
        )
    raise DoesNotFit  # a field with JSON


def _option(number: int, option: OptionView) -> Option:
    value = f"{number} {ascii_json(option.value)}"
    if len(value) > _MAX_OPTION_VALUE:
        raise DoesNotFit
    text = plain(option.text or option.value, _MAX_OPTION_TEXT)
    return Option(text=text, value=value)


def ascii_json(text: str) -> str:
    """Return a JSON text without the characters that Slack escapes in payloads."""
    for char in "&<>":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


# Submissions ----------------------------------------------------------------------


class Malformed(Exception):
    """A payload is not one of a modal of this module."""


class Submission(NamedTuple):
    """The submission of a modal.

    Attributes:
        wait_id: The wait.
        origin: The message whose button opened the modal.
        fields: The fields of the decision, as the form of a page posts them.
        errors: Why values are missing, by the ids of their blocks.
    """

    wait_id: str
    origin: Origin
    fields: Mapping[str, str]
    errors: Mapping[str, str]


def read_submission(view: Any) -> Submission:
    """Return what a person submitted; raise `Malformed` for another payload."""
    try:
        shown = json.loads(view["private_metadata"])
        wait_id, digest = _text(shown["wait"]), _text(shown["shown"])
        origin = Origin(*map(_text, shown["origin"]))
        names = [(_text(verdict), _text(name)) for verdict, name in shown["names"]]
        state = view["state"]["values"]
        verdict = _chosen(state, CHOICE)
        entered = [_chosen(state, _block_id(n)) for n in range(len(names))]
        reason = _chosen(state, REASON)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Malformed from error
    fields = {"decision": "".join(verdict[:1]), "shown": digest}
    if reason:
        fields["reason"] = reason[0]
    errors = {} if verdict else {CHOICE: "Choose one of them."}
    for number, (of_verdict, name) in enumerate(names):
        if verdict[:1] != [of_verdict]:
            continue
        if name.startswith(PREFIX):
            fields["as"] = "fields"
        own = _fields(name, entered[number])
        if own is None:
            errors[_block_id(number)] = "This decision needs a value here."
        fields.update(own or {})
    return Submission(wait_id, origin, fields, errors)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _chosen(state: Any, block_id: str) -> list[str]:
    """Return the values of an input; none if it is empty or does not exist."""
    if block_id not in state:
        return []
    entered: Any = state[block_id][INPUT]
    options: Any = entered.get("selected_options") or []
    if entered.get("selected_option"):
        options = [entered["selected_option"]]
    keys = ("value", "selected_date", "selected_time")
    plain_values = [entered[key] for key in keys if entered.get(key)]
    return [_text(value) for value in plain_values] + [
        _text(option["value"]) for option in options
    ]


def _fields(name: str, entered: Sequence[str]) -> dict[str, str] | None:
    """Return the posted fields of one input; `None` if it needs a value."""
    kind, _, pointer = name.removeprefix(PREFIX).partition(":")
    if not name.startswith(PREFIX):
        return {name: entered[0]} if entered else None
    if kind in ("object", "flag", "list"):
        own = {name: ""}
        for number, _, value in (each.partition(" ") for each in entered):
            item = ("item", f"{pointer}/{number}")
            place = ("checked", pointer) if kind == "flag" else item
            own[field_name(*place)] = value
        return own
    if not entered:
        return {name: ""} if kind.endswith("?") else None
    value = entered[0]
    is_option = kind.removesuffix("?") == "json"
    return {name: value.partition(" ")[2] if is_option else value}
