"""`serve`: the worker loop in a process, alone or beside the HTTP API."""

from __future__ import annotations

import json
import signal
import sys
import urllib.request

import pytest

from continuations import Runner
from tests.cli.command_line import RUNNERS, CommandLine
from tests.cli.test_interruption import INTERRUPTIBLE_PROGRAM
from tests.ports import free_port
from tests.run_environment import wait_until

TELLING = f"{RUNNERS}:telling"


def is_finished(runner: Runner) -> bool:
    """Return whether run `j1` has ended."""
    return runner.look("j1").status == "finished"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_loop_works_until_a_signal(cli: CommandLine, number: signal.Signals) -> None:
    cli.start(TELLING, "--no-work")
    process = cli.start_process(
        *("serve", "--app", TELLING, "--interval", "0.05"),
        *("--context", f"{RUNNERS}:number"),
        program=("-c", INTERRUPTIBLE_PROGRAM),
    )
    wait_until(lambda: is_finished(cli.runner))

    process.send_signal(number)
    out, _ = process.communicate(timeout=60)

    assert (0, "") == (process.returncode, out)
    messages = cli.runner.look("j1").root.messages
    assert "the context is 5" in [each.get("content") for each in messages]


def test_http_api_is_served_beside_the_loop(cli: CommandLine) -> None:
    # Given an application with a verifier, and a stored run
    cli.write_file(
        "verify_written.py",
        "def verify(request):\n    return request.headers.get('x-user')\n",
    )
    cli.start(TELLING, "--no-work")
    port = free_port()
    process = cli.start_process(
        *("serve", "--app", TELLING, "--interval", "0.05", "--json"),
        *("--http", str(port), "--verify", "verify_written:verify"),
    )
    wait_until(lambda: is_finished(cli.runner))

    # When a client asks for the run, and the server gets one SIGTERM
    url = f"http://127.0.0.1:{port}/runs/j1"
    request = urllib.request.Request(url, headers={"x-user": "kim"})
    with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310 - http
        run = json.load(response)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    # Then the run is shown, and the exit code is 0; the log is JSON
    assert ("finished", 0) == (run["status"], process.returncode)
    lines = [json.loads(line) for line in err.splitlines()]
    assert all(line["level"] for line in lines)
    worked = [line for line in lines if line.get("run_id") == "j1"]
    assert ["finished"] == [line["outcome"] for line in worked]
    assert worked[0]["version_from"] < worked[0]["version_to"]
    assert worked[0]["seconds"] >= 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--verify", "app:verify"), "--verify and --links need --http"),
        (("--http", "localhost"), "--http must be PORT or HOST:PORT"),
        (("--http", "1:70000"), "--http must be PORT or HOST:PORT"),
        (("--http", "8000", "--verify", "nowhere_written:f"), "--verify: cannot load"),
    ],
)
def test_invalid_option_is_a_usage_error(
    cli: CommandLine, options: tuple[str, ...], expected: str
) -> None:
    done = cli("serve", "--app", TELLING, *options)

    assert (2, "", True) == (done.exit_code, done.out, expected in done.err)


def test_invalid_interval_is_an_error(cli: CommandLine) -> None:
    done = cli("serve", "--app", TELLING, "--interval", "0")

    assert (5, True) == (done.exit_code, "interval must be" in done.err)


def test_missing_uvicorn_is_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    done = cli("serve", "--app", TELLING, "--http", "8000")

    assert (2, "") == (done.exit_code, done.out)
    assert "pip install starlette uvicorn" in done.err


def test_worker_warns_of_a_missing_folder_and_waits_for_the_first_run(
    cli: CommandLine,
) -> None:
    """The folder appears while the worker runs; the worker does not make it."""
    process = cli.start_process(
        *("serve", "--app", TELLING, "--interval", "0.05"),
        *("--context", f"{RUNNERS}:number"),
        program=("-c", INTERRUPTIBLE_PROGRAM),
    )
    assert process.stderr is not None
    warning = process.stderr.readline()
    assert "cannot be read: it does not exist." in warning
    assert not (cli.folder / "runs").exists()

    cli.start(TELLING, "--no-work")
    wait_until(lambda: is_finished(cli.runner))

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert 0 == process.returncode
