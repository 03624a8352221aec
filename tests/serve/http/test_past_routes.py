"""The past of a run over HTTP: versions page by page, one version, differences."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import (
    ApiFixture,
    json_body,
    problem_slug,
    waiting_api,
)
from tests.serve.rights import only


def test_versions_and_differences() -> None:
    asyncio.run(_versions_and_differences())


async def _versions_and_differences() -> None:
    fixture, wait = await waiting_api()
    await fixture.decide(wait, {"decision": "approve"})
    await fixture.request("POST", "/runs/jane-1/resume")
    path = "/runs/jane-1/versions"

    # Each page names the next one, and together they are the whole
    seen, query = list[dict[str, Any]](), {"limit": "2"}
    while True:
        page = json_body(await fixture.request("GET", path, query=query))
        assert_matches_schema("version_page", page)
        assert len(page["versions"]) <= int(query["limit"])
        seen += page["versions"]
        if page["next"] is None:
            break
        query["after"] = str(page["next"])
    assert [*range(1, len(seen) + 1)] == [each["number"] for each in seen]
    assert seen == json_body(await fixture.request("GET", path))["versions"]

    # A version has its own waits and messages
    waiting = next(each for each in seen if each["waits"])
    shown = json_body(await fixture.request("GET", f"{path}/{waiting['number']}"))
    assert_matches_schema("run", shown)
    assert [wait.id] == [each["id"] for each in shown["waits"]]
    assert shown["frames"][0]["messages"]

    # And two of them have differences
    numbers = {"from": str(waiting["number"]), "to": str(len(seen))}
    response = await fixture.request("GET", "/runs/jane-1/diff", query=numbers)
    found = json_body(response)
    assert_matches_schema("run_difference", found)
    (ended,) = found["waits"]
    assert ("removed", "kim") == (ended["change"], ended["decision"]["by"])


def test_wrong_requests_are_problems() -> None:
    asyncio.run(_wrong_requests())


async def _wrong_requests() -> None:
    fixture = ApiFixture()
    await fixture.start_waiting_run()
    base = "/runs/jane-1"
    for path, query, status in (
        (f"{base}/versions", {"after": "x"}, 400),
        (f"{base}/versions", {"after": "99"}, 400),
        (f"{base}/versions", {"before": "2"}, 400),
        (f"{base}/versions/x", {}, 400),
        (f"{base}/versions/99", {}, 404),
        (f"{base}/versions/0", {}, 404),
        (f"{base}/diff", {}, 400),
        (f"{base}/diff", {"from": "1"}, 400),
        (f"{base}/diff", {"from": "1", "to": "99"}, 404),
        ("/runs/jane-2/versions", {}, 404),
        ("/runs/jane-2/diff", {"from": "1", "to": "2"}, 404),
    ):
        response = await fixture.request("GET", path, query=query)
        assert status == response.status, (path, query, response.body)
        unidentified = await fixture.request("GET", path, query=query, by=None)
        assert 401 == unidentified.status


def test_fork_has_the_decision_of_its_sender() -> None:
    asyncio.run(_fork_with_a_decision())


async def _fork_with_a_decision() -> None:
    fixture, wait = await waiting_api()
    decision = {"wait_id": wait.id, "decision": "deny", "reason": "too dear"}
    body = {"run_id": "fork", "version": 2, "decisions": [decision]}

    response = await fixture.request("POST", "/runs/jane-1/fork", body)

    assert {"run_id": "fork"} == json_body(response)
    assert_matches_schema("forked_run", json_body(response))
    fork = json_body(await fixture.request("GET", "/runs/fork"))
    assert_matches_schema("run", fork)
    assert "jane-1@2" == fork["forked_from"]
    audit = json_body(await fixture.request("GET", "/runs/fork/audit"))
    _, line = sorted(audit["lines"], key=lambda each: each["verdict"] != "fork")
    assert ("deny", "http", "kim") == (
        line["verdict"],
        line["door"],
        line["identity"]["name"],
    )
    # And the run itself still waits
    shown = json_body(await fixture.request("GET", "/runs/jane-1"))
    assert [wait.id] == [each["id"] for each in shown["waits"]]


def test_decisions_of_a_fork_need_the_right_to_decide() -> None:
    asyncio.run(_fork_without_the_right())


async def _fork_without_the_right() -> None:
    fixture, wait = await waiting_api(options={"can": only("view", "fork")})
    decision = {"wait_id": wait.id, "decision": "approve"}
    path = "/runs/jane-1/fork"

    refused = await fixture.request("POST", path, {"decisions": [decision]})
    forked = await fixture.request("POST", path, {"run_id": "fork"})

    assert 403 == refused.status
    assert 200 == forked.status


async def test_unknown_version_is_no_unknown_run() -> None:
    fixture = ApiFixture()
    await fixture.start_waiting_run()
    for path, slug in (
        ("/runs/jane-1/versions/99", "version-not-found"),
        ("/runs/jane-1/rewind?version=99", "version-not-found"),
        ("/runs/bob-1/versions/99", "run-not-found"),
        ("/runs/bob-1", "run-not-found"),
    ):
        place, _, query = path.partition("?version=")
        fields = {"version": query} if query else {}
        response = await fixture.request("GET", place, query=fields)
        assert (404, slug) == (response.status, problem_slug(response))
