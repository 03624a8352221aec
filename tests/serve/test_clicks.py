"""A person's way with a link: to look, to click twice, to go back, to come too late."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from continuations import ApprovalPolicy, Approve, AsyncRunner, Deny
from continuations.ledger.waits import announce
from continuations.serve.clicks import ANYBODY
from continuations.serve.desk import Desk
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.runs import a_wait, objects
from tests.serve.office import Office, Wakes, form

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from continuations.serve.http import Response


def does(story: Coroutine[Any, Any, None]) -> None:
    """Run a story to its end."""
    asyncio.run(story)


class Page(HTMLParser):
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


def test_looking_changes_nothing_however_often_and_by_whatever_method() -> None:
    """R-G1: scanners, previews and prefetches never decide."""

    async def story() -> None:
        wakes = Wakes()
        office = Office(options={"dispatcher": wakes})
        wait = await office.opened()
        link = office.links.link(wait)
        before = await office.keys()

        for method in ("GET", "HEAD", "OPTIONS", "GET") * 5:
            assert (await office.look(link, method)).status in (200, 204)
        for method in ("PUT", "DELETE", "PATCH", "TRACE", "get", "PROPFIND"):
            assert 405 == (await office.look(link, method)).status

        assert before == await office.keys()
        assert wait == await office.runner.wait(wait.id)
        assert [] == wakes.runs

    does(story())


def test_a_click_decides_once_and_the_run_goes_on() -> None:
    async def story() -> None:
        wakes = Wakes()
        office = Office(options={"dispatcher": wakes})
        wait = await office.opened()
        link = office.links.link(wait, actor="kim@example.com")

        # Given somebody who opens the link and presses what the page offers
        approve, deny = Page(await office.look(link)).forms
        assert ({"decision": "approve"}, {"decision": "deny", "reason": ""}) == (
            approve,
            deny,
        )
        clicked = await office.click(link, **approve)

        # Then it is recorded under the name that the link was made for
        assert (200, "Your decision is recorded") == (clicked.status, heading(clicked))
        assert "kim@example.com" in clicked.body
        assert "The run goes on." in clicked.body
        assert ["jane-1"] == wakes.runs
        await office.runner.resume("jane-1")
        assert [500] == office.bank.paid

    does(story())


def test_deciding_takes_three_requests_of_any_who_decides() -> None:
    """R-G2: the wait, a marker, the decision; by a link not one more."""

    async def story() -> None:
        store = FaultyStore(MemoryStore())
        office = Office(store=store)
        for run_id, by_link in (("jane-1", True), ("jane-2", False)):
            wait = await office.opened(run_id)
            link = office.links.link(wait)
            store.operations.clear()

            if by_link:
                assert 200 == (await office.click(link, decision="approve")).status
            else:
                said = {"decision": "approve"}
                assert 200 == (await office.decide(wait, said)).status

            verbs = [each.verb for each in store.operations]
            assert ["read", "create", "create", "delete"] == verbs

    does(story())


def test_a_refresh_a_double_click_and_the_way_back_are_harmless() -> None:
    """R-G3: the same again is the same answer; the other answer is told what stands."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        link = office.links.link(wait)

        # When it is clicked twice at once, refreshed, and refreshed after the end
        twice = await asyncio.gather(
            office.click(link, decision="approve"),
            office.click(link, decision="approve"),
        )
        refreshed = await office.click(link, decision="approve")
        await office.runner.resume("jane-1")
        much_later = await office.click(link, decision="approve")

        # Then each says the same
        assert twice[0] == twice[1] == refreshed == much_later
        assert 200 == refreshed.status
        assert ANYBODY in refreshed.body

        # When they go back and press the other button
        back = await office.look(link)
        other = await office.click(link, decision="deny", reason="oh no")

        # Then the page asks nothing any more, and says what stands
        assert (200, []) == (back.status, Page(back).forms)
        assert (409, "Already decided") == (other.status, heading(other))
        assert "Approved" in other.body
        assert "oh no" not in other.body
        assert [500] == office.bank.paid

    does(story())


def test_a_second_person_is_told_by_whom_it_was_decided() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        kim, lee = (office.links.link(wait, actor=name) for name in ("kim", "lee"))
        await office.click(kim, decision="deny", reason="too much\r\nreally")

        looked = await office.look(lee)
        clicked = await office.click(lee, decision="deny", reason="too much\nreally")

        assert (200, 409) == (looked.status, clicked.status)
        assert looked.body == clicked.body
        assert "<dd>kim</dd>" in looked.body
        assert r"too much\nreally" in looked.body

    does(story())


def test_an_edit_elsewhere_is_shown_to_who_comes_later() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        edited = Approve(by="lee", arguments={"cents": 7, "note": "n"})
        await office.runner.decide(wait.id, edited)

        looked = await office.look(office.links.link(wait))

        assert "With these arguments" in looked.body
        assert "&quot;cents&quot;: 7" in looked.body

    does(story())


def test_a_wait_that_expired_says_so_and_cannot_be_decided() -> None:
    """R-F4: expiry is not a denial."""

    async def story() -> None:
        policy = ApprovalPolicy(expires_after=timedelta(hours=1))
        office = Office(policy=policy)
        wait = await office.opened()
        link = office.links.link(wait)
        assert "Decide until" in (await office.look(link)).body
        office.hands.seconds = 3601

        looked = await office.look(link)
        clicked = await office.click(link, decision="approve")
        await office.runner.resume("jane-1")
        after = await office.look(link)
        late = await office.click(link, decision="approve")

        assert [200, 410, 200, 410] == [
            each.status for each in (looked, clicked, after, late)
        ]
        assert {"Expired"} == set(map(heading, (looked, clicked, after, late)))
        assert [] == Page(looked).forms
        assert [] == office.bank.paid

    does(story())


def test_a_run_that_was_cancelled_says_so() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        await office.runner.cancel("jane-1", by="lee")
        link = office.links.link(wait)

        looked = await office.look(link)
        clicked = await office.click(link, decision="approve")

        assert [200, 410] == [looked.status, clicked.status]
        assert "Cancelled" == heading(looked) == heading(clicked)

    does(story())


def test_who_holds_a_link_does_not_fill_the_model_s_memory() -> None:
    """Every word of a reason is sent with each later turn, and cannot be taken back."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        link = office.links.link(wait)
        long = "x" * 4001

        refused = [
            await office.click(link, decision="deny", reason=long),
            await office.decide(wait, {"decision": "deny", "reason": long}),
        ]
        taken = await office.click(link, decision="deny", reason=long[:4000])

        assert [400, 400, 200] == [each.status for each in (*refused, taken)]

    does(story())


def test_a_link_gives_no_more_than_it_allows() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        link = office.links.link(wait, allowed=["deny"])

        looked = await office.look(link)
        forbidden = await office.click(link, decision="approve")
        answered = await office.click(link, decision="answer", value="1")

        assert ["deny"] == [each["decision"] for each in Page(looked).forms]
        assert [403, 403] == [forbidden.status, answered.status]
        assert wait == await office.runner.wait(wait.id)
        assert 200 == (await office.click(link, decision="deny")).status

    does(story())


@pytest.mark.parametrize("value", ["it was paid", "", "0", "false"])
def test_whoever_knows_says_that_it_happened(value: str) -> None:
    """R-C5: values that are merely falsy are answers."""

    async def story() -> None:
        # Given a call of which nobody knows whether it happened
        office = Office()
        wait = a_wait(kind="unknown")
        place = objects()
        await announce(place, [wait])
        runner = AsyncRunner([], store=place.store, clock=office.clock)
        office.desk = Desk(runner, links=office.links, clock=office.clock)
        link = office.links.link(wait)

        looked = Page(await office.look(link))
        answered = await office.click(link, decision="answer", value=value)
        again = await office.click(link, decision="answer", value=value)

        assert ["approve", "deny", "answer"] == [it["decision"] for it in looked.forms]
        assert 200 == answered.status
        assert answered == again

    does(story())


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
def test_a_form_that_does_not_say_it_plainly_decides_nothing(text: str) -> None:
    """R-C5: only a well-typed approve is one; R-G4: anything else is a 4xx."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        link = office.links.link(wait)

        refused = await office.desk.answer(form(link, text))

        assert 400 == refused.status
        assert wait == await office.runner.wait(wait.id)

    does(story())


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data"])
def test_a_form_of_another_type_decides_nothing(kind: str) -> None:
    async def story() -> None:
        office = Office()
        link = office.links.link(await office.opened())
        asked = form(link, "decision=approve")

        refused = await office.desk.answer(
            type(asked)(
                method="POST",
                path=asked.path,
                headers={"content-type": kind},
                body=asked.body,
            )
        )

        assert 415 == refused.status

    does(story())


def test_a_hundred_people_click_and_one_decision_stands() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        people = [office.links.link(wait, actor=f"p{number}") for number in range(50)]

        clicks = await asyncio.gather(
            *(
                office.click(link, decision=answer)
                for link in people
                for answer in ("approve", "deny")
            )
        )

        assert 1 == sum(each.status == 200 for each in clicks)
        assert 99 == sum(each.status == 409 for each in clicks)

    does(story())


def test_no_path_of_a_link_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A link is a key; a log is read by many."""

    async def story() -> None:
        office = Office()
        wait = await office.opened()
        link = office.links.link(wait)
        runner = _Broken([], store=office.runner.store)
        office.desk = Desk(runner, links=office.links, clock=office.clock)

        failed = await office.look(link)

        assert 500 == failed.status
        assert "/d/{token}" in caplog.text
        assert link.rpartition("/")[2] not in caplog.text
        assert "at the desk" not in failed.body

    does(story())


class _Broken(AsyncRunner):
    async def wait(self, wait_id: str) -> Any:
        msg = f"broken at the desk, {wait_id}"
        raise RuntimeError(msg)


def test_a_reason_that_was_left_empty_is_none() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()

        await office.click(office.links.link(wait), decision="deny", reason="")

        stands = await office.runner.decide(wait.id, Deny(by=ANYBODY))
        assert (ANYBODY, None) == (stands.by, stands.reason)

    does(story())


def test_a_denial_in_other_words_is_another_decision() -> None:
    async def story() -> None:
        office = Office()
        wait = await office.opened()
        await office.runner.decide(wait.id, Deny(by=ANYBODY))

        other = await office.click(
            office.links.link(wait), decision="deny", reason="no"
        )

        assert 409 == other.status

    does(story())
