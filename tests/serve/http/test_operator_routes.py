"""Pause, unpause and cancel of one call over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from continuations import Agent, AsyncRunner, Finished, Suspended, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from tests.serve.http.api_fixture import verify_bearer

JSON = {"content-type": "application/json", "authorization": "Bearer kim"}


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    return f"paid {what}"


def test_operator_pauses_unpauses_and_cancels_a_call() -> None:
    """The identity of the request is recorded, and the body never names it."""

    async def scenario() -> None:
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

        outcome = await runner.start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        [wait] = outcome.waits
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

    asyncio.run(scenario())
