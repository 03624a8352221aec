"""Approve a call with more than the form of its page can say.

**Other arguments**: the person first corrects the arguments. The page then shows the
whole call again with its changes, and only that page has the button that approves.

**A grant**: the form approves the call, and remembers the decision for later calls,
with an end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.decisions import Approve
from continuations.core.rows.grants import Grant
from continuations.core.rows.waits import Wait, withheld
from continuations.errors import DecisionRefused, InvalidInput
from continuations.ledger.edits import find_fixed_problem, find_problem
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations.present.wait_view import argument_views, value_text
from continuations.present.wait_words import secret_names
from continuations.serve.console import wait_pages
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import answer_forms, decision_bodies, problems
from continuations.serve.http.request_response import Response
from continuations.serve.pages.decision_view import (
    approval_label,
    form_view,
    labelled,
)
from continuations.serve.pages.form_view import (
    FieldView,
    FormFields,
    OptionView,
    RefusedForm,
)
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.decision_bodies import PostedDecision

_LABEL = "Arguments"
# A browser cannot draw a longer field in time, and a form of it may not be posted.
MAX_FIELD_CHARS = 20_000


async def show(page: Page) -> Response:
    """Show the form with the arguments of a call."""
    wait = await _editable_wait(page)
    if isinstance(wait, Response):
        return wait
    return await _form(page, wait)


async def post(page: Page) -> Response:
    """Show the changed call, or approve it if the form comes from that page."""
    wait = await _editable_wait(page)
    if isinstance(wait, Response):
        return wait
    fields = dict(page.form)
    if fields.get("shown") != wait.digest:
        return await _form(
            page, wait, {"": "The call changed: here it is as it is now."}
        )
    text = fields.pop("arguments", None)
    if text is not None:
        return await _approve(page, wait, fields, text)
    typed = answer_forms.typed_fields(fields)
    read = answer_forms.read_fields(typed)
    arguments = _merged(wait, read.value)
    errors = dict(read.errors) or _problems(wait, arguments)
    if errors:
        return await _form(page, wait, errors, typed)
    return await _review(page, wait, arguments)


async def _editable_wait(page: Page) -> Wait | Response:
    """Return the wait, if the person may approve it with other arguments.

    Otherwise return its page, which says why the person may not change it.
    """
    wait = await page.runner.wait(page.params["wait"])
    person = await wait_pages.decider(page, wait)
    if wait.rules.allows_edits and "approve" in person.verdicts:
        return withheld(wait)
    return await wait_pages.wait_page(page, wait, person)


async def _form(
    page: Page,
    wait: Wait,
    errors: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Response:
    schema = _editable_schema(wait)
    names = schema["properties"]
    value = {k: v for k, v in wait.arguments.items() if k in names}
    form = FormFields(
        schema=schema, texts=texts or {}, errors=errors or {}, max_chars=0
    )
    fields = form.fields(_LABEL, value) if names else ()
    return wait_pages.side_page(
        page,
        "wait_edit.html",
        wait,
        is_refused=bool(errors),
        fields=fields,
        refused=RefusedForm.of(fields, errors or {}) if errors else None,
        kept=_too_long(wait),
    )


async def _review(
    page: Page,
    wait: Wait,
    arguments: Mapping[str, Any],
    fields: Mapping[str, str] | None = None,
    error: str = "",
) -> Response:
    """Return the changed call, whole, with the button that approves it."""
    text = jsontext.dump(arguments)
    edited = replace(wait, arguments_json=jsontext.canonical(arguments))
    title = wait.display and wait.display.title_of(arguments)
    person = await wait_pages.decider(page, wait)
    if error:
        person = person.with_errors(fields or {}, {"": error})
    form = form_view(wait, "approve", person, page.clock.now())
    return wait_pages.side_page(
        page,
        "wait_review.html",
        wait,
        is_refused=bool(error),
        back_to="/edit",
        has_address=False,
        title=title or f"Run {wait.tool} with other arguments",
        arguments=argument_views(edited, before=wait.arguments, now=page.clock.now()),
        form=labelled(form, approval_label(edited, "as changed")),
        hidden={"arguments": text},
    )


async def _approve(
    page: Page, wait: Wait, fields: Mapping[str, str], text: str
) -> Response:
    try:
        arguments = jsontext.as_object(jsontext.parse(text, lossless=True))
    except jsontext.NotJson:
        arguments = None
    if arguments is None:
        msg = 'The field "arguments" must be a JSON object. Open the page again.'
        raise problems.malformed(msg)
    refused = find_problem(wait, arguments) or find_fixed_problem(wait, arguments)
    if refused:
        return await _review(page, wait, arguments, fields, refused)
    posted = _approval(page, fields, "Only an approval has other arguments.")
    return await wait_pages.record(page, _extended(posted, arguments=arguments), fields)


def _approval(page: Page, fields: Mapping[str, str], refusal: str) -> PostedDecision:
    """Return the approval in a form; refuse another decision."""
    posted = decision_bodies.decision_from_fields(fields, page.identity)
    if not isinstance(posted.verdict, Approve):
        raise problems.malformed(f"{refusal} Open the page again.")
    return posted


def _extended(posted: PostedDecision, **more: Any) -> PostedDecision:
    return posted._replace(verdict=replace(posted.verdict, **more))


def _merged(wait: Wait, edited: object) -> dict[str, Any]:
    """Return the arguments of the call with those that the form has."""
    in_form = _editable_schema(wait)["properties"]
    kept = {k: v for k, v in wait.arguments.items() if k not in in_form}
    return {**kept, **(jsontext.as_object(edited) or {})}


def _problems(wait: Wait, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return why arguments are refused, by their pointers."""
    refused = find_problem(wait, arguments) or find_fixed_problem(wait, arguments)
    if refused is None:
        return {}
    errors = answer_forms.value_errors(wait.schema, arguments)
    return errors or {"": refused}


def _properties(wait: Wait) -> Mapping[str, Any]:
    return jsontext.as_object(wait.schema.get("properties")) or {}


def _too_long(wait: Wait) -> dict[str, int]:
    """Return the lengths of the arguments that are too long for a field, by names."""
    texts = {
        name: value if isinstance(value, str) else jsontext.dump(value)
        for name, value in wait.arguments.items()
    }
    return {k: len(text) for k, text in texts.items() if len(text) > MAX_FIELD_CHARS}


def _editable_schema(wait: Wait) -> dict[str, Any]:
    """Return the schema of the arguments that the person may change."""
    kept = _too_long(wait)
    properties = {k: v for k, v in _properties(wait).items() if k not in kept}
    if wait.editable is not None:
        properties = {k: v for k, v in properties.items() if k in wait.editable}
    required = [n for n in wait.schema.get("required") or () if n in properties]
    return {
        **wait.schema,
        "type": "object",
        "properties": dict(properties),
        "required": required,
    }


# Approve and remember ------------------------------------------------------------

_RULE, _UNTIL = "rule:", "until"
_ENDS: Mapping[str, tuple[str, timedelta | None]] = {
    "hour": ("in one hour", timedelta(hours=1)),
    "day": ("in one day", timedelta(days=1)),
    "week": ("in one week", timedelta(days=7)),
    "run": ("with the run", None),
}
_MAX_SHOWN_CHARS = 80


async def show_choices(page: Page) -> Response:
    """Show the whole call, and the choices for later calls."""
    return await _choices_form(page)


async def approve(page: Page) -> Response:
    """Approve the call, and give the grant with the same decision."""
    fields = dict(page.form)
    wait = withheld(await page.runner.wait(page.params["wait"]))
    rules = {k: fields.pop(k) for k in list(fields) if k.startswith(_RULE)}
    end = fields.pop(_UNTIL, "")
    schema = _chosen_schema(wait, rules)
    if end not in _ENDS:
        raise _unknown_choice()
    posted = _approval(page, fields, "Only an approval is remembered.")
    try:
        grant = Grant(wait.tool, schema, await _until(page, wait, end))
        return await wait_pages.record(page, _extended(posted, remember=grant), None)
    except (DecisionRefused, InvalidInput) as error:
        return await _choices_form(page, {**rules, _UNTIL: end}, str(error))


async def _choices_form(
    page: Page, texts: Mapping[str, str] | None = None, error: str = ""
) -> Response:
    wait = withheld(await page.runner.wait(page.params["wait"]))
    person = await wait_pages.decider(page, wait)
    if not wait.rules.follows_policy or "approve" not in person.verdicts:
        return await wait_pages.wait_page(page, wait, person)
    if error:
        person = replace(person, posted="approve", errors={"": error})
    form = labelled(
        form_view(wait, "approve", person, page.clock.now()), "Approve and remember"
    )
    own = (*_rule_fields(wait, texts or {}), _end_field(texts or {}))
    form = replace(form, fields=(*own, *form.fields))
    return wait_pages.side_page(
        page, "wait_remember.html", wait, is_refused=bool(error), form=form
    )


def _choices(wait: Wait, name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the conditions that an argument may have: words and a JSON Schema.

    A condition that lets every value of the tool pass is no choice.
    """
    value = wait.arguments[name]
    if name in secret_names(wait):
        return {"any": ("any value: it is secret", {})}
    shown = wait.readings.get(name) or value_text(jsontext.dump(value))
    if len(shown) > _MAX_SHOWN_CHARS:
        shown = "the value above"
    choices = {"same": (f"only {shown}", {"const": value})}
    if type(value) in (int, float):
        # Without the type, a text is neither too large nor too small.
        number = {"type": "number"}
        choices["most"] = (f"at most {shown}", {**number, "maximum": value})
        choices["least"] = (f"at least {shown}", {**number, "minimum": value})
    from continuations.ledger.decisions.run_grants import is_limit  # noqa: PLC0415 - this page only

    limits = {
        key: choice
        for key, choice in choices.items()
        if is_limit(wait, name, choice[1])
    }
    return {**limits, "any": ("any value", {})}


def _unknown_choice() -> problems.RequestRefused:
    return problems.malformed(
        "The form has a choice that no page offers. Open the page again."
    )


def _chosen_schema(wait: Wait, rules: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the JSON Schema of the arguments that a grant covers, `None` for all.

    Raises `RequestRefused` for a choice that no page offers.
    """
    properties: dict[str, Any] = {}
    for name in wait.arguments:
        chosen = _choices(wait, name).get(rules.get(_RULE + name, ""))
        if chosen is None:
            raise _unknown_choice()
        if chosen[1]:
            properties[name] = chosen[1]
    if not properties:
        return None
    return {"properties": properties, "required": list(properties)}


def _rule_fields(wait: Wait, texts: Mapping[str, str]) -> tuple[FieldView, ...]:
    return tuple(
        _select(
            number,
            _RULE + name,
            f"{name} of a later call",
            {key: words for key, (words, _) in _choices(wait, name).items()},
            texts,
        )
        for number, name in enumerate(each.name for each in argument_views(wait))
    )


def _end_field(texts: Mapping[str, str]) -> FieldView:
    choices = {key: words for key, (words, _) in _ENDS.items()}
    return _select(-1, _UNTIL, "It ends", choices, texts)


def _select(
    number: int,
    name: str,
    label: str,
    choices: Mapping[str, str],
    texts: Mapping[str, str],
) -> FieldView:
    chosen = texts.get(name, next(iter(choices)))
    return FieldView(
        kind="select",
        id=f"remember-{number + 1}",
        name=name,
        label=label,
        is_required=True,
        options=tuple(
            OptionView(value=key, text=words, is_chosen=key == chosen)
            for key, words in choices.items()
        ),
    )


async def _until(page: Page, wait: Wait, end: str) -> datetime | None:
    """Return when a grant ends, by the store's time: workers compare it with that."""
    length = _ENDS[end][1]
    if length is None:
        return None
    clock = StoreClock(page.clock)
    await clock.learn(Objects(page.runner.store), wait.run_id, token_hex(16))
    return clock.now() + length


ROUTES = (
    PageRoute("/waits/{wait}/edit", show, rights=("decide",)),
    PageRoute("/waits/{wait}/edit", post, ("POST",), ("decide",)),
    PageRoute("/waits/{wait}/remember", show_choices, rights=("decide",)),
    PageRoute("/waits/{wait}/remember", approve, ("POST",), ("decide",)),
)
