"""Approval by several persons over HTTP and by signed links."""

from __future__ import annotations

from datetime import timedelta

import pytest

from continuations import ApprovalPolicy, Identity, Wait, escalate
from continuations.core.reading.notices import open_notice_id
from continuations.serve.http.api import Request
from continuations.serve.http.links import Links
from continuations.serve.notify import mail, notifier
from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import (
    ApiFixture,
    RecordingDispatcher,
    json_body,
    problem_slug,
    waiting_api,
)
from tests.serve.http.test_link_pages import ParsedPage, bar, heading

APPROVE = {"decision": "approve"}
TWO = ApprovalPolicy(
    approvers=["kim", "lee"],
    votes=2,
    within=timedelta(days=1),
    on_deadline=escalate(to=["cfo"], within=timedelta(days=1)),
)


def link_for(links: Links, wait: Wait, actor: str | None) -> str:
    """Return the link of one person."""
    return links.link(wait, actor=actor)


async def test_vote_and_decision_by_verified_identities() -> None:
    """The first response is a vote and wakes nothing; the second is the decision."""
    dispatcher = RecordingDispatcher()
    fixture, wait = await waiting_api(policy=TWO, options={"dispatcher": dispatcher})

    vote = await fixture.decide(wait, APPROVE, by="kim")
    assert 200 == vote.status
    assert_matches_schema("recorded_vote", json_body(vote))
    assert ("kim", 1) == tuple(
        json_body(vote)["vote"][k] for k in ("by", "still_needed")
    )
    assert [] == dispatcher.runs

    shown = json_body(await fixture.request("GET", f"/waits/{wait.id}"))
    assert_matches_schema("wait", shown)
    assert (["kim", "lee"], 2) == (shown["approvers"], shown["votes_needed"])
    assert ["kim"] == [each["by"] for each in shown["votes"]]

    stranger = await fixture.decide(wait, APPROVE, by="eve")
    assert (422, "decision-refused") == (stranger.status, problem_slug(stranger))

    decided = await fixture.decide(wait, APPROVE, by="lee")
    assert_matches_schema("recorded_decision", json_body(decided))
    assert ["kim", "lee"] == json_body(decided)["decision"]["voters"]
    assert ["jane-1"] == dispatcher.runs


def kim_of_finance(request: Request) -> Identity:
    """Verify each request as one of kim."""
    del request
    return Identity("kim", ["finance"])


async def test_waits_of_an_approver_are_listed_a_page_at_a_time() -> None:
    """The sender's own groups count; the list of another person is open to all."""
    fixture = ApiFixture(
        policy=ApprovalPolicy(approvers=["group:finance", "lee"], votes=2),
        options={"verify": kim_of_finance},
    )
    waits = [await fixture.start_waiting_run(f"run-{n}") for n in range(3)]
    await fixture.decide(waits[0], APPROVE)

    async def listed(approver: str) -> list[str]:
        ids: list[str] = []
        after = ""
        while after is not None:
            query = {"approver": approver, "limit": "1", "after": after}
            page = json_body(await fixture.request("GET", "/waits", query=query))
            assert_matches_schema("wait_page", page)
            ids += [each["id"] for each in page["waits"]]
            after = page["next"]
        return ids

    ids = sorted(wait.id for wait in waits)
    assert ids == await listed("lee")
    assert sorted(wait.id for wait in waits[1:]) == await listed("kim")
    assert [] == await listed("eve")


@pytest.mark.parametrize(
    "query",
    [{"approver": ""}, {"approver": "x" * 256}, {"approver": "kim", "order": "due"}],
)
async def test_invalid_approver_is_rejected(query: dict[str, str]) -> None:
    response = await ApiFixture().request("GET", "/waits", query=query)

    assert 400 == response.status
    assert "approver" in response.body


async def test_body_of_a_request_names_no_voter() -> None:
    """Only the verified identity votes."""
    fixture, wait = await waiting_api(policy=TWO)

    named = await fixture.decide(wait, {**APPROVE, "by": "lee"}, by="kim")

    assert 400 == named.status
    assert () == (await fixture.runner.wait(wait.id)).votes


async def test_links_of_several_persons() -> None:
    """The page shows the votes; a person who voted sees the vote, and may deny."""
    fixture, wait = await waiting_api(policy=TWO)
    kim, lee = (link_for(fixture.links, wait, name) for name in ("kim", "lee"))

    first = await fixture.submit_form(kim, decision="approve")
    again = await fixture.open_link(kim)
    other = await fixture.open_link(lee)

    assert (200, ["Your vote is recorded."]) == (first.status, bar(first)[:1])
    assert "1 of 2 votes" in first.body
    assert first.body == again.body
    assert "Your vote cannot be changed." in first.body
    [deny] = ParsedPage(again).forms
    assert ("deny", wait.digest) == (deny["decision"], deny["shown"])
    assert 3 == len(ParsedPage(other).forms)
    assert [] == bar(other)
    assert "<b>kim</b> approved" in other.body
    assert "Yours is the last vote: if you approve, it runs." in other.body
    assert "kim and lee must agree" in other.body
    second = await fixture.submit_form(lee, decision="approve")
    assert "Your decision is recorded" == heading(second)
    assert "kim, lee" in second.body


async def test_person_who_voted_may_end_the_wait_and_nothing_else() -> None:
    """The form that the page offers denies; a forged second vote is refused."""
    fixture, wait = await waiting_api(policy=TWO)
    kim = link_for(fixture.links, wait, "kim")
    voted = await fixture.submit_form(kim, decision="approve")
    other = await fixture.submit_form(kim, decision="answer", value="paid")

    [deny] = ParsedPage(voted).forms
    denied = await fixture.submit_form(kim, **{**deny, "reason": "wrong account"})
    late = await fixture.submit_form(
        link_for(fixture.links, wait, "lee"), decision="approve"
    )
    await fixture.runner.resume("jane-1")

    assert 422 == other.status
    assert "kim has voted already" in other.body
    assert (200, "Your decision is recorded") == (denied.status, heading(denied))
    assert "wrong account" in denied.body
    assert (409, "Already decided") == (late.status, heading(late))
    assert [] == fixture.paid_cents


async def test_link_that_allows_no_denial_offers_nothing_after_the_vote() -> None:
    fixture, wait = await waiting_api(policy=TWO)
    link = fixture.links.link(wait, actor="kim", allowed=["approve"])

    voted = await fixture.submit_form(link, decision="approve")

    assert [] == ParsedPage(voted).forms
    assert "Your vote cannot be changed." in voted.body


async def test_member_of_a_group_gets_the_forms() -> None:
    """Groups are looked up when the vote is cast, not when the page is opened."""
    fixture, wait = await waiting_api(
        policy=ApprovalPolicy(approvers=["group:finance"])
    )

    page = await fixture.open_link(link_for(fixture.links, wait, "kim"))

    assert 3 == len(ParsedPage(page).forms)


async def test_link_without_an_actor_casts_no_vote() -> None:
    """A vote needs a person, and any person may hold such a link."""
    for policy in (TWO, ApprovalPolicy(votes=2), ApprovalPolicy(approvers=["kim"])):
        fixture, wait = await waiting_api(policy=policy)
        link = link_for(fixture.links, wait, None)

        page = await fixture.open_link(link)
        refused = await fixture.submit_form(link, decision="approve")

        assert (200, []) == (page.status, ParsedPage(page).forms)
        assert "You cannot decide this: it needs the name" in page.body
        assert 422 == refused.status
        assert "the link has no actor" in refused.body
        assert () == (await fixture.runner.wait(wait.id)).votes


async def test_links_outlive_an_escalation() -> None:
    """The wait keeps its id, so a link of before still opens it; the person may not."""
    fixture, wait = await waiting_api(policy=TWO)
    kim = link_for(fixture.links, wait, "kim")
    fixture.manual_clock.seconds += 86_401
    await fixture.runner.resume("jane-1")

    page = await fixture.open_link(kim)
    refused = await fixture.submit_form(kim, decision="approve")
    cfo = link_for(fixture.links, await fixture.runner.wait(wait.id), "cfo")
    decided = await fixture.submit_form(cfo, decision="approve")

    assert "cfo" in page.body
    assert "You cannot decide this: kim is not one of its approvers" in page.body
    assert [] == ParsedPage(page).forms
    assert 422 == refused.status
    assert "kim is not one of its approvers" in refused.body
    assert "Your decision is recorded" == heading(decided)


async def test_notices_have_stable_ids_of_their_own() -> None:
    """A receiver that drops repeats still gets the escalation and each reminder."""
    fixture, wait = await waiting_api(policy=TWO)
    fixture.manual_clock.seconds += 86_401
    await fixture.runner.resume("jane-1")
    escalated = await fixture.runner.wait(wait.id)

    digests = {open_notice_id(each) for each in (wait, escalated)}
    assert 2 == len(digests)
    assert "wait.escalated" == notifier.event_type(escalated)
    assert mail.subject_line(escalated).startswith("Escalated: ")
    text = mail.body_text(escalated, None, with_arguments=False)
    assert "Approvers:  cfo" in text
