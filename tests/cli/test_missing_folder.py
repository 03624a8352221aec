"""A command that reads does not take a missing folder or file for an empty store."""

from __future__ import annotations

import pytest

from continuations.cli.program import COMMANDS
from tests.cli.command_line import RUNNERS, CommandLine

APP = ("--app", f"{RUNNERS}:boss")
STORE = "the store"
WAIT = f"j1@{'0' * 16}.w1"
# The commands that make the folder, that wait for it, or that use no store.
MAKERS = {"start", "chat", "post", "publish", "adopt"}
OTHERS = {"serve", "mcp", "completion", "migrate"}
READERS: dict[str, tuple[str, ...]] = {
    "inbox": ("--json", "--by", "kim"),
    "waiting": ("--json",),
    "runs": ("--json",),
    "show": ("j1",),
    "watch": ("j1",),
    "history": ("j1",),
    "diff": ("j1", "1", "2"),
    "audit": ("j1",),
    "approve": (WAIT,),
    "deny": (WAIT,),
    "answer": (WAIT, "1"),
    "fail": (WAIT, "no"),
    "decide": (f'[{{"wait_id": "{WAIT}", "decision": "approve"}}]',),
    "grants": ("j1",),
    "revoke": ("j1", "1"),
    "resume": ("j1", *APP),
    "send": ("j1", "hello"),
    "signal": ("j1", "paid"),
    "signals": ("j1",),
    "drop-signals": ("j1", "--name", "paid"),
    "heartbeat": (WAIT, "--extend", "60"),
    "wake": ("j1",),
    "pause": ("j1",),
    "unpause": ("j1",),
    "cancel": ("j1",),
    "fork": ("j1", "--version", "1"),
    "rewind": ("j1", "--version", "1", "--yes"),
    "drift": APP,
    "sweep": (),
    "ui": (),
    "erase": ("j1", "--yes"),
    "prune": ("--older-than", "1d", "--yes"),
    "copy": (STORE, "sqlite:target.db"),
    "doctor": ("j1",),
}


@pytest.fixture(params=["file", "sqlite"], autouse=True)
def scheme(
    request: pytest.FixtureRequest, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Name another store than the fixture `cli` does, which is made before."""
    del cli
    monkeypatch.setenv("CONTINUATIONS_STORE", f"{request.param}:runs")
    return str(request.param)


def test_each_command_reads_or_makes_the_folder() -> None:
    assert COMMANDS.keys() == READERS.keys() | MAKERS | OTHERS


@pytest.mark.parametrize("name", READERS)
def test_command_that_reads_refuses_a_missing_folder(
    cli: CommandLine, scheme: str, name: str
) -> None:
    words = (f"{scheme}:runs" if each is STORE else each for each in READERS[name])
    result = cli(name, *words)

    assert (5, "") == (result.exit_code, result.out), result
    folder = cli.folder / "runs"
    assert f"store {folder} cannot be read: it does not exist." in result.err
    assert "Correct the URL or mount its disk." in result.err
    assert not folder.exists()


def test_first_run_makes_the_folder(cli: CommandLine) -> None:
    assert 0 == cli("start", "go", "--run-id", "j1", *APP).exit_code

    assert 0 == cli("runs").exit_code


def test_store_is_named_by_its_url(cli: CommandLine, scheme: str) -> None:
    assert 0 == cli("post", "support", "hello", "--key", "k").exit_code

    assert f"No open waits in {scheme}:{cli.folder / 'runs'}." in cli("waiting").err


def test_first_message_makes_the_folder(cli: CommandLine) -> None:
    assert 0 == cli("post", "support", "hello", "--key", "k").exit_code

    assert 0 == cli("runs").exit_code
