"""A person's way with a link: to look, to click twice, to go back, to come too late."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from continuations import ApprovalPolicy, Approve, AsyncRunner, Deny
from continuations.ledger.waits import create
from continuations.serve.http.api import HttpApi
from continuations.serve.http.link_pages import UNNAMED_LINK_HOLDER
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.runs import make_objects, make_wait
from tests.serve.http.api_fixture import ApiFixture, RecordingDispatcher, form_request

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from continuations.serve.http.request_response import Response


def run_async(story: Coroutine[Any, Any, None]) -> None:
    """Run a story to its end."""
    asyncio.run(story)


class ParsedPage(HTMLParser):
    """What a page asks: one dictionary of fields for each of its forms."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.scripts = 0
        self.feed(response.body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note forms and their fields."""
        given = dict(attrs)
        self.scripts += tag == "script" or any(name.startswith("on") for name in given)
        if tag == "form":
            assert "post" == given["method"]
            assert "action" not in given
            self.forms.append({})
        elif tag in ("input", "textarea"):
            name, value = given["name"], given.get("value") or ""
            assert name is not None
            self.forms[-1][name] = value


def heading(response: Response) -> str:
    """Return what a page is about."""
    return response.body.partition("<h1>")[2].partition("</h1>")[0]


def test_opening_a_link_changes_nothing() -> None:
    """R-G1: scanners, previews and prefetches never decide."""

    async def story() -> None:
        wakes = RecordingDispatcher()
        office = ApiFixture(options={"dispatcher": wakes})
        wait = await office.start_waiting_run()
        link = office.links.link(wait)
        before = await office.keys()

        for method in ("GET", "HEAD", "OPTIONS", "GET") * 5:
            assert (await office.open_link(link, method)).status in (200, 204)
        for method in ("PUT", "DELETE", "PATCH", "TRACE", "get", "PROPFIND"):
            assert 405 == (await office.open_link(link, method)).status

        assert before == await office.keys()
        assert wait == await office.runner.wait(wait.id)
        assert [] == wakes.runs

    run_async(story())


def test_submitted_form_decides_once_and_wakes_the_run() -> None:
    async def story() -> None:
        wakes = RecordingDispatcher()
        office = ApiFixture(options={"dispatcher": wakes})
        wait = await office.start_waiting_run()
        link = office.links.link(wait, actor="kim@example.com")

        # Given somebody who opens the link and presses what the page offers
        approve, deny = ParsedPage(await office.open_link(link)).forms
        assert ({"decision": "approve"}, {"decision": "deny", "reason": ""}) == (
            approve,
            deny,
        )
        clicked = await office.submit_form(link, **approve)

        # Then it is recorded under the name that the link was made for
        assert (200, "Your decision is recorded") == (clicked.status, heading(clicked))
        assert "kim@example.com" in clicked.body
        assert "The run goes on." in clicked.body
        assert ["jane-1"] == wakes.runs
        await office.runner.resume("jane-1")
        assert [500] == office.bank.paid

    run_async(story())


def test_decision_needs_three_store_requests() -> None:
    """R-G2: the wait, a marker, the decision; by a link not one more."""

    async def story() -> None:
        store = FaultyStore(MemoryStore())
        office = ApiFixture(store=store)
        for run_id, by_link in (("jane-1", True), ("jane-2", False)):
            wait = await office.start_waiting_run(run_id)
            link = office.links.link(wait)
            store.operations.clear()

            if by_link:
                assert (
                    200 == (await office.submit_form(link, decision="approve")).status
                )
            else:
                said = {"decision": "approve"}
                assert 200 == (await office.decide(wait, said)).status

            verbs = [each.verb for each in store.operations]
            assert ["read", "create", "create", "delete"] == verbs

    run_async(story())


def test_repeated_form_submission_is_harmless() -> None:
    """R-G3: the same again is the same answer; the other answer is told what stands."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        link = office.links.link(wait)

        # When it is clicked twice at once, refreshed, and refreshed after the end
        twice = await asyncio.gather(
            office.submit_form(link, decision="approve"),
            office.submit_form(link, decision="approve"),
        )
        refreshed = await office.submit_form(link, decision="approve")
        await office.runner.resume("jane-1")
        much_later = await office.submit_form(link, decision="approve")

        # Then each says the same
        assert twice[0] == twice[1] == refreshed == much_later
        assert 200 == refreshed.status
        assert UNNAMED_LINK_HOLDER in refreshed.body

        # When they go back and press the other button
        back = await office.open_link(link)
        other = await office.submit_form(link, decision="deny", reason="oh no")

        # Then the page asks nothing any more, and says what stands
        assert (200, []) == (back.status, ParsedPage(back).forms)
        assert (409, "Already decided") == (other.status, heading(other))
        assert "Approved" in other.body
        assert "oh no" not in other.body
        assert [500] == office.bank.paid

    run_async(story())


def test_second_decider_sees_the_first_decider() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        kim, lee = (office.links.link(wait, actor=name) for name in ("kim", "lee"))
        await office.submit_form(kim, decision="deny", reason="too much\r\nreally")

        looked = await office.open_link(lee)
        clicked = await office.submit_form(
            lee, decision="deny", reason="too much\nreally"
        )

        assert (200, 409) == (looked.status, clicked.status)
        assert looked.body == clicked.body
        assert "<dd>kim</dd>" in looked.body
        assert r"too much\nreally" in looked.body

    run_async(story())


def test_page_shows_edited_arguments_of_an_earlier_decision() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        edited = Approve(by="lee", arguments={"cents": 7, "note": "n"})
        await office.runner.decide(wait.id, edited)

        looked = await office.open_link(office.links.link(wait))

        assert "With these arguments" in looked.body
        assert "&quot;cents&quot;: 7" in looked.body

    run_async(story())


def test_page_of_an_expired_wait_cannot_decide() -> None:
    """R-F4: expiry is not a denial."""

    async def story() -> None:
        policy = ApprovalPolicy(expires_after=timedelta(hours=1))
        office = ApiFixture(policy=policy)
        wait = await office.start_waiting_run()
        link = office.links.link(wait)
        assert "Decide until" in (await office.open_link(link)).body
        office.manual_clock.seconds = 3601

        looked = await office.open_link(link)
        clicked = await office.submit_form(link, decision="approve")
        await office.runner.resume("jane-1")
        after = await office.open_link(link)
        late = await office.submit_form(link, decision="approve")

        assert [200, 410, 200, 410] == [
            each.status for each in (looked, clicked, after, late)
        ]
        assert {"Expired"} == set(map(heading, (looked, clicked, after, late)))
        assert [] == ParsedPage(looked).forms
        assert [] == office.bank.paid

    run_async(story())


def test_page_of_a_cancelled_run_says_cancelled() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        await office.runner.cancel("jane-1", by="lee")
        link = office.links.link(wait)

        looked = await office.open_link(link)
        clicked = await office.submit_form(link, decision="approve")

        assert [200, 410] == [looked.status, clicked.status]
        assert "Cancelled" == heading(looked) == heading(clicked)

    run_async(story())


def test_reason_longer_than_4000_characters_is_rejected() -> None:
    """Every word of a reason is sent with each later turn, and cannot be taken back."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        link = office.links.link(wait)
        long = "x" * 4001

        refused = [
            await office.submit_form(link, decision="deny", reason=long),
            await office.decide(wait, {"decision": "deny", "reason": long}),
        ]
        taken = await office.submit_form(link, decision="deny", reason=long[:4000])

        assert [400, 400, 200] == [each.status for each in (*refused, taken)]

    run_async(story())


def test_link_allows_only_its_decisions() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        link = office.links.link(wait, allowed=["deny"])

        looked = await office.open_link(link)
        forbidden = await office.submit_form(link, decision="approve")
        answered = await office.submit_form(link, decision="answer", value="1")

        assert ["deny"] == [each["decision"] for each in ParsedPage(looked).forms]
        assert [403, 403] == [forbidden.status, answered.status]
        assert wait == await office.runner.wait(wait.id)
        assert 200 == (await office.submit_form(link, decision="deny")).status

    run_async(story())


@pytest.mark.parametrize("value", ["it was paid", "", "0", "false"])
def test_link_can_answer_an_unknown_outcome(value: str) -> None:
    """R-C5: values that are merely falsy are answers."""

    async def story() -> None:
        # Given a call of which nobody knows whether it happened
        office = ApiFixture()
        wait = make_wait(kind="unknown")
        place = make_objects()
        await create(place, [wait])
        runner = AsyncRunner([], store=place.store, clock=office.clock)
        office.api = HttpApi(runner, links=office.links, clock=office.clock)
        link = office.links.link(wait)

        looked = ParsedPage(await office.open_link(link))
        answered = await office.submit_form(link, decision="answer", value=value)
        again = await office.submit_form(link, decision="answer", value=value)

        assert ["approve", "deny", "answer"] == [it["decision"] for it in looked.forms]
        assert 200 == answered.status
        assert answered == again

    run_async(story())


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
def test_invalid_form_decides_nothing(text: str) -> None:
    """R-C5: only a well-typed approve is one; R-G4: anything else is a 4xx."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        link = office.links.link(wait)

        refused = await office.api.handle(form_request(link, text))

        assert 400 == refused.status
        assert wait == await office.runner.wait(wait.id)

    run_async(story())


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data"])
def test_form_with_another_content_type_decides_nothing(kind: str) -> None:
    async def story() -> None:
        office = ApiFixture()
        link = office.links.link(await office.start_waiting_run())
        asked = form_request(link, "decision=approve")

        refused = await office.api.handle(
            type(asked)(
                method="POST",
                path=asked.path,
                headers={"content-type": kind},
                body=asked.body,
            )
        )

        assert 415 == refused.status

    run_async(story())


def test_one_of_a_hundred_form_submissions_wins() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        people = [office.links.link(wait, actor=f"p{number}") for number in range(50)]

        clicks = await asyncio.gather(
            *(
                office.submit_form(link, decision=answer)
                for link in people
                for answer in ("approve", "deny")
            )
        )

        assert 1 == sum(each.status == 200 for each in clicks)
        assert 99 == sum(each.status == 409 for each in clicks)

    run_async(story())


def test_link_token_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A link is a key; a log is read by many."""

    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        link = office.links.link(wait)
        runner = _FailingRunner([], store=office.runner.store)
        office.api = HttpApi(runner, links=office.links, clock=office.clock)

        failed = await office.open_link(link)

        assert 500 == failed.status
        assert "/d/{token}" in caplog.text
        assert link.rpartition("/")[2] not in caplog.text
        assert "at the desk" not in failed.body

    run_async(story())


class _FailingRunner(AsyncRunner):
    async def wait(self, wait_id: str) -> Any:
        msg = f"broken at the desk, {wait_id}"
        raise RuntimeError(msg)


def test_empty_reason_is_recorded_as_none() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()

        await office.submit_form(office.links.link(wait), decision="deny", reason="")

        stands = await office.runner.decide(wait.id, Deny(by=UNNAMED_LINK_HOLDER))
        assert (UNNAMED_LINK_HOLDER, None) == (stands.by, stands.reason)

    run_async(story())


def test_denial_with_another_reason_is_another_decision() -> None:
    async def story() -> None:
        office = ApiFixture()
        wait = await office.start_waiting_run()
        await office.runner.decide(wait.id, Deny(by=UNNAMED_LINK_HOLDER))

        other = await office.submit_form(
            office.links.link(wait), decision="deny", reason="no"
        )

        assert 409 == other.status

    run_async(story())
