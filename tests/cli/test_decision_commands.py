"""approve, deny, answer: one decision, by somebody, of exactly one wait."""

from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING

import pytest

from continuations import Failed, Finished
from continuations.models.scripted import ToolCall
from tests.cli import payroll_app

if TYPE_CHECKING:
    from continuations import Runner
    from tests.cli.command_line import CommandLine


def start_waiting_run(runner: Runner) -> str:
    """Begin run `j1`; return the id of its wait."""
    runner.start("go", run_id="j1")
    [wait] = runner.waiting()
    return wait.id


def start_run_with_two_waits(cli: CommandLine) -> Runner:
    from continuations import Runner  # noqa: PLC0415 - a second runner, for this one

    agent = payroll_app.make_boss(
        payroll_app.transfer_from("first"), payroll_app.transfer_from("second")
    )
    runner = Runner(agent, store=f"file:{cli.folder / 'runs'}")
    runner.start("go", run_id="j1")
    return runner


def test_same_decision_twice_is_recorded_once(cli: CommandLine, runner: Runner) -> None:
    wait = start_waiting_run(runner)

    first = cli("approve", wait, "--reason", "fine")
    second = cli("approve", wait, "--reason", "fine")

    assert (0, first.out) == (second.exit_code, second.out)
    assert "reason: fine" in first.lines
    assert "next: continuations resume j1" in first.lines


def test_second_decision_error_names_the_first_decider(
    cli: CommandLine, runner: Runner
) -> None:
    # Given a wait that kim denied
    wait = start_waiting_run(runner)
    assert 0 == cli("deny", wait).exit_code

    # When bob approves it
    late = cli("approve", wait, "--by", "bob")

    # Then kim's decision stands, and bob is told
    assert (5, "") == (late.exit_code, late.out)
    assert late.err.startswith("AlreadyDecided: ")
    assert "deny by kim" in late.err
    assert 1 == len(late.err.splitlines())


def test_a_denial_reaches_the_model(cli: CommandLine, runner: Runner) -> None:
    wait = start_waiting_run(runner)

    cli("deny", wait, "--reason", "too much")

    assert isinstance(runner.resume("j1"), Finished)
    assert "too much" not in cli("show", "j1").out  # it is over, nothing waits


def test_edited_arguments_are_checked(cli: CommandLine, runner: Runner) -> None:
    # Given a wait
    wait = start_waiting_run(runner)

    # When it is approved with arguments that are not JSON, no object, do not fit
    broken = cli("approve", wait, "--arguments", "{cents: 1}")
    number = cli("approve", wait, "--arguments", "1")
    unfit = cli("approve", wait, "--arguments", '{"cents": "x"}')

    # Then nothing is recorded, and good ones are taken, from a file too
    assert [2, 5, 5] == [broken.exit_code, number.exit_code, unfit.exit_code]
    assert "is not JSON" in broken.err
    assert unfit.err.startswith("DecisionRefused: ")
    cli.write_file("edit.json", '{"source": "a", "target": "b", "cents": 7}')
    done = cli("approve", wait, "--arguments", "@edit.json")
    assert 0 == done.exit_code
    assert 'edited arguments: {"cents":7,"source":"a","target":"b"}' in done.lines
    assert isinstance(runner.resume("j1"), Finished)


def test_missing_arguments_file_is_a_usage_error(
    cli: CommandLine, runner: Runner
) -> None:
    done = cli("approve", start_waiting_run(runner), "--arguments", "@none.json")

    assert 2 == done.exit_code
    assert "none.json" in done.err
    assert 1 == len(list(runner.waiting()))


def test_answer_value_is_json_unless_text_option_is_given(
    cli: CommandLine, runner: Runner
) -> None:
    # Given a wait for an approval, which takes no answer
    wait = start_waiting_run(runner)

    # When it is answered
    word = cli("answer", wait, "yes")
    text = cli("answer", wait, "yes", "--text")
    number = cli("answer", wait, "-5")

    # Then a bare word is refused with a hint; the others get as far as the wait
    assert (2, True) == (word.exit_code, "--text" in word.err)
    assert [5, 5] == [text.exit_code, number.exit_code]
    assert "it waits for an approval" in text.err
    assert "it waits for an approval" in number.err


def test_answer_does_not_decide_an_approval(cli: CommandLine, runner: Runner) -> None:
    wait = start_waiting_run(runner)

    codes = [
        cli("answer", wait, value).exit_code
        for value in ("true", "null", '""', '"approve"')
    ]

    assert [5, 5, 5, 5] == codes
    assert 1 == len(list(runner.waiting()))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("approval-01m7xzj8asw1ramfcps55vy294@j1", "WaitNotFound"),
        ("approval-1@j1", "WaitNotFound"),
        ("no-such-run", "RunNotFound"),
        ("../etc", "InvalidId"),
        ("", "InvalidId"),
    ],
)
def test_unknown_wait_id_is_an_error(
    cli: CommandLine, runner: Runner, name: str, error: str
) -> None:
    start_waiting_run(runner)

    done = cli("approve", name)

    assert (5, "") == (done.exit_code, done.out)
    assert done.err.startswith(f"{error}: ")
    assert 1 == len(list(runner.waiting()))


def test_run_id_in_place_of_a_wait_id_is_rejected(cli: CommandLine) -> None:
    """R-C3, R-C4: typed twice, a run's id would approve what nobody has seen."""
    # Given a run with two open waits
    runner = start_run_with_two_waits(cli)
    first, second = (wait.id for wait in runner.look("j1").waits)

    # When it is approved by the run's id
    refused = cli("approve", "j1")

    # Then both are listed and none is decided, also when only one is left
    assert 2 == refused.exit_code
    assert first in refused.err
    assert second in refused.err
    assert 2 == len(list(runner.waiting()))
    assert 0 == cli("deny", first).exit_code
    assert [second] == cli("waiting", "--ids").lines
    assert 2 == cli("approve", "j1").exit_code
    assert [second] == [wait.id for wait in runner.waiting()]


def test_approve_with_the_id_of_a_finished_run_is_rejected(
    cli: CommandLine, runner: Runner
) -> None:
    cli("approve", start_waiting_run(runner))
    runner.resume("j1")

    done = cli("approve", "j1")

    assert (2, True) == (done.exit_code, "Open there: none" in done.err)


def test_output_names_the_decider(
    cli: CommandLine, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given nobody is named, and $USER pretends to be somebody
    wait = start_waiting_run(runner)
    monkeypatch.delenv("CONTINUATIONS_BY")
    monkeypatch.setenv("USER", "ceo")
    monkeypatch.setenv("LOGNAME", "ceo")
    user = pwd.getpwuid(os.getuid()).pw_name

    # When a wait is decided
    done = cli("approve", wait)

    # Then it is by the user of the process, and that is told
    assert done.lines[0].startswith(f"approve by {user} at ")
    assert f"by {user}: the user of this process" in done.err


def test_unnamed_user_must_pass_by_option(
    cli: CommandLine, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = start_waiting_run(runner)
    monkeypatch.delenv("CONTINUATIONS_BY")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)

    done = cli("approve", wait)

    assert (2, True) == (done.exit_code, "--by" in done.err)
    assert 1 == len(list(runner.waiting()))


def test_cancel_ends_a_run_and_its_waits(cli: CommandLine, runner: Runner) -> None:
    # Given a waiting run
    wait = start_waiting_run(runner)

    # When it is cancelled, twice
    done = cli("cancel", "j1", "--reason", "no more")
    again = cli("cancel", "j1")

    # Then it has ended, its wait with it, and a decision is too late
    assert (0, "j1: cancelled\n") == (done.exit_code, done.out)
    assert (0, done.out) == (again.exit_code, again.out)
    assert isinstance(runner.resume("j1"), Failed)
    late = cli("approve", wait)
    assert (5, True) == (late.exit_code, late.err.startswith("Cancelled: "))
    assert "no more" in cli("show", "j1").out


def test_a_finished_run_is_not_cancelled(cli: CommandLine, runner: Runner) -> None:
    cli("approve", start_waiting_run(runner))
    runner.resume("j1")

    done = cli("cancel", "j1")

    assert (1, True) == (done.exit_code, "finished before" in done.out)


def test_answer_settles_a_call_with_unknown_outcome(cli: CommandLine) -> None:
    # Given a call that was started by a process which died
    from continuations import Agent, Runner, tool  # noqa: PLC0415 - this one's own
    from continuations.models.scripted import ScriptedModel  # noqa: PLC0415

    cli.write_file(
        "dying.py",
        "import os\n"
        "from continuations import Agent, Runner, tool\n"
        "from continuations.models.scripted import ScriptedModel, ToolCall\n"
        "@tool\n"
        "def pay() -> int:\n"
        "    'Pay.'\n"
        "    os.kill(os.getpid(), 9)\n"
        "    return 0\n"
        "agent = Agent('a', tools=[pay],\n"
        "    model=ScriptedModel([ToolCall('pay'), 'done']))\n"
        "runner = Runner(agent, store='file:runs', lease=2)\n",
    )
    died = cli.run_in_process("start", "go", "--run-id", "u1", "--app", "dying:runner")
    assert -9 == died.exit_code

    # When it is resumed, it waits for somebody who knows; who answers
    waits = cli.run_in_process(
        "resume", "u1", "--app", "dying:runner", "--wait-if-busy"
    )
    [row] = json.loads(cli("waiting", "--json").out)
    answered = cli("answer", row["id"], "42")

    # Then the answer is the call's result
    assert (0, "Suspended") == (waits.exit_code, waits.lines[0])
    assert ("unknown", "u1") == (row["kind"], row["run_id"])
    assert (0, "value: 42") == (answered.exit_code, answered.lines[2])

    @tool
    def pay() -> int:
        """Pay."""
        return 0

    model = ScriptedModel([ToolCall("pay"), "done"])
    again = Runner(Agent("a", tools=[pay], model=model), store="file:runs")
    assert isinstance(again.resume("u1"), Finished)
    assert "42" == model.requests[0].messages[-1].data["content"]
