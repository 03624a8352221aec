"""`McpTools` with real servers: over HTTP, over standard streams, and of other kits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp.shared.exceptions import MCPError

from continuations import (
    Agent,
    Answer,
    AsyncRunner,
    Finished,
    Flow,
    Runner,
    Suspended,
    ask,
    workflow,
)
from continuations.errors import ToolsUnavailable
from continuations.interop.mcp import McpTools, mcp_server
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.clocks import OffsetClock
from tests.interop.mcp_bank import Bank, form, start_task
from tests.interop.test_mcp_client import payer, result_of, waiting
from tests.ports import free_port, wait_for_port

_ROOT = Path(__file__).parents[2]
_PATHS = os.pathsep.join([str(_ROOT), str(_ROOT / "storage")])
STDIO = [sys.executable, "-m", "tests.interop.mcp_bank"]
SECRET = "a-token-that-nobody-may-see"


@contextlib.contextmanager
def served(app: Any) -> Generator[str]:
    """Serve an ASGI application in a thread; yield the URL of its path `/mcp`."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for_port(port)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(60)


def with_headers(app: Any, seen: list[dict[str, str]]) -> Any:
    """Return an application that notes the headers of its requests."""

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            pairs = scope["headers"]
            seen.append({name.decode(): value.decode() for name, value in pairs})
        await app(scope, receive, send)

    return noting


async def work(tools: McpTools, store: Any = "memory:", **options: Any) -> Any:
    """Start a run that pays Jane; close the connection."""
    try:
        runner = AsyncRunner(payer(tools, **options), store=store)
        return await runner.start("Pay", run_id="a")
    finally:
        await tools.aclose()


# HTTP ---------------------------------------------------------------------------------


def test_server_at_a_url_with_headers_of_the_application() -> None:
    """The function is called for each request, so a token may change."""
    bank, seen, tokens = Bank(), list[dict[str, str]](), list[str]()

    async def headers() -> dict[str, str]:
        tokens.append(f"{SECRET}-{len(tokens)}")
        return {"authorization": f"Bearer {tokens[-1]}"}

    with served(with_headers(bank.server.streamable_http_app(), seen)) as url:
        outcome = asyncio.run(work(McpTools(url, headers=headers)))
    assert "paid Jane" == result_of(outcome)
    sent = [each["authorization"] for each in seen]
    assert sorted({*sent}) == sorted(sent)
    assert len(sent) >= 3


def test_auth_of_the_application() -> None:
    bank, seen = Bank(), list[dict[str, str]]()
    with served(with_headers(bank.server.streamable_http_app(), seen)) as url:
        tools = McpTools(url, auth=lambda: httpx2.BasicAuth("kim", SECRET))
        assert isinstance(asyncio.run(work(tools)), Finished)
    assert all(each["authorization"].startswith("Basic ") for each in seen)


def test_headers_go_to_no_other_host() -> None:
    """An OAuth flow asks other servers with the same client."""
    bank, seen, others = Bank(), list[dict[str, str]](), list[dict[str, str]]()

    class Asks(httpx2.Auth):
        def __init__(self, url: str) -> None:
            self.url = url

        def auth_flow(self, request: Any) -> Any:
            yield httpx2.Request("GET", self.url)
            yield request

    app = with_headers(bank.server.streamable_http_app(), seen)
    with served(app) as url, served(with_headers(_nothing, others)) as other:
        tools = McpTools(url, headers={"x-key": SECRET}, auth=Asks(other))
        assert isinstance(asyncio.run(work(tools)), Finished)
    assert SECRET in {each.get("x-key") for each in seen}
    assert others
    assert not [each for each in others if "x-key" in each]


async def _nothing(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def test_secrets_are_in_no_bytes_logs_and_texts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bank = Bank()
    bank.reply = start_task
    caplog.set_level(logging.DEBUG)
    with served(bank.server.streamable_http_app()) as url:
        tools = McpTools(
            f"{url}?kept=1",
            headers={"x-key": SECRET},
            auth=httpx2.BasicAuth("kim", SECRET),
        )
        outcome = asyncio.run(work(tools, f"file:{tmp_path}"))
    assert isinstance(outcome, Suspended)
    failed = McpTools(f"http://127.0.0.1:{free_port()}/", headers={"x-key": SECRET})
    with pytest.raises(ToolsUnavailable) as raised:
        asyncio.run(work(failed, f"file:{tmp_path}"))
    # The bytes are compressed; these are their values.
    stored = repr(Runner([], store=f"file:{tmp_path}").look("a").run_state)
    assert "task-1" in stored
    texts = (caplog.text, repr(tools), repr(outcome), str(raised.value), stored)
    assert not [text for text in texts if SECRET in text]


def test_server_that_does_not_answer_is_unavailable() -> None:
    tools = McpTools(f"http://127.0.0.1:{free_port()}/mcp")
    why = r"127\.0\.0\.1 could not be listed: .*\(ConnectError\)"
    with pytest.raises(ToolsUnavailable, match=why):
        asyncio.run(work(tools))


def test_error_names_what_the_application_did_wrong() -> None:
    """The function of the headers fails, or `include` has a name that is not listed."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    keys: dict[str, str] = {}
    failing = McpTools(url, headers=lambda: {"x-key": keys["BANK_KEY"]})
    with pytest.raises(ToolsUnavailable, match=r"\(KeyError\).*headers="):
        asyncio.run(work(failing))
    misspelled = McpTools(STDIO, env=_environment(), include=["pya"])
    with pytest.raises(ToolsUnavailable, match="the tool pya, which include names"):
        asyncio.run(work(misspelled))


class _Refuses(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(401)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name
        """Print nothing."""


def test_error_has_the_http_status() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tools = McpTools(f"http://127.0.0.1:{server.server_port}/mcp")
        with pytest.raises(ToolsUnavailable, match=r"\(HTTP status 401\)"):
            asyncio.run(work(tools))
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "unknown"), (504, "unknown"), (403, None)]
)
def test_status_of_a_proxy_decides_whether_a_call_may_have_begun(
    status: int, kind: str | None
) -> None:
    bank = Bank()
    inner = bank.server.streamable_http_app()

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") == b"tools/call":
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"sorry"})
        else:
            await inner(scope, receive, send)

    with served(proxy) as url:
        outcome = asyncio.run(work(McpTools(url)))
    if kind is None:
        assert result_of(outcome).startswith("ERROR: the tool failed: McpToolError")
    else:
        waiting(outcome, kind)


def test_server_that_comes_back_is_used_again() -> None:
    """The process of the server dies in a call, and a new one takes its port."""
    port = free_port()
    tools = McpTools(f"http://127.0.0.1:{port}/mcp", name="bank")
    script: list[Any] = [
        ToolCall("die", {"to": "3"}),
        ToolCall("pay", {"to": "Jane"}),
        "Done.",
    ]
    agent = Agent("a", tools=[tools], model=ScriptedModel(script))

    async def work_twice() -> Any:
        runner = AsyncRunner(agent, store="memory:")
        first = _serve(port)
        wait = waiting(await runner.start("Go", run_id="a"), "unknown")
        assert 3 == first.wait(60)
        await runner.decide(wait.id, Answer("died", by="kim"))
        with pytest.raises(ToolsUnavailable):
            await runner.resume("a")
        second = _serve(port)
        try:
            return await runner.resume("a")
        finally:
            await tools.aclose()
            second.terminate()
            second.wait(60)

    assert "paid Jane" == result_of(asyncio.run(work_twice()))


def _serve(port: int) -> subprocess.Popen[bytes]:
    server = subprocess.Popen([*STDIO, str(port)], env=_environment())
    wait_for_port(port)
    return server


# Standard streams ---------------------------------------------------------------------


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": _PATHS}


async def test_command_with_an_environment_of_the_application() -> None:
    def env() -> dict[str, str]:
        return {"PYTHONPATH": _PATHS, "BANK_KEY": SECRET}

    model = ScriptedModel(
        [ToolCall("env", {"to": "BANK_KEY"}), ToolCall("env", {"to": "HOME"}), "Done."]
    )
    tools = McpTools(STDIO, env=env, name="bank")
    assert SECRET not in repr(tools)

    runner = AsyncRunner(Agent("a", tools=[tools], model=model), store="memory:")
    outcome = await runner.start("Go", run_id="a")
    await tools.aclose()
    assert [SECRET, os.environ["HOME"]] == [
        each["content"]
        for each in outcome.continuation.root.messages
        if each["role"] == "tool"
    ]


def test_command_that_dies_in_a_call_is_an_unknown_outcome_and_starts_again() -> None:
    script: list[Any] = [
        ToolCall("die", {"to": "3"}),
        ToolCall("pay", {"to": "Jane"}),
        "Done.",
    ]
    tools = McpTools(STDIO, env=_environment(), name="bank")
    agent = Agent("a", tools=[tools], model=ScriptedModel(script))

    async def work_twice() -> Any:
        runner = AsyncRunner(agent, store="memory:")
        wait = waiting(await runner.start("Go", run_id="a"), "unknown")
        assert "bank did not reply to the call" in (wait.note or "")
        await runner.decide(wait.id, Answer("died", by="kim"))
        outcome = await runner.resume("a")
        await tools.aclose()
        return outcome

    assert "paid Jane" == result_of(asyncio.run(work_twice()))


@pytest.mark.parametrize("command", ["/no/such/command", [sys.executable, "-c", "1"]])
def test_command_that_does_not_serve_is_unavailable(command: Any) -> None:
    with pytest.raises(ToolsUnavailable, match="could not be listed"):
        asyncio.run(work(McpTools(command)))


def test_one_command_serves_all_calls_and_ends_with_the_event_loop() -> None:
    """There is no `async with`, and a process that ends leaves no other behind."""
    tools = McpTools(STDIO, env=_environment())

    async def children() -> list[str]:
        runner = AsyncRunner(payer(tools), store="memory:")
        await asyncio.gather(*(runner.start("Pay", run_id=f"r{i}") for i in range(5)))
        return _processes()

    assert 1 == len(asyncio.run(children()))
    until = time.monotonic() + 60
    while _processes() and time.monotonic() < until:
        time.sleep(0.05)
    assert [] == _processes()


def _processes() -> list[str]:
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = file.read_text().rpartition(")")[2].split()
            line = (file.parent / "cmdline").read_bytes()
            if words[1] == str(os.getpid()) and b"mcp_bank" in line:
                found.append(file.parent.name)
    return found


def test_application_of_the_command_line_needs_no_async_with(tmp_path: Path) -> None:
    """One process starts a run, and another one resumes it."""
    (tmp_path / "shop.py").write_text(
        "import sys\n"
        "from continuations import Runner\n"
        "from continuations.interop.mcp import McpTools\n"
        "from tests.interop.test_mcp_client import payer\n"
        f"tools = McpTools({STDIO!r}, env={_environment()!r}, approval=True)\n"
        f"runner = Runner(payer(tools), store='file:{tmp_path}/runs')\n"
        "if __name__ == '__main__':\n"
        "    print(runner.start('Pay', run_id='a'))\n"
    )

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            check=True,
            capture_output=True,
            cwd=tmp_path,
            env={**_environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{_PATHS}"},
            timeout=60,
        )
        return done.stdout.decode()

    assert "waits for" in run("shop.py")
    deciding = Runner([], store=f"file:{tmp_path}/runs")
    [wait] = deciding.waiting()
    cli = ("-m", "continuations")
    run(*cli, "approve", wait.id, "--by", "kim", "--store", f"file:{tmp_path}/runs")
    run(*cli, "resume", "a", "--app", "shop:runner")
    assert "finished" == deciding.look("a").status
    assert "paid Jane" in str(deciding.look("a").root.messages)


# Other servers ------------------------------------------------------------------------


def fast_bank() -> fastmcp.FastMCP:
    """Return a server of fastmcp that asks with a reply, and with a request."""
    server = fastmcp.FastMCP("bank")

    @server.tool(annotations={"readOnlyHint": True})
    def balance(to: str) -> dict[str, int]:
        """Return the balance of a person."""
        return {"cents": len(to)}

    @server.tool
    async def pay(to: str, ctx: fastmcp.Context) -> Any:
        """Pay a person, after a question."""
        responses: Any = ctx.input_responses
        if not responses:
            return types.InputRequiredResult.model_validate(
                {"inputRequests": {"q": form(f"Pay {to}?")}, "requestState": "S"}
            )
        content: dict[str, Any] = responses["q"].content
        return f"paid {content['cents']} to {to}"

    return server


def test_fastmcp_asks_and_gets_its_answer_after_days() -> None:
    clock = OffsetClock()
    with served(fast_bank().http_app(path="/mcp")) as url:
        tools = McpTools(url)
        runner = Runner(payer(tools), store="memory:", clock=clock)
        wait = waiting(runner.start("Pay", run_id="a"), "question")
        assert "127.0.0.1 asks: Pay Jane?" == wait.question
        clock.offset_seconds = 3 * 24 * 3600
        runner.decide(wait.id, Answer({"cents": 5}, by="kim"))
        assert "paid 5 to Jane" == result_of(runner.resume("a"))

        other = Runner(payer(tools, name="balance"), store="memory:")
        assert '{"cents":4}' == result_of(other.start("How much?", run_id="b"))


def test_our_own_server_is_a_server_like_others() -> None:
    """An agent over there waits for a person over here, as a task."""

    @workflow
    async def order(flow: Flow, to: str) -> str:
        """Order a meal."""
        del flow
        return f"{await ask('Which meal?', str)} for {to}"

    shop = AsyncRunner(order, store="memory:")
    server = mcp_server(shop, secret="s" * 32, verify=lambda _: "kim", task_after=0.1)
    clock = OffsetClock()
    with served(server.app()) as url:
        agent = payer(McpTools(url), name="order")
        runner = Runner(agent, store="memory:", clock=clock)
        waiting(runner.start("Order", run_id="a"), "timer")
        clock.offset_seconds += 61
        wait = waiting(runner.resume("a"), "question")
        assert "Which meal?" in (wait.question or "")
        runner.decide(wait.id, Answer({"answer": "soup"}, by="kim"))
        outcome = runner.resume("a")
        for _ in range(20):
            if isinstance(outcome, Finished):
                break
            time.sleep(0.1)
            clock.offset_seconds += 61
            outcome = runner.resume("a")
        assert "soup for Jane" == result_of(outcome)


def test_question_of_an_earlier_protocol_is_refused_with_a_reason() -> None:
    """It is asked while the call is open, so no person can take days."""
    server = fastmcp.FastMCP("bank")

    @server.tool
    async def pay(to: str, ctx: fastmcp.Context) -> str:
        """Ask while the call is open."""
        answer = await ctx.elicit(f"Pay {to}?", response_type=str)
        return str(answer)

    with served(server.http_app(path="/mcp")) as url:
        outcome = asyncio.run(work(McpTools(url)))
    assert "ERROR: the tool failed: McpToolError" in result_of(outcome)


def test_lost_reply_of_one_call_does_not_disturb_another_call() -> None:
    """They share a connection, which closes after the last of them."""
    bank = Bank("pay", "lose")
    bank.reply = lambda params: (
        MCPError(types.CONNECTION_CLOSED, "gone")
        if params.name == "lose"
        else "paid Jane"
    )
    tools = McpTools(bank, name="bank")

    async def both() -> Any:
        slow = AsyncRunner(payer(tools), store="memory:")
        lost = AsyncRunner(payer(tools, name="lose"), store="memory:")
        bank.delay = 0.4
        first = asyncio.create_task(slow.start("Pay", run_id="a"))
        await asyncio.sleep(0.2)
        bank.delay = 0.0
        waiting(await lost.start("Lose", run_id="b"), "unknown")
        assert not first.done()
        outcome = await first
        await tools.aclose()
        return outcome

    assert "paid Jane" == result_of(asyncio.run(both()))
