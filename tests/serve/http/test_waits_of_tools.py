"""Waits of tools over HTTP: by a signed link, by JSON, on a page."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from continuations import Agent, AsyncRunner, Wait, ask, external, tool
from continuations.present.wait_words import wait_facts
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links
from continuations.serve.http.request_response import Response
from continuations.serve.notify import mail
from continuations.tools import ToolWait
from tests.outcomes import single_wait
from tests.scripts import call, scripted_model
from tests.serve.http.api_fixture import BASE_URL, SECRET, verify_bearer
from tests.serve.http.test_link_pages import ParsedPage

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json", "authorization": "Bearer kim"}


@tool
def seat(train: str) -> ToolWait[str]:
    """Choose a seat."""
    return ask(f"Which seat in {train}?")


@tool
def people(room: str) -> ToolWait[int]:
    """Count people."""
    return ask(f"How many people are in {room}?", int)


@tool
def scan(document: str) -> ToolWait[Any]:
    """Scan a document."""
    return external(f"scan of {document}")


class Desk:
    """A run that waits in one tool, and the HTTP API of its store."""

    def __init__(self, name: str) -> None:
        argument = {"seat": "train", "people": "room", "scan": "document"}[name]
        script = {"go": [[call(name, **{argument: "A1"})], "end"]}
        agent = Agent("boss", tools=[seat, people, scan], model=scripted_model(script))
        self.runner = AsyncRunner(agent, store="memory:")
        self.links = Links(SECRET, base_url=BASE_URL)
        self.api = HttpApi(self.runner, verify=verify_bearer, links=self.links)

    async def wait(self) -> Wait:
        """Start the run and return its wait."""
        return single_wait(await self.runner.start("go", run_id="r1"))

    async def send(
        self, method: str, path: str, body: bytes = b"", **h: Any
    ) -> Response:
        """Send a request."""
        return await self.api.handle(
            Request(method=method, path=path, headers=h.get("headers", {}), body=body)
        )

    async def submit(self, wait: Wait, **fields: str) -> Response:
        """Submit the form of a signed link."""
        path = f"/d/{self.links.token(wait)}"
        body = urlencode({"shown": wait.digest, **fields}).encode()
        return await self.send("POST", path, body, headers=FORM)

    async def results(self) -> list[str]:
        """Resume the run and return the texts of its tool messages."""
        outcome = await self.runner.resume("r1")
        messages = outcome.continuation.root.messages
        return [str(each["content"]) for each in messages if each["role"] == "tool"]


@pytest.fixture(autouse=True)
def logs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the scripted model a log of turns."""
    monkeypatch.setenv("TEST_TURNS", str(tmp_path / "turns"))


async def test_question_is_answered_with_text_by_a_link() -> None:
    desk = Desk("seat")
    wait = await desk.wait()
    page = await desk.send("GET", f"/d/{desk.links.token(wait)}")
    assert "Which seat in A1?" in page.body
    answer, deny = ParsedPage(page).forms
    assert {"decision", "reason", "shown", "value"} == set(answer)
    assert '<label for="answer-value">Answer</label>' in page.body
    assert "deny" == deny["decision"]

    assert 200 == (await desk.submit(wait, decision="answer", value="12")).status

    assert ["12"] == await desk.results()


async def test_typed_question_is_answered_in_a_typed_field_of_a_link() -> None:
    """A text where the question has a number is refused, and the wait stays open."""
    desk = Desk("people")
    wait = await desk.wait()
    page = await desk.send("GET", f"/d/{desk.links.token(wait)}")
    [form, _] = ParsedPage(page).forms
    assert "fields" == form["as"]

    for text, status in (("twelve", 400), ("", 400), ("1.5", 422), (" 12 ", 200)):
        submitted = await desk.submit(wait, **{**form, "value:number:": text})
        assert status == submitted.status

    assert ["12"] == await desk.results()


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ({"decision": "answer", "value": {"pages": 7}}, '{"pages":7}'),
        ({"decision": "fail", "error": "paper jam"}, "ERROR: paper jam"),
    ],
)
async def test_job_of_another_system_is_ended_by_json(body: Any, result: str) -> None:
    desk = Desk("scan")
    wait = await desk.wait()
    path = f"/waits/{wait.id}/decision"

    response = await desk.send("POST", path, json.dumps(body).encode(), headers=JSON)

    assert 200 == response.status
    assert [result] == await desk.results()


async def test_job_that_failed_is_reported_by_the_form_of_a_link() -> None:
    desk = Desk("scan")
    wait = await desk.wait()

    page = await desk.submit(wait, decision="fail", error="paper jam")

    assert "Failed" in page.body
    assert ["ERROR: paper jam"] == await desk.results()


async def test_facts_name_the_question_the_job_and_the_type_of_the_answer() -> None:
    question = await Desk("people").wait()
    job = await Desk("scan").wait()

    facts = wait_facts(question)
    assert "How many people are in A1?" == facts["Question"]
    assert "JSON of type integer" == facts["Answer"]
    assert "scan of A1" == wait_facts(job)["Job"]
    text = mail.body_text(question, None, with_arguments=False)
    assert "Question:   How many people are in A1?" in text.splitlines()


async def test_refused_answer_comes_back_with_its_error_at_the_field() -> None:
    """The person corrects the text that was refused, and posts the form again."""
    desk = Desk("people")
    wait = await desk.wait()
    page = await desk.send("GET", f"/d/{desk.links.token(wait)}")
    [form, _] = ParsedPage(page).forms

    for text, words in (
        ("twelve", "This must be a number. Write digits, for example 12."),
        ("1.5", "is not of type"),
    ):
        refused = await desk.submit(wait, **{**form, "value:number:": text})
        assert "Nothing is recorded." in refused.body
        assert words in refused.body
        [again, _] = ParsedPage(refused).forms
        assert text == again["value:number:"]
        assert 'aria-invalid="true"' in refused.body
    other = await desk.submit(wait, **{**form, "decision": "deny", "as": "fields"})
    assert 400 == other.status
    assert "<form" not in other.body
    assert 200 == (await desk.submit(wait, **{**form, "value:number:": "12"})).status
