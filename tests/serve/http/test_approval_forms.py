"""The form of an approval over HTTP, on the page of a signed link, and in words."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, Field

from continuations import ApprovalPolicy
from continuations.present.wait_words import form_fields
from continuations.serve.notify import mail
from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import (
    ApiFixture,
    json_body,
    problem_slug,
    waiting_api,
)
from tests.serve.http.test_link_pages import ParsedPage, heading


class Account(Enum):
    """An account."""

    TRAVEL = "travel"
    OFFICE = "office"


class Booking(BaseModel):
    """A form with several types of fields."""

    account: Account
    booked_on: date = Field(description="The day, <b>not</b> the month.")
    limit: int | None = None
    extra: list[dict[str, Any]] = []


POLICY = ApprovalPolicy(form=Booking)
FORM = {"account": "travel", "booked_on": "2026-11-22"}


async def test_body_of_an_approval_has_the_form() -> None:
    fixture, wait = await waiting_api(policy=POLICY)
    shown = json_body(await fixture.request("GET", f"/waits/{wait.id}"))
    assert_matches_schema("wait", shown)
    assert ["account", "booked_on"] == shown["form_schema"]["required"]

    without = await fixture.decide(wait, {"decision": "approve"})
    assert (422, "decision-refused") == (without.status, problem_slug(without))
    assert "account, booked_on" in json_body(without)["detail"]
    decided = await fixture.decide(wait, {"decision": "approve", "form": FORM})

    assert_matches_schema("recorded_decision", json_body(decided))
    assert FORM == json_body(decided)["decision"]["form"]
    await fixture.runner.resume("jane-1")
    assert [500] == fixture.paid_cents


@pytest.mark.parametrize("form", [None, "text", [], 5, True])
async def test_form_that_is_no_object_is_malformed(form: Any) -> None:
    fixture, wait = await waiting_api(policy=POLICY)
    response = await fixture.decide(wait, {"decision": "approve", "form": form})

    assert (400, "malformed") == (response.status, problem_slug(response))
    assert wait == await fixture.runner.wait(wait.id)


async def test_page_of_a_link_shows_the_fields_and_takes_the_form() -> None:
    """The text of a field is escaped. A wrong form decides nothing."""
    fixture, wait = await waiting_api(policy=POLICY)
    link = fixture.links.link(wait, actor="kim")
    opened = await fixture.open_link(link)
    approve, deny, _ = ParsedPage(opened).forms
    assert ["value:json:/account", "value:text:/booked_on"] == [
        name for name in approve if "account" in name or "booked_on" in name
    ]
    assert not any(name.startswith("value:") for name in deny)
    assert "The day, &lt;b&gt;not&lt;/b&gt; the month." in opened.body
    filled = {
        **approve,
        "value:json:/account": '"travel"',
        "value:text:/booked_on": "2026-11-22",
    }

    for name, text in (
        ("value:json:/account", '"home"'),
        ("value:json:/account", "{"),
        ("value:text:/booked_on", "soon"),
        ("form", "{}"),
    ):
        wrong = await fixture.submit_form(link, **{**filled, name: text})
        assert wrong.status in (400, 422)
        assert wait == await fixture.runner.wait(wait.id)
    plain = {"decision": "approve", "shown": wait.digest, "reason": ""}
    assert 422 == (await fixture.submit_form(link, **plain)).status
    done = await fixture.submit_form(link, **filled)
    again = await fixture.submit_form(link, **filled)

    assert "Your decision is recorded" == heading(done) == heading(again)
    assert "2026-11-22" in done.body
    await fixture.runner.resume("jane-1")
    assert [500] == fixture.paid_cents


async def test_page_without_a_form_has_no_field_for_it() -> None:
    fixture = ApiFixture()
    link = fixture.links.link(await fixture.start_waiting_run())

    forms = ParsedPage(await fixture.open_link(link)).forms

    assert not any(name.startswith("value:") for form in forms for name in form)


async def test_fields_in_words_and_in_a_mail() -> None:
    _, wait = await waiting_api(policy=POLICY)

    assert [
        'account: one of "travel", "office", required',
        "booked_on: string (date), required. The day, <b>not</b> the month.",
        "extra: array, optional",
        "limit: integer or null, optional",
    ] == [field.text for field in form_fields(wait)]
    text = mail.body_text(wait, None, with_arguments=True)
    assert 'account: one of "travel", "office", required' in text
