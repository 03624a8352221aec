"""--app, --store and their variables: what is wrong is said, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli import office

if TYPE_CHECKING:
    from tests.cli.command import Commands

# Each test writes a module of a name of its own: what was imported stays imported.
BROKEN = "import continuations\n\nimport no_such_library\n"


def start(cli: Commands, app: str, *more: str) -> tuple[int, str, str]:
    done = cli("start", "go", "--run-id", "j1", "--app", app, *more)
    return done.code, done.out.partition("\n")[0], done.err


@pytest.mark.parametrize("name", ["runner", "boss"])
def test_a_runner_or_an_agent_will_do(cli: Commands, name: str) -> None:
    cli.write("office_written.py", office.APP)

    assert (0, "Suspended", "") == start(cli, f"office_written:{name}")
    assert "j1: suspended" in cli("show", "j1").lines[0]


def test_an_asynchronous_runner_will_do(cli: Commands) -> None:
    more = "from continuations import AsyncRunner\nholder = lambda: None\n"
    more += "holder.runner = AsyncRunner(boss, store='file:runs')\n"
    cli.write("awaited_written.py", office.APP + more)

    assert (0, "Suspended", "") == start(cli, "awaited_written:holder.runner")


def test_the_variables_do_for_both(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an application and a store in the environment
    cli.write("variables_written.py", office.APP)
    monkeypatch.setenv("CONTINUATIONS_APP", "variables_written:boss")

    # When nothing is said on the command line, then they are meant
    assert "Suspended" == cli("start", "go", "--run-id", "j1").lines[0]
    assert 0 == cli("approve", cli.only_wait()).code
    assert "Finished" == cli("resume", "j1").lines[0]


def test_a_runner_alone_tells_the_store(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write("alone_written.py", office.APP)
    monkeypatch.delenv("CONTINUATIONS_STORE")

    assert 0 == start(cli, "alone_written:runner")[0]
    assert 2 == len(cli("waiting", "--app", "alone_written:runner").lines)


def test_a_runner_and_another_store_are_refused(cli: Commands) -> None:
    # Given a runner that keeps its runs in `runs`
    cli.write("placed_written.py", office.APP)
    app = "placed_written:runner"

    # When the command line names the same place, and another one
    same = start(cli, app, "--store", f"file:{cli.folder}/./runs")
    other = start(cli, app, "--store", "file:elsewhere")

    # Then the other one is refused, and both are told
    assert (0, "Suspended", "") == same
    assert (2, "") == other[:2]
    assert "elsewhere" in other[2]
    assert str(cli.folder / "runs") in other[2]


def test_no_application(cli: Commands) -> None:
    done = cli("resume", "j1")

    assert (2, "") == (done.code, done.out)
    assert "--app" in done.err


def test_no_store(cli: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTINUATIONS_STORE")
    cli.write("storeless_written.py", office.APP)

    for command in (["waiting"], ["show", "j1"], ["approve", "j1"], ["sweep"]):
        done = cli(*command)
        assert (2, True) == (done.code, "CONTINUATIONS_STORE" in done.err)
    code, _, err = start(cli, "storeless_written:boss")
    assert (2, True) == (code, "which has no store of its own" in err)


def test_a_store_that_is_none(cli: Commands) -> None:
    done = cli("waiting", "--store", "runs")

    assert (5, "") == (done.code, done.out)
    assert done.err.startswith("InvalidInput: ")


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nowhere_written:runner", "there is no module nowhere_written."),
        ("nowhere_written.deep:runner", "there is no module nowhere_written."),
        ("office_written.py:runner", "there is no module office_written.py."),
        ("office_written", "MODULE:NAME"),
        (":runner", "MODULE:NAME"),
        ("office_written:", "MODULE:NAME"),
        (".office_written:runner", "MODULE:NAME"),
        ("office_written:nothing", "has no nothing"),
        ("office_written:balance", "is of type Tool"),
        ("office_written:Runner", "is of type type"),
    ],
)
def test_what_is_wrong_with_an_application_is_said(
    cli: Commands, app: str, said: str
) -> None:
    cli.write("office_written.py", office.APP)

    code, out, err = start(cli, app)

    assert (2, "") == (code, out)
    assert said in err
    assert 1 == len(err.splitlines())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("broken", BROKEN, "line 3: ModuleNotFoundError: No module named"),
        ("syntax", "x = (\n", "SyntaxError"),
        ("raising", "def f():\n    1 / 0\nf()\n", "line 2: ZeroDivisionError"),
        ("leaving", "raise SystemExit('bye')\n", "SystemExit: bye"),
    ],
)
def test_a_module_that_fails_is_not_a_missing_module(
    cli: Commands, name: str, text: str, said: str
) -> None:
    cli.write(f"{name}_written.py", text)

    code, out, err = start(cli, f"{name}_written:runner")

    assert (2, "") == (code, out)
    assert "importing it failed" in err
    assert said in err
    assert 1 == len(err.splitlines())


def test_a_failed_run_is_told_by_the_code(cli: Commands) -> None:
    cli.write("failing_written.py", office.APP)
    start(cli, "failing_written:boss")
    cli("cancel", "j1", "--reason", "over\nand out")

    done = cli("resume", "j1", "--app", "failing_written:boss")

    assert (1, ["Failed", "run: j1", "error: cancelled", "  over", "  and out"]) == (
        done.code,
        done.lines,
    )


def test_starting_another_task_under_a_known_id(cli: Commands) -> None:
    cli.write("known_written.py", office.APP)
    start(cli, "known_written:boss")

    same = start(cli, "known_written:boss")
    other = cli("start", "another", "--run-id", "j1", "--app", "known_written:boss")

    assert (0, "Suspended") == same[:2]
    assert (5, True) == (other.code, other.err.startswith("RunExists: "))


def test_an_error_of_the_model_names_the_run(cli: Commands) -> None:
    cli.write(
        "silent_written.py",
        "from continuations import Agent\n"
        "from continuations.models.scripted import ScriptedModel\n"
        "agent = Agent('a', model=ScriptedModel([]))\n",
    )

    done = cli("start", "go", "--app", "silent_written:agent")

    assert (5, "") == (done.code, done.out)
    assert done.err.startswith("ModelError: ")
    assert "Traceback" not in done.err


def test_sweep_resumes_what_was_decided(cli: Commands) -> None:
    # Given a run that was decided, and nobody resumed it
    cli.write("swept_written.py", office.APP)
    start(cli, "swept_written:boss")
    cli("approve", cli.only_wait())

    # When the store is swept
    done = cli("sweep", "--app", "swept_written:boss")
    again = cli("sweep", "--app", "swept_written:boss")

    # Then the run has ended, and there is nothing more to do
    assert (0, ["looked at: 1", "Finished", "run: j1"]) == (done.code, done.lines[:3])
    assert (0, "looked at: 0\n") == (again.code, again.out)


def test_sweep_without_code_tells_what_it_cannot_resume(cli: Commands) -> None:
    cli.write("codeless_written.py", office.APP)
    start(cli, "codeless_written:boss")
    cli("approve", cli.only_wait())

    done = cli("sweep")

    assert (5, "looked at: 1\n") == (done.code, done.out)
    assert "j1: AgentChanged: " in done.err


def test_patience_needs_something_to_be_patient_with(cli: Commands) -> None:
    cli.write("patient_written.py", office.APP)

    code, _, err = start(cli, "patient_written:boss", "--timeout", "1")

    assert (2, True) == (code, "--timeout bounds --wait" in err)


def test_wait_does_not_wait_for_people(cli: Commands) -> None:
    cli.write("people_written.py", office.APP)

    assert (0, "Suspended", "") == start(cli, "people_written:boss", "--wait")


def test_a_wrong_command_line_is_two(cli: Commands) -> None:
    assert 2 == cli("approve").code
    assert 2 == cli("aprove", "x").code
    assert 2 == cli("waiting", "--nothing").code
    assert 2 == cli().code
    assert 0 == cli("--help").code
    assert "Exit codes" in cli("--help").out
    assert (0, "0.1.0\n") == (cli("--version").code, cli("--version").out)
