"""`ui`: the web console on this machine, from one command."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from typing import Any

import pytest

from continuations import Runner
from tests.cli.command_line import RUNNERS, CommandLine
from tests.run_environment import wait_until

PAYING = f"{RUNNERS}:runner"


class Browser:
    """A browser that keeps cookies and follows redirects."""

    def __init__(self) -> None:
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        self._opener = urllib.request.build_opener(cookies)

    def open(self, url: str, body: object = None) -> tuple[int, str]:
        """Open a page, or send JSON; return the status and the text."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"accept": "text/html"} if body is None else JSON
        return self._send(url, data, headers)

    def post_form(self, url: str, fields: dict[str, str]) -> tuple[int, str]:
        """Send the form of a page; return the status and the text."""
        data = urllib.parse.urlencode(fields).encode()
        return self._send(url, data, {"accept": "text/html"})

    def _send(
        self, url: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - http
        try:
            with self._opener.open(request, timeout=120) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


JSON = {"accept": "application/json", "content-type": "application/json"}


@contextmanager
def console(cli: CommandLine, *options: str) -> Generator[str]:
    """Start the console; yield its address. It ends well at Ctrl-C."""
    process = cli.start_process("ui", "--port", "0", *options)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (0, "", "") == (process.returncode, out, err)


def test_one_command_opens_the_console_of_a_store(cli: CommandLine) -> None:
    """Without agents, the console shows what waits, and records decisions."""
    [wait] = start_waiting(cli, cli.runner)
    with console(cli, "--by", "kim") as address:
        browser, base = Browser(), address.partition("/?token=")[0]
        assert 401 == Browser().open(f"{base}/inbox")[0]

        status, page = browser.open(address)

        assert (200, True) == (status, "1 decision waits for you" in page)
        assert "local:kim" in page
        assert 401 == Browser().open(address)[0]
        decided = browser.open(
            f"{base}/waits/{wait.id}/decision", {"decision": "approve"}
        )
        assert 200 == decided[0]
        assert "local:kim" == json.loads(decided[1])["decision"]["by"]
    assert "suspended" == cli.runner.look("j1").status


def test_sign_out_prints_the_next_address(cli: CommandLine) -> None:
    """The session is over, and only the terminal shows the way back."""
    start_waiting(cli, cli.runner)
    process = cli.start_process("ui", "--port", "0")
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        browser, base = Browser(), address.partition("/?token=")[0]
        _, page = browser.open(address)
        token = page.partition('name="csrf" value="')[2].partition('"')[0]

        status, page = browser.post_form(f"{base}/sign-out", {"csrf": token})

        following = process.stdout.readline().strip()
        assert (200, True) == (status, "You are signed out" in page)
        assert following.startswith(f"{base}/?token=")
        assert following not in (address, page)
        assert 401 == browser.open(f"{base}/inbox")[0]
        assert 401 == browser.open(address)[0]
        assert 200 == browser.open(following)[0]
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (0, "", "") == (process.returncode, out, err)


def test_with_an_application_the_runs_go_on(cli: CommandLine) -> None:
    [wait] = start_waiting(cli, cli.runner)
    with console(cli, "--app", PAYING) as address:
        browser, base = Browser(), address.partition("/?token=")[0]
        browser.open(address)
        browser.open(f"{base}/waits/{wait.id}/decision", {"decision": "approve"})
        wait_until(lambda: cli.runner.look("j1").status == "finished")


def start_waiting(cli: CommandLine, runner: Runner) -> Any:
    """Start a run that waits for an approval; return its waits."""
    cli.start(PAYING)
    return runner.look("j1").waits


def test_address_of_other_machines_needs_a_verifier(cli: CommandLine) -> None:
    for host in ("0.0.0.0", "10.0.0.5", "::"):  # noqa: S104 - it is refused
        done = cli("ui", "--host", host)
        assert (2, "") == (done.exit_code, done.out)
        assert "Pass --verify MODULE:NAME" in done.err


def test_port_that_is_taken_is_named(cli: CommandLine) -> None:
    (cli.folder / "runs").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = cli("ui", "--port", str(port))
    assert (2, True) == (done.exit_code, f"--port {port}" in done.err)


@pytest.mark.parametrize("package", ["uvicorn", "starlette"])
def test_missing_package_is_named(cli: CommandLine, package: str) -> None:
    program = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from continuations.cli import main; sys.exit(main())"
    )
    done = cli.run_in_process("ui", program=("-c", program))
    assert (2, True) == (done.exit_code, "install starlette sse-starlette" in done.err)
