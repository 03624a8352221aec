"""The worker loop inside a web application, under uvicorn and its signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from continuations import AsyncRunner, Finished, Runner
from continuations.errors import InvalidInput
from continuations.serve.lifespan import worker_lifespan, worker_loop
from tests import sample_app
from tests.python_path import python_path
from tests.run_environment import ROOT, RunEnvironment, wait_until
from tests.scripts import Script, call, scripted_model

SCRIPT: Script = {
    "go": [[call("act", what="1", then="sleep:1")], [call("act", what="2")], "end"]
}


def serve(
    environment: RunEnvironment, name: str, **variables: str
) -> subprocess.Popen[str]:
    """Start uvicorn with an application; return once it accepts requests."""
    popen = subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", "--port", "0"),
            f"tests.serve.worker_application:{name}",
        ],
        env={
            **os.environ,
            "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
            "TEST_STORE": environment.store,
            "TEST_SCRIPT": json.dumps(SCRIPT),
            **variables,
        },
        cwd=environment.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert popen.stderr is not None
    for line in popen.stderr:
        if "Uvicorn running" in line:
            return popen
    raise AssertionError(popen.wait(120))


def make_runner(environment: RunEnvironment, script: Script = SCRIPT) -> Runner:
    """Return a runner of this process."""
    return Runner(
        sample_app.make_agents(scripted_model(script)), store=environment.store
    )


def stop(popen: subprocess.Popen[str]) -> tuple[int, str]:
    """Send one SIGTERM; return the exit code and the log."""
    popen.send_signal(signal.SIGTERM)
    _, log = popen.communicate(timeout=120)
    return popen.returncode, log


def test_sigterm_completes_the_call_in_progress_and_releases_the_run(
    environment: RunEnvironment,
) -> None:
    """One signal stops server and loop; another process continues at once."""
    # Given the exit code of a server without a worker loop, and a run in a tool
    plain_code, _ = stop(serve(environment, "plain"))
    runner = make_runner(environment)
    runner.start("go", run_id="r1", should_pause=lambda: True)
    server = serve(environment, "app")
    wait_until(lambda: environment.effect_names() == ["act 1"])

    # When the server gets one SIGTERM
    code, log = stop(server)

    # Then it shuts down in order, and the call has its result
    assert (plain_code, True) == (code, "Application shutdown complete" in log)
    run = runner.look("r1")
    assert ("suspended", None, ()) == (run.status, run.run_state.run.claim, run.waits)
    assert ["acted 1"] == [
        each["content"] for each in run.root.messages if each["role"] == "tool"
    ]

    # And any process continues the run at once
    assert isinstance(runner.resume("r1"), Finished)
    assert ["act 1", "act 2"] == environment.effect_names()


def test_grace_gives_up_the_claim_of_a_model_call(environment: RunEnvironment) -> None:
    """A model call may be repeated, so it does not hold the shutdown up."""
    asking = environment.folder / "asking"
    runner = make_runner(environment, {"go": ["end"]})
    runner.start("go", run_id="r1", should_pause=lambda: True)
    server = serve(environment, "app", TEST_GRACE="0.1", TEST_SLOW_MODEL=str(asking))
    wait_until(asking.exists)

    _, log = stop(server)

    assert "the worker loop is cancelled: after 0.1 s" in log
    assert isinstance(runner.resume("r1"), Finished)


async def test_loop_runs_while_the_block_runs() -> None:
    runner = make_runner_in_memory()

    async with worker_loop(runner, interval=0.01):
        await runner.start("go", run_id="r1", should_pause=lambda: True)
        await asyncio.to_thread(wait_until, lambda: is_finished(runner, "r1"))
    await runner.start("go", run_id="r2", should_pause=lambda: True)
    await asyncio.sleep(0.05)
    assert "suspended" == (await runner.look("r2")).status


def is_finished(runner: AsyncRunner, run_id: str) -> bool:
    """Return whether a run has ended."""
    return Runner([], store=runner.store).look(run_id).status == "finished"


def make_runner_in_memory() -> AsyncRunner:
    """Return a runner whose runs end at once."""
    agents = sample_app.make_agents(
        scripted_model({"go": ["end"]}, lambda _task, _turn: None)
    )
    return AsyncRunner(agents, store="memory:")


@pytest.mark.parametrize(
    ("runner", "options"),
    [
        (Runner([], store="memory:"), {}),
        ("runner", {}),
        (AsyncRunner([], store="memory:"), {"grace": "5"}),
        (AsyncRunner([], store="memory:"), {"grace": -1}),
    ],
    ids=["a Runner", "a text", "a grace of text", "a negative grace"],
)
def test_invalid_arguments_are_told_when_the_application_is_made(
    runner: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        worker_lifespan(runner, **options)


async def test_application_does_not_start_with_an_invalid_interval() -> None:
    lifespan = worker_lifespan(make_runner_in_memory(), interval=0)
    with pytest.raises(InvalidInput, match=r"^interval must be"):
        async with lifespan(None):
            raise AssertionError


class SlowRunner(AsyncRunner):
    """A runner whose loop takes as long to end as the test wants."""

    def __init__(self) -> None:
        super().__init__([], store="memory:")
        self.may_end, self.cancelled = asyncio.Event(), asyncio.Event()
        self.has_ended = False

    async def serve_forever(self, **_options: Any) -> None:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            await self.may_end.wait()
            raise
        finally:
            self.has_ended = True


async def turn_the_event_loop(times: int) -> None:
    """Let every task that can go on do so."""
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_started", [False, True])
async def test_cancelled_caller_waits_for_the_end_of_the_loop(
    *, is_started: bool
) -> None:
    """The caller is cancelled in the block's first step, or while it joins the loop."""
    runner = SlowRunner()

    async def application() -> None:
        async with worker_loop(runner):
            pass

    caller = asyncio.create_task(application())
    await turn_the_event_loop(10 if is_started else 1)
    caller.cancel()
    await turn_the_event_loop(10)
    observed = (caller.done(), runner.cancelled.is_set(), runner.has_ended)
    runner.may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (False, is_started, False) == observed
    assert runner.has_ended


async def test_cancellation_of_the_caller_is_kept_while_a_cancelled_loop_ends() -> None:
    runner = SlowRunner()

    async def application() -> None:
        async with worker_loop(runner, grace=0):
            pass

    caller = asyncio.create_task(application())
    await runner.cancelled.wait()
    caller.cancel()

    await turn_the_event_loop(10)
    runner.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
