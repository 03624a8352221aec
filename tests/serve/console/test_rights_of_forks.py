"""A fork in the console needs the right for its own id too."""

from __future__ import annotations

from continuations import Agent, AsyncRunner, Identity, Suspended, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import in_runs


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def can(_: Identity, __: str, run: str | None) -> bool:
    """Allow everything with the runs of one team."""
    return run is not None and run.startswith("red-")


async def test_fork_under_the_id_of_another_team_is_refused() -> None:
    """Nothing is written under that id."""
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "done"])
    runner = AsyncRunner(Agent("a", tools=[pay], model=model), store="memory:")
    assert isinstance(await runner.start("go", run_id="red-1"), Suspended)
    client = ConsoleClient(runner, {"can": can})
    before = [each.run_id async for each in runner.runs()]

    for path in ("/runs/red-1/fork", "/runs/red-1/fork?version=1"):
        form = {"version": "2", "run_id": "blue-1"}
        refused = await client.post(path, form)
        assert 403 == refused.status_code
    assert before == [each.run_id async for each in runner.runs()]

    form = {"version": "2", "run_id": "red-2"}
    assert 303 == (await client.post("/runs/red-1/fork", form)).status_code
    assert {"red-1", "red-2"} == {each.run_id async for each in runner.runs()}

    # Without an id of its own, a fork is asked about too, and may be allowed.
    page = await client.post("/runs/red-1/fork", {"version": "2", "run_id": ""})
    json = {"accept": "application/json"}
    body = await client.send("POST", "/runs/red-1/fork", None, {}, **json)
    ids = [page.headers["location"].removeprefix("/runs/"), body.json()["run_id"]]
    assert all(each.startswith("red-1-fork-") for each in ids)
    assert set(ids) < {each.run_id async for each in runner.runs()}


async def test_fork_without_an_id_is_refused_where_no_new_run_is_allowed() -> None:
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "done"])
    runner = AsyncRunner(Agent("a", tools=[pay], model=model), store="memory:")
    assert isinstance(await runner.start("go", run_id="red-1"), Suspended)
    client = ConsoleClient(runner, {"can": in_runs("red-1")})
    json = {"accept": "application/json"}
    page = await client.post("/runs/red-1/fork", {"version": "2", "run_id": ""})
    body = await client.send("POST", "/runs/red-1/fork", None, {}, **json)
    assert (403, 403) == (page.status_code, body.status_code)
    assert ["red-1"] == [each.run_id async for each in runner.runs()]
