"""`serve --http` writes no token of a link or a callback into its log.

A reader of a token can decide in the name of another person.
"""

from __future__ import annotations

import http.client
import json
import signal
from urllib.parse import urlencode, urlsplit

import pytest

from continuations import Runner
from continuations.serve.http.links import Links
from tests.cli.command_line import CommandLine
from tests.ports import free_port
from tests.run_environment import wait_until

SECRET = "a secret of at least thirty-two bytes"
APPLICATION = f'''
from continuations import Agent, Runner, ToolContext, external, tool
from continuations.tools import ToolWait
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.links import Links

links = Links({SECRET!r}, base_url="http://127.0.0.1")


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@tool
def scan(document: str, ctx: ToolContext) -> ToolWait[int]:
    """Scan."""
    return external("scan", int)


calls = [ToolCall("pay", {{"cents": 5}}), ToolCall("scan", {{"document": "a"}})]
agent = Agent("boss", tools=[pay, scan], model=ScriptedModel([calls, "end"]))
runner = Runner(agent, store="file:runs")


def verify(request):
    return request.headers.get("x-user")
'''


def send(port: int, method: str, url: str, body: str = "", kind: str = "") -> int:
    """Send a request to the path of a URL; return the status of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"content-type": kind} if kind else {}
    connection.request(method, urlsplit(url).path, body or None, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def serve_and_use_links(cli: CommandLine, *options: str) -> tuple[list[str], str]:
    """Serve a waiting run, use each kind of URL; return the tokens and the output."""
    cli.write_file("linked_written.py", APPLICATION)
    assert 0 == cli.start("linked_written:runner").exit_code
    reader = Runner([], store=cli.store)
    links = Links(SECRET, base_url="http://127.0.0.1")
    waits = {wait.kind: wait for wait in reader.look("j1").waits}
    link = links.link(waits["approval"], actor="kim@example.com")
    callback = links.callback_url(waits["external"].id)
    port = free_port()
    process = cli.start_process(
        *("serve", "--app", "linked_written:runner", "--interval", "0.05"),
        *("--http", str(port), "--verify", "linked_written:verify"),
        *("--links", "linked_written:links", *options),
    )

    def is_up() -> bool:
        try:
            return send(port, "GET", link) == 200
        except OSError:
            return False

    wait_until(is_up)
    shown, form = waits["approval"].digest, "application/x-www-form-urlencoded"
    approve, deny = (
        urlencode({"decision": each, "shown": shown}) for each in ("approve", "deny")
    )
    broken = [f"{link}x", f"{callback}x"]
    statuses = [
        send(port, "HEAD", link),
        send(port, "PUT", link),
        send(port, "POST", link, approve, form),
        send(port, "POST", link, deny, form),
        send(port, "POST", callback, json.dumps({"value": "no"}), "application/json"),
        send(port, "POST", callback, json.dumps({"value": 7}), "application/json"),
        send(port, "GET", callback),
        send(port, "GET", broken[0]),
        send(port, "POST", broken[1], "{}", "application/json"),
    ]
    wait_until(lambda: reader.look("j1").status == "finished")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)

    assert 0 == process.returncode, err
    assert (200, 405, 200) == tuple(statuses[:3])
    assert 200 == statuses[5]
    assert all(status >= 400 for status in statuses[6:])
    return [
        urlsplit(url).path.rpartition("/")[2] for url in (link, callback)
    ], out + err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_log_of_the_server_has_no_tokens(
    cli: CommandLine, options: tuple[str, ...]
) -> None:
    """Neither of requests that were served nor of those that were refused."""
    tokens, output = serve_and_use_links(cli, *options)

    for token in tokens:
        # Also not a part of one: its first half has the wait and the person.
        for part in (token, token[: len(token) // 2], token[len(token) // 2 :]):
            assert part not in output
    assert "/callbacks/" not in output
    assert "/d/" not in output
    assert "Uvicorn running" in output
