"""A hundred children that wait at once, approved one at a time, a resume after each."""

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

_CHILDREN = 100
_RUN = "fan"
_COLD = """
import sys
from benchmarks import fanout
fanout.resume(sys.argv[1])
"""


def rows() -> Iterator[Row]:
    """Approve all in this process; of another run, resume some in cold processes."""
    with TemporaryDirectory() as folder:
        took, _ = _approve_all(f"file:{folder}", cold=0)
    in_memory, _ = _approve_all("memory:", cold=0)
    with TemporaryDirectory() as folder:
        _, cold = _approve_all(f"file:{folder}", cold=5)
    yield Row(
        what=f"{_CHILDREN} children approved and resumed one by one",
        ours=took,
        compared_with="the design's seconds",
        theirs=3,
        unit="s",
        max_ratio=1,
    )
    yield Row(
        what=f"{_CHILDREN} children, on files",
        ours=took,
        compared_with="the same in memory",
        theirs=in_memory,
        unit="s",
    )
    yield Row(
        what="one of these resumes in a cold process",
        ours=cold,
        compared_with="one in a warm process",
        theirs=took * 1000 / _CHILDREN,
        unit="ms",
    )


def resume(url: str) -> None:
    """Run in a child: go on with the run that fans out."""
    Runner(_parent_agent(), store=url).resume(_RUN)


def _approve_all(url: str, *, cold: int) -> tuple[float, float]:
    """Return the seconds of all approvals, and the milliseconds of a cold resume."""
    runner = Runner(_parent_agent(), store=url)
    outcome: Outcome = runner.start("Have all of them paid.", run_id=_RUN)
    assert isinstance(outcome, Suspended)  # noqa: S101 - it has no other end
    colds: list[float] = []
    begun = time.perf_counter()
    for wait in outcome.waits:
        runner.decide(wait.id, Approve(by="kim"))
        if len(colds) < cold:
            colds.append(wall_time_ms(_COLD, url))
        else:
            outcome = runner.resume(_RUN)
    took = time.perf_counter() - begun
    assert isinstance(outcome, Finished)  # noqa: S101 - all were approved
    return took, median(colds) if colds else 0.0


def _parent_agent() -> Agent:
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay it."""
        return f"Paid {cents}."

    script = ScriptedModel([ToolCall("pay", {"cents": 500}), "It is paid."])
    child = Agent("child", instructions="You pay.", tools=[pay], model=script)
    asks = [ToolCall("child", {"input": f"Pay {n}."}) for n in range(_CHILDREN)]
    model = ScriptedModel([asks, "All are paid."])
    return Agent("boss", instructions="Delegate.", tools=[child], model=model)
