"""copy: bring runs to another store, and say what is left to do."""

from __future__ import annotations

import json

import pytest

from continuations import Approve, Runner
from continuations.errors import RunBusy
from continuations_storage import faults, open_store
from continuations_storage.faults import Crash, FaultyStore
from tests.cli.command_line import RUNNERS, CommandLine
from tests.cli.sample_agents import make_boss
from tests.present.schema_check import assert_matches_schema

APP = ("--app", f"{RUNNERS}:boss")
COPY = ("copy", "file:runs", "sqlite:copy.db")
THERE = ("--store", "sqlite:copy.db")


def test_runs_wait_in_the_target_and_go_on_there(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1", labels={"team": "hr"})
    cli.runner.start("go", run_id="j2")

    copied = cli(*COPY)

    assert 0 == copied.exit_code, copied.err
    names = f"sqlite:{cli.folder}/copy.db", f"file:{cli.folder}/runs"
    following = "next: let only {} go on with these runs, and remove {}".format(*names)
    assert ["copied: 2 runs, 11 objects", following] == copied.lines
    assert cli("waiting", "--ids").lines == cli("waiting", "--ids", *THERE).lines
    assert ["j1"] == cli("runs", "--label", "team=hr", "--ids", *THERE).lines
    wait_id = cli("waiting", "--ids", *THERE).lines[0]
    assert 0 == cli("approve", wait_id, *THERE).exit_code
    assert 0 == cli("resume", wait_id.split("@")[1], *THERE, *APP).exit_code
    again = cli(*COPY)
    assert 1 == again.exit_code
    assert [
        "copied: 0 runs, 0 objects",
        "unchanged: 1 run",
        "not copied: 1 run",
        "next: correct the errors below, and repeat this command",
    ] == again.lines
    assert "RunExists: run j" in again.err


def test_chosen_runs_are_copied(cli: CommandLine) -> None:
    for name in ("j1", "j2", "j3"):
        cli.runner.start("go", run_id=name)

    first = cli(*COPY, "--run", "j1")
    assert "go on with these runs, and resume none of them in file:" in first.lines[-1]
    copied = cli(*COPY, "--run", "j1", "--run", "j3", "--json")

    form = json.loads(copied.out)
    assert_matches_schema("copy_result", form)
    assert (["j3"], ["j1"]) == (form["copied"], form["unchanged"])
    assert ["j1", "j3"] == cli("runs", "--ids", *THERE).lines
    missing = cli(*COPY, "--run", "j4")
    assert 1 == missing.exit_code
    assert "j4: RunNotFound: run j4 was not found" in missing.err


def test_an_interrupted_copy_says_how_it_goes_on(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    cli.runner.start("go", run_id="j1")
    monkeypatch.setattr(Runner, "copy_to", interrupted)

    copied = cli(*COPY)

    assert (130, "") == (copied.exit_code, copied.out)
    assert "interrupted; repeat this command, and it goes on\n" == copied.err


def test_run_of_a_live_worker_is_copied_later(cli: CommandLine) -> None:
    """The exit code says: repeat the command."""
    cli.runner.start("go", run_id="j1")
    dies = faults.on("create", faults.crashed("before"), prefix="runs/j2/", skip=1)
    dying = FaultyStore(open_store(f"file:{cli.folder}/runs"), dies)
    with pytest.raises(Crash):
        Runner(make_boss(), store=dying).start("go", run_id="j2")

    busy = cli(*COPY)

    assert 4 == busy.exit_code
    assert "j2: RunBusy: run j2 was not copied: a worker of the source holds" in (
        busy.err
    )
    assert "next: stop the processes that use file:" in busy.lines[-1]
    assert ["j1"] == cli("runs", "--ids", *THERE).lines


def test_commands_say_that_a_run_is_being_copied(cli: CommandLine) -> None:
    """The advice of the error works: the copy is repeated."""
    cli.runner.start("go", run_id="j1")
    target = open_store(f"sqlite:{cli.folder}/copy.db")
    dies = faults.on("create", faults.crashed("after"), prefix="runs/j1/v/", skip=1)
    with pytest.raises(Crash):
        cli.runner.copy_to(FaultyStore(target, dies))

    for words in (("show", "j1"), ("resume", "j1", *APP), ("erase", "j1", "--yes")):
        shown = cli(*words, *THERE)
        assert 4 == shown.exit_code
        assert "run j1 is not complete in this store: it is being copied" in shown.err
        assert "Wait for the copy, or repeat it." in shown.err
    with pytest.raises(RunBusy):
        Runner([], store=target).send("j1", "hello")
    assert [] == cli("waiting", "--ids", *THERE).lines
    assert [] == cli("runs", "--ids", *THERE).lines
    doctor = cli("doctor", "j1", *THERE)
    assert 4 == doctor.exit_code

    assert 0 == cli(*COPY).exit_code
    assert 0 == cli("doctor", "j1", *THERE).exit_code
    [wait] = Runner([], store=target).waiting()
    Runner(make_boss(), store=target).decide(wait.id, Approve(by="kim"))


def test_what_this_release_does_not_know_is_named(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    (cli.folder / "runs" / "notes").mkdir()
    (cli.folder / "runs" / "notes" / "mine").write_bytes(b"x")

    copied = cli(*COPY)

    assert 1 == copied.exit_code
    assert "notes/mine was not copied: this release does not know" in copied.err
    assert "copied: 1 run" in copied.lines[0]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("file:none", "sqlite:copy.db"), 5, "cannot be read: it does not exist"),
        (("file:runs", "file:runs"), 5, "must be another store than the source"),
        (("file:runs", "nothing"), 5, "store 'nothing'"),
        (("nothing", "file:runs"), 5, "store 'nothing'"),
        (("file:runs", "sqlite:copy.db", "--run", "a/b"), 5, "run_ids 'a/b'"),
        (("file:runs",), 2, "TARGET"),
    ],
)
def test_invalid_command_lines_copy_nothing(
    cli: CommandLine, words: tuple[str, ...], code: int, text: str
) -> None:
    cli.runner.start("go", run_id="j1")
    refused = cli("copy", *words)
    assert (code, "") == (refused.exit_code, refused.out)
    assert text in refused.err
    assert not (cli.folder / "copy.db").exists()
