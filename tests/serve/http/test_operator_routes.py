"""Operators over HTTP: pause, unpause, cancel of one call, runs without a model."""

from __future__ import annotations

import json
from typing import Any

from continuations import Agent, AsyncRunner, Finished, tool
from continuations.errors import ModelError
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from tests.outcomes import single_wait
from tests.present.schema_check import assert_matches_schema
from tests.serve.http.api_fixture import verify_bearer

JSON = {"content-type": "application/json", "authorization": "Bearer kim"}


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    return f"paid {what}"


async def test_operator_pauses_unpauses_and_cancels_a_call() -> None:
    """The identity of the request is recorded, and the body never names it."""
    model = ScriptedModel([ToolCall("pay", {"what": "x"}), "end"])
    boss = Agent("boss", tools=[pay], model=model)
    runner = AsyncRunner(boss, store="memory:")
    api = HttpApi(runner, verify=verify_bearer)

    async def post(path: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        body = json.dumps(fields).encode()
        response = await api.handle(
            Request(method="POST", path=path, headers=JSON, body=body)
        )
        return response.status, json.loads(response.body)

    wait = single_wait(await runner.start("go", run_id="r1"))
    status, run = await post("/runs/r1/pause", reason="audit")
    assert (200, ["audit"]) == (status, run["reasons"])
    held = (await runner.look("r1")).waits
    assert ["Paused by kim."] == [w.note for w in held if w.kind == "operator"]
    assert 400 == (await post("/runs/r1/pause", by="lee"))[0]
    status, run = await post("/runs/r1/unpause")
    assert (200, []) == (status, run["reasons"])
    assert 400 == (await post("/runs/r1/cancel", call="c99"))[0]
    status, run = await post("/runs/r1/cancel", call=wait.call_id, reason="no")
    assert (200, []) == (status, run["waits"])
    assert isinstance(await runner.resume("r1"), Finished)
    assert 400 == (await post("/runs/r1/pause"))[0]


async def test_list_of_waits_names_the_runs_that_wait_for_their_models() -> None:
    """On the first page, and only runs that the person may view."""
    limited = ModelError("status 429", retryable=True)
    calls = [ToolCall("pay", {"what": str(number)}) for number in range(3)]
    model = ScriptedModel({"down": [limited], "boss": [calls, "end"]})
    agents = [Agent("down", model=model), Agent("boss", tools=[pay], model=model)]
    runner = AsyncRunner(agents, store="memory:", model_retry_time=0)
    api = HttpApi(
        runner, verify=verify_bearer, can=lambda _who, _act, run: run != "hidden"
    )

    async def page(**query: str) -> dict[str, Any]:
        request = Request(method="GET", path="/waits", headers=JSON, query=query)
        body: dict[str, Any] = json.loads((await api.handle(request)).body)
        assert_matches_schema("wait_page", body)
        return body

    assert [] == (await page())["runs_awaiting_models"]
    for run_id in ("m1", "hidden"):
        await runner.start("go", run_id=run_id, agent="down")
    await runner.start("go", run_id="r1", agent="boss")

    for order in ("id", "due"):
        first = await page(limit="2", order=order)
        assert ["m1"] == first["runs_awaiting_models"]
        second = await page(limit="2", order=order, after=first["next"])
        assert (1, None) == (len(second["waits"]), second["runs_awaiting_models"])
