"""Agents as tools of an MCP server, and waiting runs as tasks."""

# ruff: noqa: ARG001 - a workflow has a flow, whether it uses it or not

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import fastmcp
import httpx
import pytest
from fastmcp.client.transports import StdioTransport
from mcp_types import TextContent

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Flow,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.errors import InvalidInput
from continuations.interop.mcp import McpServer, mcp_server
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import Request
from continuations.serve.rights import Can
from continuations.tools import Secret
from tests.interop.mcp_requests import FORMS, TASKS, McpClient, client_of
from tests.ports import free_port, wait_for_port

SECRET = "a secret of these tests, which is long"
YES = {"action": "accept", "content": {"decision": "approve"}}
_ROOT = Path(__file__).parents[2]


def bank(paid: list[int], **policy: Any) -> Agent[str]:
    """Return an agent that transfers money after an approval."""

    @tool(approval=ApprovalPolicy(**policy))
    def transfer(cents: int, pin: Annotated[str, Secret()] = "4711") -> str:
        """Transfer money."""
        paid.append(cents)
        return "paid"

    script: list[ToolCall | str] = [ToolCall("transfer", {"cents": 100}), "All paid."]
    return Agent("bank", model=ScriptedModel(script), tools=[transfer])


@workflow
async def greet(flow: Flow, name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}!"


@workflow
async def nap(flow: Flow) -> str:
    """Sleep for an hour."""
    await sleep(3600)
    return "awake"


@workflow
async def survey(flow: Flow) -> str:
    """Ask two questions at once."""
    size, tags = await asyncio.gather(
        ask("Which size?", Literal["S", "M"]), ask("Which tags?", dict[str, int])
    )
    return f"{size} {sorted(tags)}"


def serve(*agents: Agent[Any], can: Can | None = None) -> McpServer:
    """Return a server of agents; see `serve_runner`."""
    return serve_runner(AsyncRunner(agents, store="memory:"), can=can)


def serve_runner(runner: AsyncRunner, can: Can | None = None) -> McpServer:
    """Return a server that trusts a header."""
    return mcp_server(
        runner,
        secret=SECRET,
        verify=lambda request: request.headers.get("x-user"),
        can=can,
        poll_interval=0.1,
    )


async def end_of(client: McpClient, task: str) -> dict[str, Any]:
    """Wait for the end of a task.

    The claim of a server that was killed at its work lasts for 30 seconds.
    """
    state: dict[str, Any] = {}
    for _ in range(3000):
        state = await client.get(task)
        if state["status"] not in ("working", "input_required"):
            return state
        await asyncio.sleep(0.02)
    msg = f"task is {state['status']}"
    raise AssertionError(msg)


async def test_run_that_ends_answers_the_call() -> None:
    async with client_of(serve(greet)) as client:
        listed = (await client.send("tools/list", {}))["result"]["tools"]
        result = await client.call("greet", name="Jane")
    assert listed[0]["name"] == "greet"
    assert listed[0]["inputSchema"]["required"] == ["name"]
    assert result["resultType"] == "complete"
    assert result["content"] == [{"type": "text", "text": "Hello, Jane!"}]


async def test_arguments_that_do_not_fit_are_an_error_of_the_tool() -> None:
    async with client_of(serve(greet)) as client:
        result = await client.call("greet")
        unknown = await client.send("tools/call", {"name": "nobody", "arguments": {}})
    assert result["isError"]
    assert "name" in result["content"][0]["text"]
    assert unknown["error"]["code"] == -32602


async def test_approval_is_a_form_and_approve_runs_the_call_once() -> None:
    paid: list[int] = []
    async with client_of(serve(bank(paid))) as client:
        task = (await client.call("bank", input="Pay"))["taskId"]
        state = await client.get(task)
        (wait, request), *_ = state["inputRequests"].items()
        text = request["params"]["message"]
        assert state["status"] == "input_required"
        assert '"cents": 100' in text
        assert "4711" not in text
        assert request["params"]["requestedSchema"]["properties"]["decision"][
            "enum"
        ] == ["approve", "deny"]
        assert not paid
        assert "error" not in await client.update(task, **{wait: YES})
        end = await end_of(client, task)
        # A second answer finds no open wait.
        assert "error" not in await client.update(task, **{wait: YES})
    assert end["status"] == "completed"
    assert end["result"]["content"][0]["text"] == "All paid."
    assert paid == [100]


async def test_task_goes_on_after_a_decision_that_no_server_saw() -> None:
    """It was made at another door, or its server was killed before the call began."""
    paid: list[int] = []
    runner = AsyncRunner(bank(paid), store="memory:")
    async with client_of(serve_runner(runner)) as client:
        task = (await client.call("bank", input="Pay"))["taskId"]
        [wait] = [each async for each in runner.waiting()]
        await AsyncRunner([], store=runner.store).decide(wait.id, Approve(by="kim"))
        end = await end_of(client, task)
    assert end["status"] == "completed"
    assert paid == [100]


async def test_nothing_but_a_well_typed_yes_approves() -> None:
    paid: list[int] = []
    hostile: list[Any] = [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept"},
        {"action": "ACCEPT", "content": {"decision": "approve"}},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"decision": "yes"}},
        {"action": "accept", "content": {"decision": True}},
        {"action": "accept", "content": {"decision": ["approve"]}},
        {"action": "accept", "content": {"decision": "answer", "value": "paid"}},
        {"action": "accept", "content": {"decision": "approve", "reason": 7}},
        {"action": "accept", "content": "approve"},
        {"approve": True},
        "approve",
        None,
        True,
        [],
    ]
    async with client_of(serve(bank(paid))) as client:
        task = (await client.call("bank", input="Pay"))["taskId"]
        (wait,) = (await client.get(task))["inputRequests"]
        for response in hostile:
            await client.update(task, **{wait: response})
            assert [*(await client.get(task))["inputRequests"]] == [wait], response
        await client.update(task, other=YES, **{f"{wait}x": YES})
        assert (await client.get(task))["status"] == "input_required"
    assert not paid


async def test_one_of_two_questions_may_be_answered() -> None:
    async with client_of(serve(survey)) as client:
        task = (await client.call("survey"))["taskId"]
        asked = (await client.get(task))["inputRequests"]
        by_text = {r["params"]["message"]: key for key, r in asked.items()}
        size, tags = by_text["Which size?"], by_text["Which tags?"]
        wrong = {"action": "accept", "content": {"answer": "XL"}}
        assert "error" in await client.update(task, **{size: wrong})
        right = {"action": "accept", "content": {"answer": "M"}}
        await client.update(task, **{size: right})
        assert [*(await client.get(task))["inputRequests"]] == [tags]
        for text in ("{", '{"new": 1, "new": 2}', "[" * 9999, 7):
            not_json = {"action": "accept", "content": {"answer": text}}
            assert "error" in await client.update(task, **{tags: not_json})
        as_json = {"action": "accept", "content": {"answer": '{"new": 1}'}}
        await client.update(task, **{tags: as_json})
        end = await end_of(client, task)
    assert end["result"]["content"][0]["text"] == "M ['new']"


async def test_client_without_tasks_is_asked_in_the_reply() -> None:
    paid: list[int] = []
    async with client_of(serve(bank(paid))) as client:
        params: dict[str, Any] = {"name": "bank", "arguments": {"input": "Pay"}}
        first = (await client.send("tools/call", params, FORMS))["result"]
        (wait,) = first["inputRequests"]
        state = first["requestState"]
        assert "mcp-" not in state
        again = params | {"requestState": state, "inputResponses": {wait: YES}}
        forged = await client.send(
            "tools/call", again | {"requestState": state[:-2] + "AA"}, FORMS
        )
        other = await client.send("tools/call", again, FORMS, {"x-user": "tom"})
        assert not paid
        second = (await client.send("tools/call", again, FORMS))["result"]
    assert forged["error"]["code"] == other["error"]["code"] == -32602
    assert second["content"][0]["text"] == "All paid."
    assert paid == [100]


async def test_client_without_forms_reads_which_run_waits() -> None:
    async with client_of(serve(bank([]), nap)) as client:
        text = (await client.call("bank", {}, input="Pay"))["content"][0]["text"]
        sleeping = (await client.call("nap", {}))["content"][0]["text"]
        task = (await client.call("bank", TASKS, input="Pay"))["taskId"]
        no_forms = await client.send("tasks/get", {"taskId": task}, TASKS)
        refused = await client.send("tasks/get", {"taskId": task}, FORMS)
    assert text.startswith("Run mcp-")
    assert "waits for approval (transfer)" in text
    assert "waits for a time" in sleeping
    assert no_forms["result"]["status"] == "working"
    assert "approval" in no_forms["result"]["statusMessage"]
    assert refused["error"]["code"] == -32021


async def test_requester_is_not_asked_if_the_policy_excludes_it() -> None:
    paid: list[int] = []
    async with client_of(serve(bank(paid, not_requester=True))) as client:
        task = (await client.call("bank", input="Pay"))["taskId"]
        state = await client.get(task)
        assert state["status"] == "working"
        client.user = "tom"
        (wait,) = (await client.get(task))["inputRequests"]
        client.user = "kim"
        refused = await client.update(task, **{wait: YES})
        assert "error" in refused
        assert not paid
        client.user = "tom"
        await client.update(task, **{wait: YES})
        assert (await end_of(client, task))["status"] == "completed"
    assert paid == [100]


async def test_rights_are_asked_for_each_request() -> None:
    allowed = {"kim": {"view", "message"}, "ann": {"view", "decide"}, "eve": set[str]()}

    def can(identity: Any, act: str, _run: str | None) -> bool:
        return act in allowed[identity.name]

    paid: list[int] = []
    async with client_of(serve(bank(paid), greet, can=can)) as client:
        assert (await client.call("greet", name="x"))["content"][0]["text"] == (
            "[not shown]"
        )
        task = (await client.call("bank", input="Pay"))["taskId"]
        assert "inputRequests" not in await client.get(task)
        client.user = "ann"
        (wait,) = (await client.get(task))["inputRequests"]
        start = {"name": "greet", "arguments": {"name": "x"}}
        assert (
            '"message"' in (await client.send("tools/call", start))["error"]["message"]
        )
        client.user = "kim"
        assert "error" in await client.update(task, **{wait: YES})
        assert "error" in await client.send("tasks/cancel", {"taskId": task})
        client.user = "eve"
        stranger = await client.send("tasks/get", {"taskId": task})
        nobody = await client.send("tasks/get", {"taskId": "nothing"})
        assert stranger["error"] == nobody["error"]
    assert not paid


@pytest.mark.parametrize("task", ["", "x", "mcp-1", "é", "A" * 400, "../../x"])
async def test_id_that_this_server_did_not_sign_is_not_known(task: str) -> None:
    async with client_of(serve(greet)) as client:
        for method in ("tasks/get", "tasks/cancel"):
            params = {"taskId": task}
            response = await client.send(method, params, headers={"mcp-name": "x"})
            assert response["error"]["code"] in (-32602, -32020)
        assert (await client.update("x"))["error"]["code"] == -32602


async def test_cancel_ends_a_sleeping_run() -> None:
    async with client_of(serve(nap)) as client:
        task = (await client.call("nap"))["taskId"]
        for _ in range(2):
            sent = await client.send("tasks/cancel", {"taskId": task})
            assert sent["result"]["resultType"] == "complete"
        assert (await client.get(task))["status"] == "cancelled"


async def test_request_without_an_identity_is_refused() -> None:
    async with client_of(serve(greet), user="") as client:
        refused = await client.send("tools/list", {})
    assert refused["type"] == "urn:continuations:problem:unidentified"


async def test_verifier_gets_the_whole_request() -> None:
    """A verifier may check a signature of the body."""
    bodies: list[bytes] = []

    def verify(request: Request) -> str:
        bodies.append(request.body)
        return "kim"

    runner = AsyncRunner([greet], store="memory:")
    async with client_of(mcp_server(runner, secret=SECRET, verify=verify)) as client:
        result = await client.call("greet", name="Ann")
    assert "Hello, Ann!" == result["content"][0]["text"]
    assert [b'"tools/call"' in body for body in bodies] == [True]


def test_options_are_checked() -> None:
    runner = AsyncRunner([greet], store="memory:")
    with pytest.raises(InvalidInput, match="at least 32 random bytes"):
        mcp_server(runner, secret="short")  # noqa: S106 - invented
    with pytest.raises(InvalidInput, match="must name root agents, got 'nobody'"):
        mcp_server(runner, secret=SECRET, ask_first=["nobody"])
    with pytest.raises(InvalidInput, match="must be an AsyncRunner"):
        mcp_server(object(), secret=SECRET)  # type: ignore[arg-type]  # on purpose
    for hosts in ("mcp.example.com", ["https://mcp.example.com"]):
        with pytest.raises(InvalidInput, match="hosts must be a list of names"):
            mcp_server(runner, secret=SECRET).app(hosts=hosts)


def test_task_of_three_days_in_five_processes_orders_once(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    port = free_port()

    def in_process(hours: int, work: Callable[[McpClient], Awaitable[Any]]) -> Any:
        args = [str(port), f"file:{tmp_path / 'runs'}", str(effects), str(hours)]
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.mcp_shop", *args], cwd=_ROOT
        )
        try:
            wait_for_port(port)

            async def with_client() -> Any:
                base = f"http://127.0.0.1:{port}"
                async with httpx.AsyncClient(base_url=base, timeout=120) as http:
                    return await work(McpClient(http))

            return asyncio.run(with_client())
        finally:
            server.kill()
            server.wait(60)

    async def call(client: McpClient) -> Any:
        return (await client.call("shop", input="Tea"))["taskId"]

    task = in_process(0, call)
    keys: set[str] = set()
    for hours in (24, 48):
        state = in_process(hours, lambda client: client.get(task))
        assert state["status"] == "input_required"
        keys |= state["inputRequests"].keys()
    (wait,) = keys

    async def answer(client: McpClient) -> dict[str, Any]:
        reply = {"action": "accept", "content": {"answer": "noon"}}
        assert "error" not in await client.update(task, **{wait: reply})
        # A server that is killed while the tool orders leaves an unknown outcome.
        return await end_of(client, task)

    ended = in_process(72, answer)
    end = in_process(72, lambda client: client.get(task))
    assert end["result"] == ended["result"]
    assert end["result"]["content"][0]["text"] == "done"
    assert effects.read_text() == "order tea\n"


async def test_fastmcp_answers_over_the_command_of_this_package(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    store = f"file:{tmp_path / 'runs'}"
    (tmp_path / "shop_app.py").write_text(
        "from pathlib import Path\n"
        "from continuations import Runner\n"
        "from tests.interop.mcp_shop import shop\n"
        f"runner = Runner(shop(Path({str(effects)!r})), store={store!r})\n"
    )
    paths = f"{_ROOT}:{_ROOT / 'storage'}:{tmp_path}"
    transport = StdioTransport(
        sys.executable,
        ["-m", "continuations", "mcp", "--app", "shop_app:runner"],
        env={"PYTHONPATH": paths},
        cwd=str(tmp_path),
    )
    asked: list[str] = []

    async def on_question(message: str, _type: Any, _params: Any, _ctx: Any) -> Any:
        asked.append(message)
        return {"answer": "noon"}

    async with fastmcp.Client(transport, elicitation_handler=on_question) as client:
        result = await client.call_tool("shop", {"input": "Tea"})
    assert result.data is None
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text == "done"
    assert asked == ["At what time?"]
    assert effects.read_text() == "order tea\n"


async def test_run_has_the_trace_context_of_the_request() -> None:
    """An invalid one is ignored, as the standard demands."""
    runner = AsyncRunner(greet, store="memory:")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    params = {"name": "greet", "arguments": {"name": "Jane"}}
    server = mcp_server(runner, secret=SECRET, verify=lambda _: "kim")
    async with client_of(server) as client:
        for traceparent in (parent, "00-1"):
            meta = {"traceparent": traceparent, "tracestate": "a=b,,c=d"}
            await client.send("tools/call", params, meta=meta)
    stored = [
        dict((await runner.look(row.run_id)).run_state.run.trace_context)
        async for row in runner.runs()
    ]
    stored.sort(key=len)
    assert stored[0] == {}
    # With an SDK of OpenTelemetry, it names the span of the server.
    assert stored[1]["traceparent"].split("-")[1] == parent.split("-")[1]
    assert stored[1]["tracestate"] == "a=b,c=d"
