"""--app, --store and their variables: what is wrong is said, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli import payroll_app

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

# Each test writes a module of a name of its own: what was imported stays imported.
MODULE_WITH_MISSING_IMPORT = "import continuations\n\nimport no_such_library\n"


def start(cli: CommandLine, app: str, *extra_arguments: str) -> tuple[int, str, str]:
    done = cli("start", "go", "--run-id", "j1", "--app", app, *extra_arguments)
    return done.exit_code, done.out.partition("\n")[0], done.err


@pytest.mark.parametrize("name", ["runner", "boss"])
def test_app_may_name_a_runner_or_an_agent(cli: CommandLine, name: str) -> None:
    cli.write_file("office_written.py", payroll_app.APP_SOURCE)

    assert (0, "Suspended", "") == start(cli, f"office_written:{name}")
    assert "j1: suspended" in cli("show", "j1").lines[0]


def test_app_may_name_an_async_runner(cli: CommandLine) -> None:
    more = "from continuations import AsyncRunner\nholder = lambda: None\n"
    more += "holder.runner = AsyncRunner(boss, store='file:runs')\n"
    cli.write_file("awaited_written.py", payroll_app.APP_SOURCE + more)

    assert (0, "Suspended", "") == start(cli, "awaited_written:holder.runner")


def test_environment_variables_replace_app_and_store(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an application and a store in the environment
    cli.write_file("variables_written.py", payroll_app.APP_SOURCE)
    monkeypatch.setenv("CONTINUATIONS_APP", "variables_written:boss")

    # When nothing is said on the command line, then they are meant
    assert "Suspended" == cli("start", "go", "--run-id", "j1").lines[0]
    assert 0 == cli("approve", cli.single_wait_id()).exit_code
    assert "Finished" == cli("resume", "j1").lines[0]


def test_store_of_the_runner_is_used_without_store_option(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.write_file("alone_written.py", payroll_app.APP_SOURCE)
    monkeypatch.delenv("CONTINUATIONS_STORE")

    assert 0 == start(cli, "alone_written:runner")[0]
    assert 2 == len(cli("waiting", "--app", "alone_written:runner").lines)


def test_store_that_differs_from_the_runners_is_rejected(cli: CommandLine) -> None:
    # Given a runner that keeps its runs in `runs`
    cli.write_file("placed_written.py", payroll_app.APP_SOURCE)
    app = "placed_written:runner"

    # When the command line names the same place, and another one
    same = start(cli, app, "--store", f"file:{cli.folder}/./runs")
    other = start(cli, app, "--store", "file:elsewhere")

    # Then the other one is refused, and both are told
    assert (0, "Suspended", "") == same
    assert (2, "") == other[:2]
    assert "elsewhere" in other[2]
    assert str(cli.folder / "runs") in other[2]


def test_resume_without_app_is_a_usage_error(cli: CommandLine) -> None:
    done = cli("resume", "j1")

    assert (2, "") == (done.exit_code, done.out)
    assert "--app" in done.err


def test_missing_store_is_a_usage_error(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTINUATIONS_STORE")
    cli.write_file("storeless_written.py", payroll_app.APP_SOURCE)

    for command in (["waiting"], ["show", "j1"], ["approve", "j1"], ["sweep"]):
        done = cli(*command)
        assert (2, True) == (done.exit_code, "CONTINUATIONS_STORE" in done.err)
    code, _, err = start(cli, "storeless_written:boss")
    assert (2, True) == (code, "which has no store of its own" in err)


def test_invalid_store_url_is_an_error(cli: CommandLine) -> None:
    done = cli("waiting", "--store", "runs")

    assert (5, "") == (done.exit_code, done.out)
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
def test_invalid_app_option_error_names_the_problem(
    cli: CommandLine, app: str, said: str
) -> None:
    cli.write_file("office_written.py", payroll_app.APP_SOURCE)

    code, out, err = start(cli, app)

    assert (2, "") == (code, out)
    assert said in err
    assert 1 == len(err.splitlines())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "broken",
            MODULE_WITH_MISSING_IMPORT,
            "line 3: ModuleNotFoundError: No module named",
        ),
        ("syntax", "x = (\n", "SyntaxError"),
        ("raising", "def f():\n    1 / 0\nf()\n", "line 2: ZeroDivisionError"),
        ("leaving", "raise SystemExit('bye')\n", "SystemExit: bye"),
    ],
)
def test_a_module_that_fails_is_not_a_missing_module(
    cli: CommandLine, name: str, text: str, said: str
) -> None:
    cli.write_file(f"{name}_written.py", text)

    code, out, err = start(cli, f"{name}_written:runner")

    assert (2, "") == (code, out)
    assert "importing it failed" in err
    assert said in err
    assert 1 == len(err.splitlines())


def test_failed_run_has_exit_code_1(cli: CommandLine) -> None:
    cli.write_file("failing_written.py", payroll_app.APP_SOURCE)
    start(cli, "failing_written:boss")
    cli("cancel", "j1", "--reason", "over\nand out")

    done = cli("resume", "j1", "--app", "failing_written:boss")

    assert (1, ["Failed", "run: j1", "error: cancelled", "  over", "  and out"]) == (
        done.exit_code,
        done.lines,
    )


def test_start_with_another_input_and_a_known_id_is_an_error(cli: CommandLine) -> None:
    cli.write_file("known_written.py", payroll_app.APP_SOURCE)
    start(cli, "known_written:boss")

    same = start(cli, "known_written:boss")
    other = cli("start", "another", "--run-id", "j1", "--app", "known_written:boss")

    assert (0, "Suspended") == same[:2]
    assert (5, True) == (other.exit_code, other.err.startswith("RunExists: "))


def test_an_error_of_the_model_names_the_run(cli: CommandLine) -> None:
    cli.write_file(
        "silent_written.py",
        "from continuations import Agent\n"
        "from continuations.models.scripted import ScriptedModel\n"
        "agent = Agent('a', model=ScriptedModel([]))\n",
    )

    done = cli("start", "go", "--app", "silent_written:agent")

    assert (5, "") == (done.exit_code, done.out)
    assert done.err.startswith("ModelError: ")
    assert "Traceback" not in done.err


def test_sweep_resumes_what_was_decided(cli: CommandLine) -> None:
    # Given a run that was decided, and nobody resumed it
    cli.write_file("swept_written.py", payroll_app.APP_SOURCE)
    start(cli, "swept_written:boss")
    cli("approve", cli.single_wait_id())

    # When the store is swept
    done = cli("sweep", "--app", "swept_written:boss")
    again = cli("sweep", "--app", "swept_written:boss")

    # Then the run has ended, and there is nothing more to do
    assert (0, ["looked at: 1", "Finished", "run: j1"]) == (
        done.exit_code,
        done.lines[:3],
    )
    assert (0, "looked at: 0\n") == (again.exit_code, again.out)


def test_sweep_without_app_reports_runs_that_it_cannot_resume(cli: CommandLine) -> None:
    cli.write_file("codeless_written.py", payroll_app.APP_SOURCE)
    start(cli, "codeless_written:boss")
    cli("approve", cli.single_wait_id())

    done = cli("sweep")

    assert (5, "looked at: 1\n") == (done.exit_code, done.out)
    assert "j1: AgentChanged: " in done.err


def test_timeout_without_wait_is_a_usage_error(cli: CommandLine) -> None:
    cli.write_file("patient_written.py", payroll_app.APP_SOURCE)

    code, _, err = start(cli, "patient_written:boss", "--timeout", "1")

    assert (2, True) == (code, "--timeout needs --wait-if-busy" in err)


def test_wait_option_does_not_wait_for_approvals(cli: CommandLine) -> None:
    cli.write_file("people_written.py", payroll_app.APP_SOURCE)

    assert (0, "Suspended", "") == start(cli, "people_written:boss", "--wait-if-busy")


def test_invalid_command_line_has_exit_code_2(cli: CommandLine) -> None:
    assert 2 == cli("approve").exit_code
    assert 2 == cli("aprove", "x").exit_code
    assert 2 == cli("waiting", "--nothing").exit_code
    assert 2 == cli().exit_code
    assert 0 == cli("--help").exit_code
    assert "Exit codes" in cli("--help").out
    assert (0, "0.1.0\n") == (cli("--version").exit_code, cli("--version").out)
