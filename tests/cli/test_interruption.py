"""Ctrl-C and SIGTERM while `start` or `resume` works on a run."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

import pytest

from continuations import Agent, AsyncRunner, Continuation, tool
from continuations.cli import interruption
from continuations.cli.interruption import StopSwitch, advance_until_stopped
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.cli.command_line import RUNNERS, CommandLine

SIGNALS = pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
# A shell that starts the tests in the background makes them, and every child, ignore
# SIGINT. This program restores Python's own handling.
INTERRUPTIBLE_PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from continuations.cli import main
sys.exit(main())
"""


def start_run(cli: CommandLine, name: str, line: str) -> subprocess.Popen[str]:
    """Start run `s1` of a runner; return once it has printed a line."""
    process = cli.start_process(
        *("start", "go", "--run-id", "s1", "--app", f"{RUNNERS}:{name}"),
        program=("-c", INTERRUPTIBLE_PROGRAM),
    )
    assert process.stdout is not None
    assert f"{line}\n" == process.stdout.readline()
    return process


@SIGNALS
def test_signal_completes_the_call_and_suspends_the_run(
    cli: CommandLine, number: signal.Signals, exit_code: int
) -> None:
    # Given a command whose tool, which may not be repeated, works for a second
    process = start_run(cli, "acting_for_a_second", "acting")

    # When it gets one signal
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    # Then it says what it does, the call has its result, and the exit code is the
    # signal's
    assert exit_code == process.returncode
    assert ["Suspended", "run: s1"] == out.splitlines()[:2]
    first, last = err.splitlines()
    assert first.startswith("stopping: ")
    assert "stopped: run s1 is not claimed; any process can resume it at once" == last
    assert "once\n" == (cli.folder / "acted").read_text()

    # And any process continues at once, without an unknown outcome
    resumed = cli.run_in_process(
        "resume", "s1", "--app", f"{RUNNERS}:acting_for_a_second"
    )
    assert (0, "Finished") == (resumed.exit_code, resumed.lines[0])
    assert "once\n" == (cli.folder / "acted").read_text()


class WatchedRunner(AsyncRunner):
    """A runner that tells when a run was looked at three times."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent, store="memory:")
        self.looks_left, self.looked = 3, asyncio.Event()

    async def look(self, run_id: str, *, version: int | None = None) -> Continuation:
        self.looks_left -= 1
        if not self.looks_left:
            self.looked.set()
        return await super().look(run_id, version=version)


async def test_model_call_beside_a_tool_is_given_up_after_the_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tool is completed, and its result is stored; the model never replies."""
    monkeypatch.setattr(interruption, "MODEL_RETRY_TIME", 0.01)

    acting, may_return = asyncio.Event(), asyncio.Event()
    switch = StopSwitch()

    @tool
    async def act() -> str:
        """Act."""
        acting.set()
        await may_return.wait()
        return "acted"

    class HangingModel:
        """A model that never replies."""

        name = "hanging"

        async def reply(self, request: ModelRequest) -> ModelReply:
            await asyncio.Event().wait()
            raise AssertionError(request)

    hanging = Agent("hanging", model=HangingModel())
    model = ScriptedModel([[ToolCall("act"), ToolCall("hanging", {"input": "A"})]])
    boss = Agent("boss", tools=[act, hanging], model=model)
    runner = WatchedRunner(boss)
    advancing = asyncio.create_task(
        advance_until_stopped(
            runner,
            "r1",
            lambda pause: runner.start("go", run_id="r1", should_pause=pause),
            switch,
        )
    )
    await acting.wait()
    switch.signal = signal.SIGINT

    # The tool outlasts the retries of the model, and is not given up
    await runner.looked.wait()
    assert not advancing.done()
    may_return.set()

    assert await advancing is None
    run = await runner.look("r1")
    assert ("suspended", None) == (run.status, run.run_state.run.claim)
    assert ["returned", "nested"] == [call.state for call in run.root.calls]


@SIGNALS
def test_signal_gives_up_a_model_call_and_its_claim(
    cli: CommandLine, number: signal.Signals, exit_code: int
) -> None:
    """A model that does not reply does not hold the command up."""
    process = start_run(cli, "thinking", "thinking")

    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert (exit_code, "") == (process.returncode, out)
    assert "stopped: run s1 is not claimed" in err
    run = json.loads(cli.run_in_process("show", "s1", "--json").out)
    assert ("suspended", []) == (run["status"], run["waits"])


def test_second_signal_stops_at_once_and_names_the_claim(cli: CommandLine) -> None:
    process = start_run(cli, "acting_without_end", "acting")
    assert process.stderr is not None

    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("stopping: ")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (130, "") == (process.returncode, out)
    [line] = err.splitlines()
    assert line.startswith("stopped: run s1 is claimed until ")
    assert "its outcome may be unknown" in line


def test_signal_ends_the_wait_for_a_busy_run(cli: CommandLine) -> None:
    first = start_run(cli, "acting_without_end", "acting")
    waiter = cli.start_process(
        *("resume", "s1", "--app", f"{RUNNERS}:acting_without_end", "--wait-if-busy"),
        program=("-c", INTERRUPTIBLE_PROGRAM),
    )
    assert waiter.stderr is not None
    assert waiter.stderr.readline().startswith("waiting: ")

    waiter.send_signal(signal.SIGTERM)
    out, err = waiter.communicate(timeout=60)
    first.kill()
    first.communicate(timeout=60)

    assert (143, "") == (waiter.returncode, out)
    assert "stopped: run s1 is claimed until " in err
