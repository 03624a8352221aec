"""The pages of signed links: open, decide, repeat, and come too late."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from continuations import ApprovalPolicy, Approve, AsyncRunner, Deny
from continuations.core.rows.decisions import UNNAMED_LINK_HOLDER
from continuations.core.rows.wait_rules import WaitKind
from continuations.ledger.index.waits import create
from continuations.serve.http.api import HttpApi
from continuations.serve.http.request_response import Response
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.runs import make_objects, make_wait
from tests.serve.http.api_fixture import (
    ApiFixture,
    RecordingDispatcher,
    form_request,
    waiting_api,
)


class ParsedPage(HTMLParser):
    """The forms of a page: a dictionary of fields for each."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.scripts = 0
        self._by_id: dict[str | None, dict[str, str]] = {}
        self.feed(response.body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record forms and their fields."""
        attributes = dict(attrs)
        self.scripts += tag == "script" or any(
            name.startswith("on") for name in attributes
        )
        if tag == "form":
            assert "post" == attributes["method"]
            assert "action" not in attributes
            self.forms.append({})
            self._by_id[attributes["id"]] = self.forms[-1]
        elif tag in ("input", "textarea", "select"):
            name, value = attributes["name"], attributes.get("value") or ""
            assert name is not None
            form = self.forms[-1]
            if "form" in attributes:  # the field stands outside of its form
                form = self._by_id[attributes["form"]]
            form[name] = value


def heading(response: Response) -> str:
    """Return the heading of a page."""
    return response.body.partition("<h1>")[2].partition("</h1>")[0]


def bar(response: Response) -> list[str]:
    """Return the sentences of the bar, which says what was just recorded."""
    html = response.body.partition('<div class="notice" role="status">')[2]
    return re.findall("<p>(.*?)</p>", html.partition("</div>")[0])


async def test_opening_a_link_changes_nothing() -> None:
    """Link scanners, previews and prefetches never decide."""
    dispatcher = RecordingDispatcher()
    fixture, wait = await waiting_api(options={"dispatcher": dispatcher})
    link = fixture.links.link(wait)
    before = await fixture.keys()

    for method in ("GET", "HEAD", "OPTIONS", "GET") * 5:
        assert (await fixture.open_link(link, method)).status in (200, 204)
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "get", "PROPFIND"):
        assert 405 == (await fixture.open_link(link, method)).status

    assert before == await fixture.keys()
    assert wait == await fixture.runner.wait(wait.id)
    assert [] == dispatcher.runs


async def test_submitted_form_decides_once_and_wakes_the_run() -> None:
    dispatcher = RecordingDispatcher()
    fixture, wait = await waiting_api(options={"dispatcher": dispatcher})
    link = fixture.links.link(wait, actor="kim@example.com")

    # When a person opens the link and submits the first form
    approve, deny, answer = ParsedPage(await fixture.open_link(link)).forms
    shown = {"reason": "", "shown": wait.digest}
    assert {"decision": "approve", **shown} == approve
    assert {"decision": "deny", **shown} == deny
    assert {"decision": "answer", "value": "", **shown} == answer
    submitted = await fixture.submit_form(link, **approve)

    # Then the decision is recorded under the actor of the link
    assert (200, "Your decision is recorded") == (
        submitted.status,
        heading(submitted),
    )
    assert "kim@example.com" in submitted.body
    assert "The run continues." in submitted.body
    assert ["jane-1"] == dispatcher.runs
    await fixture.runner.resume("jane-1")
    assert [500] == fixture.paid_cents


async def test_decision_needs_three_store_requests() -> None:
    """Read the wait, create a marker and the decision; S3 does not bill the delete."""
    store = FaultyStore(MemoryStore())
    fixture = ApiFixture(store=store)
    for run_id, by_link in (("jane-1", True), ("jane-2", False)):
        wait = await fixture.start_waiting_run(run_id)
        link = fixture.links.link(wait)
        store.operations.clear()

        if by_link:
            assert 200 == (await fixture.submit_form(link, decision="approve")).status
        else:
            body = {"decision": "approve"}
            assert 200 == (await fixture.decide(wait, body)).status

        verbs = [each.verb for each in store.operations]
        assert ["read", "create", "create", "delete"] == verbs


async def test_repeated_form_submission_is_harmless() -> None:
    """The same decision again gets the same page; another one gets the recorded one."""
    fixture, wait = await waiting_api()
    link = fixture.links.link(wait)

    # When it is submitted twice at once, refreshed, and refreshed after the end
    twice = await asyncio.gather(
        fixture.submit_form(link, decision="approve"),
        fixture.submit_form(link, decision="approve"),
    )
    refreshed = await fixture.submit_form(link, decision="approve")
    await fixture.runner.resume("jane-1")
    much_later = await fixture.submit_form(link, decision="approve")

    # Then each response is the same
    assert twice[0] == twice[1] == refreshed == much_later
    assert 200 == refreshed.status
    assert UNNAMED_LINK_HOLDER in refreshed.body

    # When the person goes back and submits the other form
    back = await fixture.open_link(link)
    other = await fixture.submit_form(link, decision="deny", reason="oh no")

    # Then the page has no form and shows the recorded decision
    assert (200, []) == (back.status, ParsedPage(back).forms)
    assert (409, "Already decided") == (other.status, heading(other))
    assert "Approved" in other.body
    assert "oh no" not in other.body
    assert [500] == fixture.paid_cents


async def test_second_decider_sees_the_first_decider() -> None:
    fixture, wait = await waiting_api()
    kim, lee = (fixture.links.link(wait, actor=name) for name in ("kim", "lee"))
    await fixture.submit_form(kim, decision="deny", reason="too much\r\nreally")

    opened = await fixture.open_link(lee)
    submitted = await fixture.submit_form(
        lee, decision="deny", reason="too much\nreally"
    )

    assert (200, 409) == (opened.status, submitted.status)
    assert opened.body == submitted.body
    assert "<dd>kim</dd>" in opened.body
    assert r"too much\nreally" in opened.body


async def test_page_shows_edited_arguments_of_an_earlier_decision() -> None:
    fixture, wait = await waiting_api()
    edited = Approve(by="lee", arguments={"cents": 7, "note": "n"})
    await fixture.runner.decide(wait.id, edited)

    opened = await fixture.open_link(fixture.links.link(wait))

    assert "Edited arguments" in opened.body
    assert "&quot;cents&quot;: 7" in opened.body


async def test_page_of_an_expired_wait_cannot_decide() -> None:
    """An expired wait is shown as expired, not as denied."""
    policy = ApprovalPolicy(expires_after=timedelta(hours=1))
    fixture, wait = await waiting_api(policy=policy)
    link = fixture.links.link(wait)
    assert "Decide by" in (await fixture.open_link(link)).body
    fixture.manual_clock.seconds = 3601

    opened = await fixture.open_link(link)
    submitted = await fixture.submit_form(link, decision="approve")
    await fixture.runner.resume("jane-1")
    after = await fixture.open_link(link)
    late = await fixture.submit_form(link, decision="approve")

    assert [200, 410, 200, 410] == [
        each.status for each in (opened, submitted, after, late)
    ]
    assert {"Expired"} == set(map(heading, (opened, submitted, after, late)))
    assert [] == ParsedPage(opened).forms
    assert [] == fixture.paid_cents


async def test_page_of_a_cancelled_run_says_that_the_wait_is_closed() -> None:
    fixture, wait = await waiting_api()
    await fixture.runner.cancel("jane-1", by="lee")
    link = fixture.links.link(wait)

    opened = await fixture.open_link(link)
    submitted = await fixture.submit_form(link, decision="approve")

    assert [200, 410] == [opened.status, submitted.status]
    assert "Closed" == heading(opened) == heading(submitted)


async def test_reason_longer_than_4000_characters_is_rejected() -> None:
    """The model reads a reason again in every later turn."""
    fixture, wait = await waiting_api()
    link = fixture.links.link(wait)
    long = "x" * 4001

    refused = [
        await fixture.submit_form(link, decision="deny", reason=long),
        await fixture.decide(wait, {"decision": "deny", "reason": long}),
    ]
    accepted = await fixture.submit_form(link, decision="deny", reason=long[:4000])

    assert [400, 400, 200] == [each.status for each in (*refused, accepted)]


async def test_link_allows_only_its_decisions() -> None:
    fixture, wait = await waiting_api()
    link = fixture.links.link(wait, allowed=["deny"])

    opened = await fixture.open_link(link)
    forbidden = await fixture.submit_form(link, decision="approve")
    answered = await fixture.submit_form(link, decision="answer", value="1")

    assert ["deny"] == [each["decision"] for each in ParsedPage(opened).forms]
    assert [403, 403] == [forbidden.status, answered.status]
    assert wait == await fixture.runner.wait(wait.id)
    assert 200 == (await fixture.submit_form(link, decision="deny")).status


@pytest.mark.parametrize("value", ["it was paid", "", "0", "false"])
@pytest.mark.parametrize("kind", ["approval", "unknown"])
async def test_link_can_answer_a_wait(kind: WaitKind, value: str) -> None:
    """An empty value is an answer too."""
    # Given an open wait
    fixture = ApiFixture()
    wait = make_wait(kind=kind)
    fixture.digests[wait.id] = wait.digest
    objects = make_objects()
    await create(objects, [wait])
    runner = AsyncRunner([], store=objects.store, clock=fixture.clock)
    fixture.api = HttpApi(runner, links=fixture.links, clock=fixture.clock)
    link = fixture.links.link(wait)

    opened = ParsedPage(await fixture.open_link(link))
    answered = await fixture.submit_form(link, decision="answer", value=value)
    again = await fixture.submit_form(link, decision="answer", value=value)

    assert list(wait.rules.verdicts) == [form["decision"] for form in opened.forms]
    assert 200 == answered.status
    assert answered == again


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decision",
        "decision=",
        "decision=yes",
        "decision=true",
        "decision=APPROVE",
        "decision=approve&decision=deny",
        "decision=approve&x=1",
        "decision=approve&arguments=%7B%7D",
        "decision=answer",
        "decision=approve;",
        "decision=%61pprove%00",
        "decision=approve&reason=%ff",
        "decision=deny&reason=%ff",
        "decision=deny&reason=é",
        "decision=deny" + "&a=1" * 20,
    ],
)
async def test_invalid_form_decides_nothing(text: str) -> None:
    """The response is a 400, and the wait stays open."""
    fixture, wait = await waiting_api()
    link = fixture.links.link(wait)

    whole = f"{text}&shown={wait.digest}"
    refused = await fixture.api.handle(form_request(link, whole))

    assert 400 == refused.status
    assert wait == await fixture.runner.wait(wait.id)


@pytest.mark.parametrize("shown", ["", "&shown=", "&shown=x", "&shown={}0"])
async def test_form_without_the_digest_of_its_page_decides_nothing(shown: str) -> None:
    """A form proves what its page showed; a link alone proves nothing."""
    fixture, wait = await waiting_api()
    link = fixture.links.link(wait)
    text = "decision=approve" + shown.format(wait.digest)

    refused = await fixture.api.handle(form_request(link, text))

    assert (422 if "x" in shown or "{" in shown else 400) == refused.status
    assert wait == await fixture.runner.wait(wait.id)


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data"])
async def test_form_with_another_content_type_decides_nothing(kind: str) -> None:
    fixture = ApiFixture()
    link = fixture.links.link(await fixture.start_waiting_run())
    request = form_request(link, "decision=approve")

    refused = await fixture.api.handle(
        type(request)(
            method="POST",
            path=request.path,
            headers={"content-type": kind},
            body=request.body,
        )
    )

    assert 415 == refused.status


async def test_one_of_a_hundred_form_submissions_wins() -> None:
    fixture, wait = await waiting_api()
    links = [fixture.links.link(wait, actor=f"p{number}") for number in range(50)]

    responses = await asyncio.gather(
        *(
            fixture.submit_form(link, decision=decision)
            for link in links
            for decision in ("approve", "deny")
        )
    )

    assert 1 == sum(each.status == 200 for each in responses)
    assert 99 == sum(each.status == 409 for each in responses)


async def test_link_token_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A link is a credential, so a log must not contain it."""
    fixture, wait = await waiting_api()
    link = fixture.links.link(wait)
    runner = _FailingRunner([], store=fixture.runner.store)
    fixture.api = HttpApi(runner, links=fixture.links, clock=fixture.clock)

    failed = await fixture.open_link(link)

    assert 500 == failed.status
    assert "/d/{token}" in caplog.text
    assert link.rpartition("/")[2] not in caplog.text
    assert "broken store" not in failed.body


class _FailingRunner(AsyncRunner):
    async def wait(self, wait_id: str) -> Any:
        msg = f"broken store, {wait_id}"
        raise RuntimeError(msg)


async def test_empty_reason_is_recorded_as_none() -> None:
    fixture, wait = await waiting_api()

    await fixture.submit_form(fixture.links.link(wait), decision="deny", reason="")

    recorded = await fixture.runner.decide(wait.id, Deny(by=UNNAMED_LINK_HOLDER))
    assert (UNNAMED_LINK_HOLDER, None) == (recorded.by, recorded.reason)


async def test_denial_with_another_reason_is_another_decision() -> None:
    fixture, wait = await waiting_api()
    await fixture.runner.decide(wait.id, Deny(by=UNNAMED_LINK_HOLDER))

    other = await fixture.submit_form(
        fixture.links.link(wait), decision="deny", reason="no"
    )

    assert 409 == other.status
