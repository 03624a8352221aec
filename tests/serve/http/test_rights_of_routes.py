"""The rights of the HTTP API: `can(identity, act, run)` is asked for every request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import Identity
from continuations.serve.rights import Rights
from tests.serve.http.api_fixture import (
    ApiFixture,
    json_body,
    problem_slug,
    waiting_api,
)
from tests.serve.rights import in_runs, only


def allow_all(*_: object) -> bool:
    """Allow everything."""
    return True


async def test_person_without_the_right_changes_nothing() -> None:
    asked: list[tuple[str, str, str | None]] = []

    def can(identity: Identity, act: str, run: str | None) -> bool:
        asked.append((identity.name, act, run))
        return act == "view"

    fixture, wait = await waiting_api(options={"can": can})
    before = await fixture.keys()

    path = f"/waits/{wait.id}"
    shown = await fixture.request("GET", path)
    refused = await fixture.decide(wait, {"decision": "approve"})

    assert 200 == shown.status
    assert (403, "forbidden") == (refused.status, problem_slug(refused))
    assert before == await fixture.keys()
    assert [("kim", "view", "jane-1"), ("kim", "decide", "jane-1")] == asked


async def test_lists_have_only_the_runs_that_the_person_may_view() -> None:
    async def can(_: Identity, act: str, run: str | None) -> bool:
        return act == "view" and run == "jane-2"

    fixture = ApiFixture(options={"can": can})
    for run_id in ("jane-1", "jane-2", "jane-3"):
        await fixture.start_waiting_run(run_id)

    for query in ({}, {"order": "due"}):
        waits = await fixture.request("GET", "/waits", query=query)
        found = [row["run_id"] for row in json_body(waits)["waits"]]
        assert ["jane-2"] == found
    runs = await fixture.request("GET", "/runs")
    assert ["jane-2"] == [row["run_id"] for row in json_body(runs)["runs"]]
    drift = await fixture.request("GET", "/drift")
    assert ["jane-2"] == [row["run_id"] for row in json_body(drift)["runs"]]


async def test_one_decision_without_the_right_refuses_all_of_a_request() -> None:
    def can(_: Identity, __: str, run: str | None) -> bool:
        return run != "jane-2"

    fixture = ApiFixture(options={"can": can})
    waits = [await fixture.start_waiting_run(f"jane-{n}") for n in (1, 2)]
    posted = [{"wait_id": each.id, "decision": "approve"} for each in waits]

    both = await fixture.request("POST", "/decisions", {"decisions": posted})
    one = await fixture.request("POST", "/decisions", {"decisions": posted[:1]})

    assert (403, 200) == (both.status, one.status)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("GET", "/messages/1", None),
        ("GET", "/events", None),
        ("POST", "/messages", {"text": "pay"}),
        ("POST", "/stop", {}),
        ("POST", "/close", {}),
    ],
)
async def test_query_gives_no_right_to_another_thread(
    method: str, path: str, body: Any
) -> None:
    """The right is asked for the run of the thread, also if the query names one."""

    fixture = ApiFixture(options={"can": in_runs("mine")})
    before = await fixture.keys()
    response = await fixture.request(
        method, f"/threads/hr/other{path}", body, query={"run_id": "mine"}
    )
    assert (403, "forbidden") == (response.status, problem_slug(response))
    assert before == await fixture.keys()


async def test_fork_needs_the_right_for_its_own_id() -> None:
    """The right to fork one run gives none to write under the id of another."""

    fixture = ApiFixture(options={"can": only("fork", runs=["jane-1", "jane-2"])})
    await fixture.start_waiting_run()
    before = await fixture.keys()
    path = "/runs/jane-1/fork"

    refused = await fixture.request("POST", path, {"run_id": "bob-1"})
    assert (403, "forbidden") == (refused.status, problem_slug(refused))
    assert before == await fixture.keys()
    forked = await fixture.request("POST", path, {"run_id": "jane-2"})
    assert 200 == forked.status


async def test_decision_about_an_invalid_wait_says_so() -> None:
    fixture = ApiFixture(options={"can": allow_all})
    posted = [{"wait_id": "x", "decision": "approve"}]
    response = await fixture.request("POST", "/decisions", {"decisions": posted})
    [result] = json_body(response)["results"]
    assert result["problem"]["type"].endswith(":wait-not-found")


@pytest.mark.parametrize("answer", [None, 1, ["finance"], "no"])
def test_answer_that_is_no_truth_value_allows_nothing(answer: Any) -> None:
    """A list of groups is true in Python, and must not become a right."""

    def can(*_: object) -> Any:
        return answer

    with pytest.raises(TypeError, match="can must return True or False"):
        asyncio.run(Rights(can).allow("kim", "decide", "jane-1"))
