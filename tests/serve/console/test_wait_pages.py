"""The page of one wait in the console: shown like a link's, decided once."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from continuations import Approve, AsyncRunner, Deny, Runner, Wait
from continuations.errors import AlreadyDecided
from continuations.results import Decision
from continuations.serve.http.request_response import Request
from tests.browser.link_scenes import DELETE, LinkScenes
from tests.serve.console.console_client import ConsoleClient
from tests.serve.http.api_fixture import RecordingDispatcher
from tests.serve.pages.html_forms import PageForms, main_of, without_navigation
from tests.serve.rights import only


@dataclass
class Desk:
    """A console on a store with waits, and the person who uses it."""

    person: str = "kim"
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.scenes = LinkScenes("http://agents.example")
        self.runner = AsyncRunner([], store=self.scenes.store, clock=self.scenes.clock)
        self.dispatcher = RecordingDispatcher()
        own: dict[str, Any] = {"clock": self.scenes.clock, **self.options}
        own.setdefault("dispatcher", self.dispatcher)
        self.client = ConsoleClient(self.runner, options=own, person=self.person)

    def get(self, path: str, status: int = 200) -> str:
        """Return the HTML of a page."""
        response = asyncio.run(self.client.get(path))
        assert status == response.status_code, response.text
        return response.text

    def post(self, path: str, form: dict[str, str]) -> httpx.Response:
        """Post a form of a page."""
        return asyncio.run(self.client.post(path, form))

    def submit(self, path: str, form_id: str, **changes: str) -> httpx.Response:
        """Open a page, fill one of its forms, and post it to the page."""
        form = PageForms(self.get(path)).forms[form_id]
        assert changes.keys() <= form.keys(), form
        return self.post(path, {**form, **changes})

    def recorded(self, response: httpx.Response) -> str:
        """Return the page that says what was recorded."""
        assert 200 == response.status_code, response.text
        page = main_of(response.text)
        assert "<form" not in page
        return page

    def decision(self, wait: Wait) -> Decision:
        """Return the recorded decision of a wait."""
        with pytest.raises(AlreadyDecided) as error:
            asyncio.run(self.runner.wait(wait.id))
        return error.value.decision

    def is_open(self, wait: Wait) -> bool:
        """Return whether a wait has neither a decision nor a vote."""
        return () == asyncio.run(self.runner.wait(wait.id)).votes


def path_of(wait: Wait) -> str:
    """Return the path of a wait's page."""
    return f"/waits/{wait.id}"


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "approval": ("delete_account", DELETE),
    "question": ("choose_laptop", {"person": "Jane"}),
    "text": ("ask_name", {"of": "the cat"}),
    "unknown": ("charge", {"cents": 4200}),
    "event": ("receipt", {"claim": "claim-7"}),
    "job": ("render", {"film": "Metropolis"}),
}


def open_wait(desk: Desk, kind: str) -> Wait:
    """Start a run that waits; the id of the run is the kind."""
    if kind == "votes":
        return desk.scenes.transfer_wait(kind)
    name, arguments = CALLS[kind]
    return desk.scenes.calling(kind, name, **arguments)


@pytest.mark.parametrize("kind", [*CALLS, "votes"])
def test_link_and_console_have_the_same_markup(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only navigation, addresses and the token of the console differ."""
    desk = Desk()
    wait = open_wait(desk, kind)
    now = desk.scenes.clock.now()
    monkeypatch.setattr(desk.scenes.clock, "now", lambda: now)
    path = desk.scenes.link(wait).removeprefix(desk.scenes.base_url)
    request = Request(method="GET", path=path)
    link = asyncio.run(desk.scenes.api().handle(request)).body

    console = desk.get(path_of(wait))

    assert without_navigation(main_of(console)) == main_of(link)
    assert "<nav" not in link
    # A link reads the wait alone, and says so.
    words = "This page reads the wait alone."
    assert (True, False) == (words in link, words in console)
    assert "csrf" not in link
    assert '<nav class="crumbs"' in console


def test_decision_is_recorded_once_and_its_page_says_so() -> None:
    desk = Desk()
    first = open_wait(desk, "approval")
    second = open_wait(desk, "text")

    done = desk.submit(path_of(first), "approve", reason="fine")

    assert ("approve", "kim", "fine") == (
        (decision := desk.decision(first)).kind,
        decision.by,
        decision.reason,
    )
    assert (first.digest, "console") == (decision.shown, decision.door)
    assert ["approval"] == desk.dispatcher.runs
    page = desk.recorded(done)
    for text in (
        "Recorded: Approved",
        "Run delete_account: bob, and 1 more argument",
        "in the run approval",
    ):
        assert text in page
    assert f'href="{path_of(second)}" rel="next"' in page
    assert f'href="{path_of(first)}">Back to it' in page
    page = desk.recorded(desk.submit(path_of(second), "answer", value="Tom"))
    assert "Recorded: Answered" in page
    assert "The tool gets your answer." in page
    assert "<h2>Answer</h2></header><pre>&#34;Tom&#34;</pre>" in page
    assert "What is the name of the cat?" in page
    assert 'rel="next"' not in page


def test_decision_that_is_posted_twice_is_recorded_once() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    form = PageForms(desk.get(path_of(wait))).forms["approve"]

    pages = [desk.recorded(desk.post(path_of(wait), form)) for _ in range(2)]

    assert ["Recorded: Approved" in page for page in pages] == [True, True]
    decided = desk.get(path_of(wait))
    assert "Already decided" in decided
    assert "Run delete_account: bob, and 1 more argument" in decided


def test_denial_says_its_consequence() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")

    page = desk.recorded(desk.submit(path_of(wait), "deny", reason="no"))

    assert "Recorded: Denied" in page
    assert "The call does not run, and the run stops." in page


def test_next_wait_keeps_the_filter() -> None:
    desk = Desk()
    open_wait(desk, "text")
    first, other = open_wait(desk, "approval"), open_wait(desk, "votes")

    page = desk.get(f"{path_of(first)}?for=all&kind=approval")
    done = desk.submit(f"{path_of(first)}?for=all&kind=approval", "deny")

    assert "<span>1 of 2</span>" in page
    assert f"/waits/{other.id}?for=all&amp;kind=approval" in page
    query = "?for=all&amp;kind=approval"
    assert f'href="/waits/{other.id}{query}" rel="next"' in desk.recorded(done)


def test_next_wait_is_that_of_the_list_before_the_decision() -> None:
    """A person who skips a wait is not sent back to it by each decision."""
    desk = Desk()
    waits: list[Wait] = []
    for run_id in ("n0", "n1", "n2", "n3"):
        desk.scenes.clock.offset_seconds += 1  # the list is in the order of times
        waits.append(desk.scenes.calling(run_id, "delete_account", **DELETE))

    page = desk.recorded(desk.submit(path_of(waits[1]), "approve"))

    assert f'href="{path_of(waits[2])}" rel="next"' in page


@pytest.mark.parametrize("shown", [None, "", "0" * 64])
def test_post_without_the_digest_of_its_page_decides_nothing(shown: str | None) -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    form = PageForms(desk.get(path_of(wait))).forms["approve"]
    del form["shown"]

    posted = {**form, **({} if shown is None else {"shown": shown})}
    refused = desk.post(path_of(wait), posted)

    assert desk.is_open(wait)
    assert [] == desk.dispatcher.runs
    if shown:
        assert 409 == refused.status_code
        assert "Nothing is recorded: the call is not the one that you saw." in (
            refused.text
        )
        assert 'role="status" tabindex="-1" autofocus>' in refused.text
        assert wait.digest == PageForms(refused.text).forms["approve"]["shown"]
    else:
        assert 400 == refused.status_code


def test_person_who_is_too_late_sees_who_decided() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    form = PageForms(desk.get(path_of(wait))).forms["approve"]
    asyncio.run(desk.runner.decide(wait.id, Deny(by="lee", reason="on holiday")))

    late = desk.post(path_of(wait), form)
    again = desk.get(path_of(wait))

    assert 409 == late.status_code
    for page in (late.text, again):
        for fact in ("lee", "on holiday", "Denied"):
            assert fact in page
        assert "<form" not in page
    assert "deny" == desk.decision(wait).kind


def test_person_without_the_right_sees_the_reason_instead_of_buttons() -> None:
    desk = Desk(options={"can": only("view")})
    wait = open_wait(desk, "approval")

    page = desk.get(path_of(wait))
    form = {"decision": "approve", "shown": wait.digest}

    assert "You cannot decide this: you have no right" in page
    assert {} == PageForms(page).forms
    for path in ("", "/answer", "/edit", "/remember"):
        assert 403 == desk.post(path_of(wait) + path, form).status_code
    assert desk.is_open(wait)


def test_requester_and_voters_see_the_reason_instead_of_buttons() -> None:
    requester = Desk(person="ines")
    wait = open_wait(requester, "votes")
    page = requester.get(path_of(wait))
    assert "You cannot decide this: ines requested the run" in page
    assert {} == PageForms(page).forms

    voter = Desk()
    wait = open_wait(voter, "votes")
    page = voter.recorded(voter.submit(path_of(wait), "approve"))
    assert "Your vote is recorded: Approved, 1 of 2 votes" in page
    page = voter.get(path_of(wait))
    assert ["deny"] == list(PageForms(page).forms)
    assert "<b>kim</b> approved" in page


def test_errors_of_an_answer_stand_at_their_fields() -> None:
    """The form comes back with its texts, and nothing is recorded."""
    desk = Desk()
    wait = open_wait(desk, "question")
    filled = {
        "value:text:/model": "T14",
        "value:number:/memory_gb": "a lot",
        "value:text:/deliver_to/street": "Main 1",
        "value:text:/deliver_to/city": "Oslo",
    }

    refused = desk.submit(path_of(wait), "answer", **filled)

    assert 422 == refused.status_code
    assert "Nothing is recorded." in refused.text
    form = PageForms(refused.text).forms["answer"]
    assert filled.items() <= form.items()
    # The error stands once, at its field, and the browser goes there.
    assert 1 == refused.text.count("must be a number.")
    focused = re.findall(r'<\w+ id="[^"]*" autofocus name="([^"]*)"', refused.text)
    assert ["value:number:/memory_gb"] == focused
    assert desk.is_open(wait)
    wrong = {**form, "value:number:/memory_gb": "1.5"}
    refused = desk.post(path_of(wait), wrong)
    assert 422 == refused.status_code
    assert 'aria-invalid="true"' in refused.text
    desk.recorded(desk.post(path_of(wait), {**form, "value:number:/memory_gb": "32"}))
    assert '"memory_gb":32' in (desk.decision(wait).value or "")


def test_answer_instead_runs_nothing() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    path = f"{path_of(wait)}/answer"
    assert "The call does not run." in desk.get(path)

    desk.recorded(desk.submit(path, "answer", value="it was deleted"))

    assert ("answer", '"it was deleted"') == (
        (decision := desk.decision(wait)).kind,
        decision.value,
    )


def test_changed_arguments_are_shown_again_before_they_run() -> None:
    """The first post records nothing; the second one has the whole changed call."""
    desk = Desk()
    wait = open_wait(desk, "votes")
    path = f"{path_of(wait)}/edit"
    form = PageForms(desk.get(path)).forms["edit"]
    assert "1240000" == form["value:number:/cents"]
    assert "9876" not in desk.get(path)

    review = desk.post(path, {**form, "value:number:/cents": "500"})

    assert 200 == review.status_code
    assert desk.is_open(wait)
    assert "<h1>Send €5.00 to Meridian Freight GmbH</h1>" in review.text
    assert "changed, was €12,400.00 (1240000)" in review.text
    assert 1 == review.text.count('<span class="tag">changed')
    assert "Approve €5.00 as changed</button>" in review.text
    done = desk.post(path, PageForms(review.text).forms["approve"])
    page = desk.recorded(done)
    [vote] = asyncio.run(desk.runner.wait(wait.id)).votes
    assert '"cents":500' in (vote.arguments or "")
    assert "Your vote is recorded" in page


def test_refused_change_stands_at_its_field() -> None:
    desk = Desk()
    wait = open_wait(desk, "votes")
    path = f"{path_of(wait)}/edit"
    form = PageForms(desk.get(path)).forms["edit"]

    for name, text, words in (
        ("value:number:/cents", "twelve", "must be a number"),
        ("value:number:/cents", "1.5", 'aria-invalid="true"'),
        ("value:text:/pin", "1111", "a secret argument cannot be edited"),
        (
            "value:json:/lines",
            "{",
            "is not written as JSON: a name in double quotes is missing",
        ),
    ):
        refused = desk.post(path, {**form, name: text})
        assert 422 == refused.status_code
        assert words in refused.text
        assert text in PageForms(refused.text).forms["edit"].values()
    approve = PageForms(desk.post(path, form).text).forms["approve"]
    for arguments in ("{", "[]", "null", '{"cents": 5}', '{"cents": 1, "cents": 2}'):
        assert desk.post(path, {**approve, "arguments": arguments}).status_code in (
            400,
            422,
        )
    old = desk.post(path, {**form, "shown": "0" * 64})
    assert 422 == old.status_code
    assert desk.is_open(wait)


def test_remembered_approval_has_its_conditions_and_its_end() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    path = f"{path_of(wait)}/remember"
    page = desk.get(path)
    assert "only bob" in page
    assert "x" * 400 in page

    done = desk.submit(path, "approve", **{"rule:reason": "any", "until": "day"})

    assert "Recorded: Approved" in desk.recorded(done)
    decision = desk.decision(wait)
    assert decision.grant_json is not None
    for part in ('"const":"bob"', '"required":["name"]', '"until":'):
        assert part in decision.grant_json


def test_grant_of_an_amount_has_a_limit() -> None:
    desk = Desk(person="lee")
    wait = desk.scenes.calling("l", "delete_account", name="bob")
    path = f"{path_of(wait)}/remember"
    form = PageForms(desk.get(path)).forms["approve"]
    assert {"rule:name": "same", "rule:reason": "same", "until": "hour"} == {
        key: form[key] for key in ("rule:name", "rule:reason", "until")
    }

    for changes in (
        {"until": "never"},
        {"rule:name": "most"},
        {"rule:name": ""},
        {"decision": "deny"},
    ):
        assert 400 == desk.post(path, {**form, **changes}).status_code
    assert desk.is_open(wait)


def test_pages_of_ended_waits_say_so() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    Runner([], store=desk.scenes.store, clock=desk.scenes.clock).cancel(
        "approval", by="lee"
    )
    assert "Closed" in desk.get(path_of(wait))
    form = {"decision": "approve", "shown": wait.digest}
    assert 410 == desk.post(path_of(wait), form).status_code

    late = Desk()
    wait = open_wait(late, "approval")
    late.scenes.clock.offset_seconds += 3 * 86_400
    late.scenes.runner_of("done", "done").resume("approval")
    assert "Expired" in late.get(path_of(wait))
    late.get(f"{path_of(wait)}0", status=404)


def test_edited_vote_is_shown_to_the_next_person() -> None:
    desk = Desk(person="lee")
    wait = open_wait(desk, "votes")
    arguments = {**asyncio.run(desk.runner.wait(wait.id)).arguments, "cents": 700}
    asyncio.run(desk.runner.decide(wait.id, Approve(by="kim", arguments=arguments)))

    page = desk.get(path_of(wait))

    assert "<b>Send €7.00 to Meridian Freight GmbH</b>" in page
    assert "2 more votes are needed for the call as shown" in page


def test_open_page_learns_of_the_end_of_its_wait() -> None:
    """The state is empty while the wait is open; after that it says who was first."""
    desk = Desk()
    wait = open_wait(desk, "approval")
    page = desk.get(path_of(wait))
    state = f"{path_of(wait)}/state"
    assert f'data-state="{state}"' in page
    assert "" == desk.get(state, status=204)
    asyncio.run(desk.runner.decide(wait.id, Deny(by="lee", reason="<b>")))

    fragment = desk.get(state)

    assert "lee decided first: Denied." in fragment
    assert "Reason: &lt;b&gt;" in fragment
    assert "<html" not in fragment
    assert "data-state" not in desk.get(path_of(wait))

    blind = Desk(options={"can": only("nothing")})
    wait = open_wait(blind, "approval")
    blind.get(f"{path_of(wait)}/state", status=403)
