"""--app, --store and their variables: an error names the problem and whose it is."""

from __future__ import annotations

import pytest

from tests.cli.command_line import RUNNERS, CommandLine


@pytest.mark.parametrize("name", ["runner", "boss", "holder.runner"])
def test_app_may_name_a_runner_an_agent_or_an_async_runner(
    cli: CommandLine, name: str
) -> None:
    started = cli.start(f"{RUNNERS}:{name}")

    assert (0, "Suspended", "") == (started.exit_code, started.lines[0], started.err)
    assert "j1: suspended" in cli("show", "j1").lines[0]


def test_app_may_be_a_module_of_the_working_directory(cli: CommandLine) -> None:
    cli.write_file("payroll_written.py", f"from {RUNNERS} import boss\n")

    assert "Suspended" == cli.start("payroll_written:boss").lines[0]


def test_environment_variables_replace_app_and_store(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTINUATIONS_APP", f"{RUNNERS}:boss")

    assert "Suspended" == cli("start", "go", "--run-id", "j1").lines[0]
    assert 0 == cli("approve", cli.single_wait_id()).exit_code
    assert "Finished" == cli("resume", "j1").lines[0]


def test_store_of_the_runner_is_used_without_store_option(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTINUATIONS_STORE")

    assert 0 == cli.start(f"{RUNNERS}:runner").exit_code
    assert 2 == len(cli("waiting", "--app", f"{RUNNERS}:runner").lines)


def test_store_that_differs_from_the_runners_is_rejected(cli: CommandLine) -> None:
    # Given a runner that keeps its runs in `runs`
    app = f"{RUNNERS}:runner"

    # When the command line names the same store, and another one
    same = cli.start(app, "--store", f"file:{cli.folder}/./runs")
    other = cli.start(app, "--store", "file:elsewhere")

    # Then the other one is rejected, and the error names both
    assert (0, "Suspended", "") == (same.exit_code, same.lines[0], same.err)
    assert (2, "") == (other.exit_code, other.out)
    assert "elsewhere" in other.err
    assert f"keeps its runs in file:{cli.folder / 'runs'}, but" in other.err
    # So is a store of another kind: the command would act on the runner's runs
    for store in ("sqlite:elsewhere.db", "memory:", "postgresql://nowhere/app"):
        for command in (["sweep"], ["resume", "j1"], ["prune", "--yes"]):
            wrong = cli(*command, "--app", app, "--store", store)
            assert (2, "") == (wrong.exit_code, wrong.out)
            assert "keeps its runs in" in wrong.err


def test_resume_without_app_is_a_usage_error(cli: CommandLine) -> None:
    done = cli("resume", "j1")

    assert (2, "") == (done.exit_code, done.out)
    assert done.err.startswith("Error: --app is missing: `resume` runs your agents.")


def test_missing_store_is_a_usage_error(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTINUATIONS_STORE")

    for command in (["waiting"], ["show", "j1"], ["approve", "j1"], ["sweep"]):
        done = cli(*command)
        assert (2, True) == (done.exit_code, "--store is missing, and" in done.err)
    for command in (["publish", "receipt"], ["chat", "--key", "k", "hello"]):
        assert 2 == cli(*command).exit_code
    assert not list(cli.folder.glob("runs.db*"))


def test_default_store_is_a_file_in_this_folder(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`start` makes it; a command without agents only finds it."""
    monkeypatch.delenv("CONTINUATIONS_STORE")
    missing = cli("show", "j1", "--app", f"{RUNNERS}:boss")

    started = cli.start(f"{RUNNERS}:boss")
    waiting = cli("waiting", "--ids")
    wait = waiting.lines[0]
    decided = cli("approve", wait, "--by", "kim")
    resumed = cli("resume", "j1", "--app", f"{RUNNERS}:boss")

    assert (5, True) == (missing.exit_code, "runs.db" in missing.err)
    assert (0, "Suspended") == (started.exit_code, started.lines[0])
    assert [0, 0, 0] == [each.exit_code for each in (waiting, decided, resumed)]
    assert (cli.folder / "runs.db").exists()


def test_invalid_store_url_is_an_error(cli: CommandLine) -> None:
    done = cli("waiting", "--store", "runs")

    assert (5, "") == (done.exit_code, done.out)
    assert done.err.startswith("InvalidInput: ")


@pytest.mark.parametrize(
    ("app", "expected"),
    [
        ("nowhere_written:runner", "there is no module 'nowhere_written'"),
        ("sample_written", "is not of the form module:name"),
        ("sample_written:nothing", "has no 'nothing'"),
        ("sample_written:ask", "is of type Tool"),
        ("sample_written:Runner", "is of type type"),
    ],
)
def test_invalid_app_option_error_names_the_problem(
    cli: CommandLine, app: str, expected: str
) -> None:
    cli.write_file("sample_written.py", f"from {RUNNERS} import Runner, ask\n")

    done = cli.start(app)

    assert (2, "") == (done.exit_code, done.out)
    assert expected in done.err
    assert 1 == len(done.err.splitlines())


def test_a_module_that_fails_is_a_usage_error_with_its_line(cli: CommandLine) -> None:
    cli.write_file("failing_written.py", "def f():\n    1 / 0\nf()\n")

    done = cli.start("failing_written:runner")

    assert (2, "") == (done.exit_code, done.out)
    assert done.err.startswith("Error: --app: ")
    assert "line 2: ZeroDivisionError" in done.err
    assert 1 == len(done.err.splitlines())


def test_failed_run_has_exit_code_1(cli: CommandLine) -> None:
    cli.start(f"{RUNNERS}:boss")
    cli("cancel", "j1", "--reason", "over\nand out")

    done = cli("resume", "j1", "--app", f"{RUNNERS}:boss")

    assert (1, ["Failed", "run: j1", "error: cancelled", "  over", "  and out"]) == (
        done.exit_code,
        done.lines,
    )


def test_start_with_another_input_and_a_known_id_is_an_error(cli: CommandLine) -> None:
    cli.start(f"{RUNNERS}:boss")

    same = cli.start(f"{RUNNERS}:boss")
    other = cli("start", "another", "--run-id", "j1", "--app", f"{RUNNERS}:boss")

    assert (0, "Suspended") == (same.exit_code, same.lines[0])
    assert (5, True) == (other.exit_code, other.err.startswith("RunExists: "))


def test_an_error_of_the_model_names_the_run(cli: CommandLine) -> None:
    done = cli("start", "go", "--app", f"{RUNNERS}:silent")

    assert (5, "") == (done.exit_code, done.out)
    assert done.err.startswith("ModelError: ")
    assert "Traceback" not in done.err


def test_sweep_resumes_a_decided_run(cli: CommandLine) -> None:
    # Given a run whose wait is decided and that was not resumed
    cli.start(f"{RUNNERS}:boss")
    cli("approve", cli.single_wait_id())

    # When the store is swept twice
    done = cli("sweep", "--app", f"{RUNNERS}:boss")
    again = cli("sweep", "--app", f"{RUNNERS}:boss")

    # Then the first sweep ends the run, and the second finds no run that is due
    assert (0, ["runs checked: 1", "Finished", "run: j1"]) == (
        done.exit_code,
        done.lines[:3],
    )
    assert (0, "runs checked: 0\n") == (again.exit_code, again.out)


def test_sweep_without_app_skips_runs_that_it_cannot_resume(cli: CommandLine) -> None:
    """It names them and leaves them as they are: a sweep with the agents is next."""
    cli.start(f"{RUNNERS}:boss")
    cli("approve", cli.single_wait_id())

    done = cli("sweep")

    assert (0, "runs checked: 1") == (done.exit_code, done.lines[0])
    assert done.lines[1].startswith("skipped: j1: ")
    assert "suspended" in cli("show", "j1").lines[0]
    assert "Finished" in cli("sweep", "--app", f"{RUNNERS}:boss").out


def test_timeout_without_wait_if_busy_is_a_usage_error(cli: CommandLine) -> None:
    done = cli.start(f"{RUNNERS}:boss", "--timeout", "1")

    assert (2, True) == (done.exit_code, "--timeout needs --wait-if-busy" in done.err)


def test_wait_if_busy_does_not_wait_for_approvals(cli: CommandLine) -> None:
    started = cli.start(f"{RUNNERS}:boss", "--wait-if-busy")

    assert (0, "Suspended", "") == (started.exit_code, started.lines[0], started.err)


def test_invalid_command_line_has_exit_code_2(cli: CommandLine) -> None:
    assert 2 == cli("approve").exit_code
    assert 2 == cli("aprove", "x").exit_code
    assert 2 == cli("waiting", "--nothing").exit_code
    assert 2 == cli().exit_code


def test_help_lists_commands_and_exit_codes_in_order(cli: CommandLine) -> None:
    done = cli("--help")

    names = [line.split()[0] for line in done.lines if line.startswith("  ")]
    commands = ["start", "waiting", "show", "approve", "deny", "answer"]
    assert commands == [name for name in names if name in commands]
    assert 0 == done.exit_code
    assert "Exit codes:" in done.out
    assert "  4    another process holds the claim on the run" in done.out
    assert (0, "0.1.0\n") == (cli("--version").exit_code, cli("--version").out)
