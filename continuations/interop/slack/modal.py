"""The modal that shows a wait, with the inputs of one person.

Nothing is cut: a wait that Slack would refuse has a link to its page instead of inputs.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models import blocks as kit
from slack_sdk.models.views import View

from continuations.interop.slack.posting import (
    DoesNotFit,
    as_json,
    context,
    facts,
    heading,
    headline,
    plain,
    section,
    size,
)
from continuations.serve.pages.decision_view import Decider, FormView, form_view
from continuations.serve.pages.form_view import PREFIX, field_name
from continuations.serve.wait_texts import escape_invisible, plain_text, wait_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from continuations import Wait
    from continuations.serve.pages.form_view import FieldView, OptionView


# The ids of the blocks with the choice and the reason, and of the element of each.
CHOICE, REASON, INPUT = "choice", "reason", "input"
MAX_INPUT_CHARS = 3000
_MAX_INPUT_LABEL, _MAX_OPTION_TEXT, _MAX_OPTION_VALUE = 2000, 75, 150


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
) -> tuple[list[kit.Block], list[tuple[str, str]]]:
    """Return the inputs of the forms, and the verdict and name of each field.

    Raises `DoesNotFit` for a field that has no input in Slack.
    """
    blocks: list[kit.Block] = []
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


def _input(view: FieldView, number: int) -> kit.Block:
    hints = " ".join(filter(None, (*view.hints, view.error)))
    return kit.InputBlock(
        label=plain(view.label, _MAX_INPUT_LABEL),
        hint=plain(hints, _MAX_INPUT_LABEL) if hints else None,
        block_id=_block_id(number),
        # Another decision needs no value, so `read_submission` looks for missing ones.
        optional=True,
        element=_element(view),
    )


def _block_id(number: int) -> str:
    return f"field-{number}"


def _element(view: FieldView) -> kit.InputInteractiveElement:
    start = view.value or None
    if view.kind in ("text", "line"):
        if len(view.value) > MAX_INPUT_CHARS:
            raise DoesNotFit
        return kit.PlainTextInputElement(
            action_id=INPUT,
            multiline=view.kind == "text",
            max_length=MAX_INPUT_CHARS,
            initial_value=start,
        )
    if view.kind == "number":
        is_decimal = view.mode == "decimal"
        return kit.NumberInputElement(
            action_id=INPUT, is_decimal_allowed=is_decimal, initial_value=start
        )
    if view.kind == "date":
        return kit.DatePickerElement(action_id=INPUT, initial_date=start)
    if view.kind == "time":
        return kit.TimePickerElement(action_id=INPUT, initial_time=start)
    return _choice(view)


def _choice(view: FieldView) -> kit.InputInteractiveElement:
    options = [_option(number, each) for number, each in enumerate(view.options)]
    chosen = [
        option
        for option, each in zip(options, view.options, strict=True)
        if each.is_chosen
    ]
    if not options:
        raise DoesNotFit
    if view.kind in ("select", "radios"):
        return kit.StaticSelectElement(
            action_id=INPUT,
            options=options,
            initial_option=chosen[0] if chosen else None,
        )
    if view.kind == "checkbox":
        return kit.CheckboxesElement(
            action_id=INPUT, options=options, initial_options=chosen or None
        )
    if view.kind == "checkboxes":
        return kit.StaticMultiSelectElement(
            action_id=INPUT, options=options, initial_options=chosen or None
        )
    raise DoesNotFit  # a field with JSON


def _option(number: int, option: OptionView) -> kit.Option:
    value = f"{number} {ascii_json(option.value)}"
    if len(value) > _MAX_OPTION_VALUE:
        raise DoesNotFit
    text = plain(option.text or option.value, _MAX_OPTION_TEXT)
    return kit.Option(text=text, value=value)


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


# The ids of the modal and of the button that opens a page.
DECIDE, OPEN_PAGE = "continuations_decide", "continuations_page"
# Not documented: from about 13,200 characters on, the answer is `msg_blocks_too_long`.
_MAX_TOTAL = 13_000
_MAX_LABEL = 75
_TOO_LARGE = (
    "This call does not fit into Slack, and a part of it is not enough to decide. "
)


def text_modal(title: str, *texts: str) -> dict[str, Any]:
    """Return a modal without inputs. A text that does not fit is left out."""
    blocks = [section(title)]
    for text in filter(None, texts):
        with suppress(DoesNotFit):
            blocks.append(section(text))
    return as_json(_modal(blocks))


def _modal(blocks: Sequence[kit.Block], **options: Any) -> View:
    return View(
        type="modal",
        callback_id=DECIDE,
        title=plain("Review"),
        close=plain("Close"),
        blocks=blocks,
        **options,
    )


def review_modal(
    wait: Wait,
    decider: Decider,
    *,
    now: datetime,
    origin: Origin,
    link: Callable[[], str] | None,
    bar: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the modal that shows a wait, with the inputs of one person.

    Args:
        wait: The open wait, with its votes.
        decider: The verdicts that the person may give.
        now: The time.
        origin: The message that the modal belongs to.
        link: Returns the page of the wait, for content that does not fit; or `None`.
        bar: Sentences above the wait, for example an error.
    """
    forms = [
        form_view(wait, verdict, decider, now)
        for verdict in wait.rules.verdicts
        if verdict in decider.verdicts
        and not (verdict == "answer" and wait.rules.follows_policy)
    ]
    closed = [plain_text(each.closed_until) for each in forms if each.closed_until]
    forms = [form for form in forms if not form.closed_until]
    try:
        inputs, names = form_inputs(forms)
        content = [*_content(wait, decider, bar), *map(section, closed)]
        options: dict[str, Any] = {}
        if forms:
            content += [*_choices(forms), *inputs, _reason_input()]
            options["submit"] = plain("Submit")
            options["private_metadata"] = _metadata(wait, origin, names)
        view = as_json(_modal(content, **options))
    except (DoesNotFit, SlackObjectFormationError):
        return _too_large(wait, decider, link)
    if size(json.dumps(view, ensure_ascii=False)) > _MAX_TOTAL:
        return _too_large(wait, decider, link)
    return view


def _too_large(
    wait: Wait, decider: Decider, link: Callable[[], str] | None
) -> dict[str, Any]:
    """Return the modal of a wait that does not fit: a link, and nothing to submit."""
    blocks = [heading(headline(wait, with_title=True))]
    if decider.objection:
        blocks.append(section(decider.objection))
    if link is None:
        blocks.append(section(f"{_TOO_LARGE}Decide it in the console."))
    else:
        blocks.append(section(f"{_TOO_LARGE}Read and decide it on its page."))
        button = kit.ButtonElement(text=plain("Open"), action_id=OPEN_PAGE, url=link())
        blocks.append(kit.ActionsBlock(elements=[button]))
    return as_json(_modal(blocks))


def _metadata(wait: Wait, origin: Origin, names: Sequence[Sequence[str]]) -> str:
    shown = {
        "wait": wait.id,
        "shown": wait.digest,
        "origin": origin,
        "names": names,
    }
    return ascii_json(json.dumps(shown, separators=(",", ":")))


def _content(wait: Wait, decider: Decider, bar: Sequence[str]) -> list[kit.Block]:
    """Return everything that an approver must read, in the order of the pages."""
    view = wait_view(wait, everybody="all who can review this message")
    blocks = [section(text) for text in bar]
    blocks += [heading(view.title), *context(view.lead)]
    blocks += context(view.truth, view.reversal, *facts(wait))
    blocks += context(f"{view.kind.arguments} {view.tool}, {view.count}")
    for argument in view.arguments:
        notes = "; ".join((*argument.readings, *argument.marks))
        is_plain = argument.name and argument.name == argument.name.strip()
        name = argument.name if is_plain else json.dumps(argument.name)
        blocks += context(name, notes, argument.description)
        blocks.append(section(argument.value))
    for fact in view.facts:
        blocks += context(f"Result of {fact.label}")
        blocks.append(section(fact.text or '""'))
    if view.agent_words:
        blocks += context("The agent wrote, not checked:")
        blocks.append(section(view.agent_words))
    blocks += context(view.note, view.rule, view.rule_text, view.votes_missing)
    for vote in view.votes:
        blocks += context(f"{vote.by}: {vote.word}", vote.title, vote.reason)
        blocks += [section(f"{name}:\n{text}") for name, text in vote.values.items()]
    if view.deadline is not None:
        text = f"{view.deadline_label} {view.deadline.text}"
        blocks += context(f"{text}, then: {view.at_deadline}")
    facts_of = {**view.origin, "Path": " > ".join(view.path), **view.details}
    blocks += context(" · ".join(f"{name}: {text}" for name, text in facts_of.items()))
    if decider.own_vote is not None:
        blocks.append(section("Your vote is recorded and cannot be changed."))
    return [*blocks, *map(section, filter(None, [decider.objection]))]


def _choices(forms: Sequence[FormView]) -> Iterator[kit.Block]:
    """Yield what each decision means, and the choice. Nothing is chosen before."""
    options: list[kit.Option] = []
    for form in forms:
        label = form.label if size(escape_invisible(form.label)) <= _MAX_LABEL else ""
        label = label or form.verdict.capitalize()
        yield from context(f"{label}: {form.claim} {form.warning}".strip())
        options.append(kit.Option(text=plain(label, _MAX_LABEL), value=form.verdict))
    yield kit.InputBlock(
        label=plain("Your decision"),
        block_id=CHOICE,
        element=kit.RadioButtonsElement(action_id=INPUT, options=options),
    )


def _reason_input() -> kit.Block:
    return kit.InputBlock(
        label=plain("Reason"),
        hint=plain("The agent reads the reason of a denial."),
        block_id=REASON,
        optional=True,
        element=kit.PlainTextInputElement(
            action_id=INPUT, multiline=True, max_length=MAX_INPUT_CHARS
        ),
    )
