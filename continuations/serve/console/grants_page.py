"""Grants: the approvals that live runs remember, and the form that gives one.

Such a form approves a call, and remembers the decision for later calls, with an end.
"""

from __future__ import annotations

from asyncio import gather
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.decisions import Approve
from continuations.core.rows.grants import Grant
from continuations.core.rows.waits import withheld
from continuations.errors import ContinuationsError, DecisionRefused, InvalidInput
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations.present.times import moment_text
from continuations.present.wait_view import value_text
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.wait_pages import (
    decider,
    record,
    side_page,
    wait_page,
)
from continuations.serve.http import decision_bodies, problems
from continuations.serve.pages.decision_view import form_view, labelled
from continuations.serve.pages.form_view import FieldView, OptionView
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.rows.grants import KeptGrant
    from continuations.core.rows.waits import Wait
    from continuations.ledger.index.run_listing import RunSummary
    from continuations.serve.http.request_response import Response

# The grants of a run are in the run: one page shows those of so many live runs. It
# reads more rows if some are hidden.
_RUNS_PER_PAGE, _MAX_READ = 50, 500


async def show(page: Page) -> Response:
    """Show the grants of some live runs."""
    after = page.cursors().open(page.query.get("after", ""))
    runs = await page.read_list(
        page.runner.runs(status="live", after=after),
        limit=_RUNS_PER_PAGE,
        max_read=_MAX_READ,
        cursor_of=lambda each: each.cursor,
    )
    found = await gather(*(_grants(page, each) for each in runs.rows))
    return page.render(
        "grants.html",
        rows=[row for rows in found for row in rows],
        next=page.next_page("/grants", runs.next),
    )


async def _grants(page: Page, run: RunSummary) -> list[dict[str, Any]]:
    try:
        grants = await page.runner.grants(run.run_id)
    except ContinuationsError:
        return []  # erased or damaged meanwhile
    if not grants:
        return []
    may_revoke = await page.may("decide", run.run_id)
    now = page.clock.now()
    return [grant_row(each, run, now, may_revoke=may_revoke) for each in grants]


def grant_row(
    grant: KeptGrant, run: RunSummary, now: datetime, *, may_revoke: bool
) -> dict[str, Any]:
    """Return a grant of a run, and the words that the page shows."""
    at = moment_text(grant.at, now)
    return {
        "grant": grant,
        "run_id": run.run_id,
        "title": run.title or run.thread or run.run_id,
        "given": f"{grant.by}, {at}" if grant.by else at,
        # Without a time, it ends with the run.
        "until": "" if grant.until is None else moment_text(grant.until, now),
        "may_revoke": may_revoke and not grant.revoked,
    }


# Giving a grant ------------------------------------------------------------------

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
    return await _form(page)


async def approve(page: Page) -> Response:
    """Approve the call, and give the grant with the same decision."""
    fields = dict(page.form)
    wait = withheld(await page.runner.wait(page.params["wait"]))
    rules = {k: fields.pop(k) for k in list(fields) if k.startswith(_RULE)}
    end = fields.pop(_UNTIL, "")
    schema = _chosen_schema(wait, rules)
    if end not in _ENDS:
        raise _unknown_choice()
    posted = decision_bodies.decision_from_fields(fields, page.identity)
    if not isinstance(posted.verdict, Approve):
        msg = "Only an approval is remembered. Open the page again."
        raise problems.malformed(msg)
    try:
        grant = Grant(wait.tool, schema, await _until(page, wait, end))
        verdict = replace(posted.verdict, remember=grant)
        return await record(page, posted._replace(verdict=verdict), None)
    except (DecisionRefused, InvalidInput) as error:
        return await _form(page, {**rules, _UNTIL: end}, str(error))


async def _form(
    page: Page, texts: Mapping[str, str] | None = None, error: str = ""
) -> Response:
    wait = withheld(await page.runner.wait(page.params["wait"]))
    person = await decider(page, wait)
    if not wait.rules.follows_policy or "approve" not in person.verdicts:
        return await wait_page(page, wait, person)
    if error:
        person = replace(person, posted="approve", errors={"": error})
    form = labelled(
        form_view(wait, "approve", person, page.clock.now()), "Approve and remember"
    )
    own = (*_rule_fields(wait, texts or {}), _end_field(texts or {}))
    form = replace(form, fields=(*own, *form.fields))
    return side_page(
        page, "wait_remember.html", wait, is_refused=bool(error), form=form
    )


def _choices(wait: Wait, name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the conditions that an argument may have: words and a JSON Schema.

    A condition that lets every value of the tool pass is no choice.
    """
    value = wait.arguments[name]
    if name in {path.partition("/")[0] for path in wait.secrets}:
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
    from continuations.ledger.decisions.grant_checks import is_limit  # noqa: PLC0415 - this page only

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
        for number, name in enumerate(wait.arguments)
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
    PageRoute("/grants", show),
    PageRoute("/waits/{wait}/remember", show_choices, rights=("decide",)),
    PageRoute("/waits/{wait}/remember", approve, ("POST",), ("decide",)),
)
