"""Each route of the HTTP API with an identity that has one right and no other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from continuations import Approve, Deny
from continuations.errors import AlreadyDecided
from continuations.serve.http.request_context import RequestContext
from continuations.serve.http.request_response import Response
from continuations.serve.http.run_handlers import visible_publication, visible_sweep
from continuations.serve.operations import OPERATIONS
from continuations.serve.rights import ACTS
from tests.serve.http.api_fixture import ApiFixture, json_body, problem_slug
from tests.serve.http.single_rights import EXAMPLES, RECORDED, SECRETS, Scene
from tests.serve.rights import only

BY_ROUTE = {(each.method, each.path): each for each in OPERATIONS if not each.is_public}
# Responses to a sender who may not view the run: nothing else may be in them.
MEMBERS_OF_RECORDED = {"recorded", "run_id", "number"}


def texts(response: Response) -> str:
    """Return everything that a client can read."""
    return response.body + repr(response.data) + repr(response.headers)


def test_each_route_has_an_example() -> None:
    """Add a request of a new operation to `EXAMPLES`."""
    assert BY_ROUTE.keys() == EXAMPLES.keys()


@pytest.mark.parametrize(("method", "path"), sorted(EXAMPLES))
def test_one_right_alone_opens_its_routes_and_reveals_no_more(
    method: str, path: str
) -> None:
    operation, example = BY_ROUTE[method, path], EXAMPLES[method, path]
    right = operation.right

    async def scenario(act: str) -> None:
        scene = Scene(act)
        await scene.open()

        response = await scene.request(method, path)

        if right is not None and right not in scene.acts:
            assert (403, "forbidden") == (response.status, problem_slug(response))
        else:
            assert example.status == response.status, response.body
        if act != "read":
            assert SECRETS[0] not in texts(response)
        if "view" not in scene.acts:
            assert SECRETS[1] not in texts(response)
        if operation.hides_content and response.status == RECORDED:
            assert json_body(response)["recorded"] is True
            assert json_body(response).keys() <= MEMBERS_OF_RECORDED
        if right is None and "view" not in scene.acts and path != "/openapi.json":
            assert [] == [rows for rows in json_body(response).values() if rows]

    for act in sorted(ACTS):
        asyncio.run(scenario(act))


def test_act_without_view_is_only_recorded() -> None:
    """A new route that acts on a run says no more than that, if it succeeds."""
    hidden = {route for route, each in BY_ROUTE.items() if each.hides_content}

    assert hidden == {
        route
        for route, example in EXAMPLES.items()
        if example.status == RECORDED and route[0] != "GET"
    }


@pytest.mark.parametrize("act", ["cancel", "message", "decide"])
async def test_scenes_have_secrets_to_reveal(act: str) -> None:
    """With `view` and `read` too, the same requests show what they hide."""
    scene = Scene(act)

    scene.fixture = ApiFixture(
        note=SECRETS[1], options={"can": only("view", "read", act)}
    )
    await scene.open()
    route = {
        "cancel": ("POST", "/runs/{run_id}/pause"),
        "message": ("POST", "/runs/{run_id}/resume"),
        "decide": ("GET", "/waits/{wait_id}"),
    }[act]
    response = await scene.request(*route)
    assert any(secret in response.body for secret in SECRETS)


@pytest.mark.parametrize("together", [False, True])
async def test_decision_of_another_person_is_not_revealed(together: bool) -> None:
    """Its reason and its name are content of the run."""
    scene = Scene("decide")
    await scene.open()
    assert scene.wait is not None
    verdict = Deny(by="lee", reason="the-lawyer-said-no")
    await scene.fixture.runner.decide(scene.wait.id, verdict)

    path = "/decisions" if together else "/waits/{wait_id}/decision"
    response = await scene.request("POST", path)

    assert "already" in response.body
    assert "lee" not in response.body
    assert "the-lawyer-said-no" not in response.body


async def test_own_decision_of_a_batch_is_recorded() -> None:
    scene = Scene("decide")
    await scene.open()
    assert scene.wait is not None
    response = await scene.request("POST", "/decisions")
    expected = {"wait_id": scene.wait.id, "recorded": True}
    assert [expected] == json_body(response)["results"]
    with pytest.raises(AlreadyDecided):
        await scene.fixture.runner.decide(scene.wait.id, Approve(by="lee", reason="x"))


class _SomeRuns:
    """A request whose sender may view one run."""

    async def may(self, act: str, run_id: str) -> bool:
        """Allow to view Jane's run."""
        return (act, run_id) == ("view", "jane-1")


def test_events_and_sweeps_name_visible_runs_only() -> None:
    context = cast("RequestContext", _SomeRuns())
    both = ["bob-1", "jane-1"]
    event: dict[str, Any] = {"id": "e", "run_ids": both, "woken": both}
    sweep: dict[str, Any] = {
        "runs_checked": 2,
        "resumed": [{"run_id": each, "status": "finished"} for each in both],
        "failed": dict.fromkeys(both, "run-busy"),
        "skipped": both,
    }

    shown = asyncio.run(visible_publication(context, event))
    swept = asyncio.run(visible_sweep(context, sweep))

    assert {"id": "e", "run_ids": ["jane-1"], "woken": ["jane-1"]} == shown
    assert "bob-1" not in repr(swept)
    assert (2, ["jane-1"]) == (swept["runs_checked"], swept["skipped"])
