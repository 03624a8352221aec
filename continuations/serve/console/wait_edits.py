"""Change the arguments of a call before it runs: a form, then the call once more.

The person first corrects the arguments. The page then shows the whole call again with
its changes, and only that page has the button that approves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.decisions import Approve
from continuations.core.rows.waits import withheld
from continuations.ledger.edits import find_fixed_problem, find_problem
from continuations.present.wait_view import argument_views
from continuations.serve.console.page import PageRoute
from continuations.serve.console.wait_pages import (
    decider,
    record,
    side_page,
    wait_page,
)
from continuations.serve.http import answer_forms, decision_bodies, problems
from continuations.serve.http.answer_forms import typed_fields, value_errors
from continuations.serve.http.request_response import Response
from continuations.serve.pages.decision_view import form_view, labelled
from continuations.serve.pages.form_view import FormFields, field_errors_of
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.rows.waits import Wait
    from continuations.serve.console.page import Page

_LABEL = "Arguments"


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
    typed = typed_fields(fields)
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
    person = await decider(page, wait)
    if wait.rules.allows_edits and "approve" in person.verdicts:
        return withheld(wait)
    return await wait_page(page, wait, person)


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
    fields = form.fields(_LABEL, value)
    return side_page(
        page,
        "wait_edit.html",
        wait,
        is_refused=bool(errors),
        fields=fields,
        errors=field_errors_of(fields, errors or {}),
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
    person = await decider(page, wait)
    if error:
        person = person.with_errors(fields or {}, {"": error})
    form = form_view(wait, "approve", person, page.clock.now())
    return side_page(
        page,
        "wait_review.html",
        wait,
        is_refused=bool(error),
        back_to="/edit",
        title=title or f"Run {wait.tool} with other arguments",
        arguments=argument_views(edited, before=wait.arguments),
        form=labelled(form, f"Approve: {title or f'run {wait.tool} as changed'}"),
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
    posted = decision_bodies.decision_from_fields(fields, page.identity)
    if not isinstance(posted.verdict, Approve):
        msg = "Only an approval has other arguments. Open the page again."
        raise problems.malformed(msg)
    verdict = replace(posted.verdict, arguments=arguments)
    return await record(page, posted._replace(verdict=verdict), fields)


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
    errors = value_errors(wait.schema, arguments)
    return errors or {"": refused}


def _properties(wait: Wait) -> Mapping[str, Any]:
    return jsontext.as_object(wait.schema.get("properties")) or {}


def _editable_schema(wait: Wait) -> dict[str, Any]:
    """Return the schema of the arguments that the person may change."""
    properties = _properties(wait)
    if wait.editable is not None:
        properties = {k: v for k, v in properties.items() if k in wait.editable}
    required = [n for n in wait.schema.get("required") or () if n in properties]
    return {
        **wait.schema,
        "type": "object",
        "properties": dict(properties),
        "required": required,
    }


ROUTES = (
    PageRoute("/waits/{wait}/edit", show, rights=("decide",)),
    PageRoute("/waits/{wait}/edit", post, ("POST",), ("decide",)),
)
