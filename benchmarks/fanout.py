"""A hundred sub-agents that wait in parallel, approved and resumed one at a time."""

from __future__ import annotations

import time
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.child_process import wall_time_ms
from benchmarks.result_row import Row
from continuations import Agent, Approve, Finished, Runner, Suspended, tool
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Outcome

_CHILDREN, _MANY_CHILDREN = 100, 1000
_SINGLE_RUNS, _RESUMES = 30, 20
_RUN_ID = "fan-out"
_COLD = """
import sys
from benchmarks import fanout
fanout.resume(sys.argv[1])
"""


def rows() -> Iterator[Row]:
    """Resume in this process, on files and in memory, and in cold processes."""
    with TemporaryDirectory() as folder:
        seconds, _ = _approve_all(f"file:{folder}", cold=0)
    in_memory, _ = _approve_all("memory:", cold=0)
    with TemporaryDirectory() as folder:
        single = _approve_single_runs(f"file:{folder}")
    with TemporaryDirectory() as folder:
        among_many = _resume_among_many(f"file:{folder}")
    with TemporaryDirectory() as folder:
        _, cold = _approve_all(f"file:{folder}", cold=5)
    yield Row(
        what=f"{_CHILDREN} sub-agents approved and resumed one by one",
        ours=seconds,
        compared_with="the goal",
        theirs=3,
        unit="s",
        max_ratio=1,
    )
    yield Row(
        what="the same approvals and resumes",
        ours=seconds,
        compared_with=f"{_CHILDREN} runs with one each",
        theirs=single * _CHILDREN,
        unit="s",
        max_ratio=1.2,
    )
    yield Row(
        what=f"a resume beside {_MANY_CHILDREN:,} waiting sub-agents",
        ours=among_many * 1000,
        compared_with="the goal",
        theirs=20,
        unit="ms",
        max_ratio=1,
    )
    yield Row(
        what=f"{_CHILDREN} sub-agents, on files",
        ours=seconds,
        compared_with="the same in memory",
        theirs=in_memory,
        unit="s",
    )
    yield Row(
        what="one of these resumes, in a cold process",
        ours=cold,
        compared_with="in a warm process",
        theirs=seconds * 1000 / _CHILDREN,
        unit="ms",
    )


def resume(url: str) -> None:
    """Resume the run; called in a child process."""
    Runner(parent_agent(), store=url).resume(_RUN_ID)


def _approve_all(url: str, *, cold: int) -> tuple[float, float]:
    """Return the seconds of all approvals, and the milliseconds of a cold resume."""
    runner = Runner(parent_agent(), store=url)
    outcome: Outcome = runner.start("Have all of them paid.", run_id=_RUN_ID)
    assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
    cold_times: list[float] = []
    started = time.perf_counter()
    for wait in outcome.waits:
        runner.decide(wait.id, Approve(by="kim"))
        if len(cold_times) < cold:
            cold_times.append(wall_time_ms(_COLD, url))
        else:
            outcome = runner.resume(_RUN_ID)
    seconds = time.perf_counter() - started
    assert isinstance(outcome, Finished)  # noqa: S101 - all were approved
    return seconds, median(cold_times) if cold_times else 0.0


def _approve_single_runs(url: str) -> float:
    """Return the seconds to approve and resume a run with one sub-agent."""
    runner = Runner(parent_agent(1), store=url)
    times: list[float] = []
    for number in range(_SINGLE_RUNS):
        outcome = runner.start("Have it paid.", run_id=f"single-{number}")
        assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
        started = time.perf_counter()
        runner.decide(outcome.waits[0].id, Approve(by="kim"))
        runner.resume(outcome.run_id)
        times.append(time.perf_counter() - started)
    return median(times)


def _resume_among_many(url: str) -> float:
    """Return the seconds of one resume of a run with many open waits."""
    runner = Runner(parent_agent(_MANY_CHILDREN), store=url)
    outcome = runner.start("Have all of them paid.", run_id=_RUN_ID)
    assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
    times: list[float] = []
    for wait in outcome.waits[:_RESUMES]:
        runner.decide(wait.id, Approve(by="kim"))
        started = time.perf_counter()
        runner.resume(_RUN_ID)
        times.append(time.perf_counter() - started)
    return median(times)


def parent_agent(children: int = _CHILDREN) -> Agent:
    """Return an agent that calls as many sub-agents at once; each waits."""

    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"Paid {cents}."

    script = ScriptedModel([ToolCall("pay", {"cents": 500}), "It is paid."])
    child = Agent("child", instructions="You pay.", tools=[pay], model=script)
    calls = [ToolCall("child", {"input": f"Pay {n}."}) for n in range(children)]
    model = ScriptedModel([calls, "All are paid."])
    return Agent("parent", instructions="Delegate.", tools=[child], model=model)
