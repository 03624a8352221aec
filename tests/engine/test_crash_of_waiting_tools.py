"""Tools that wait, three agents deep, survive a crash at every storage operation.

By default every third operation is tried; with TORTURE=1 each of them. `crashed` makes
every operation of the store fail from one on; a new runner is the next process.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    ask,
    external,
    tool,
)
from continuations.errors import AlreadyDecided, RunBusy, RunNotFound, WaitNotFound
from continuations.tools import ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.effect_log import Effect
from tests.engine.test_crash_at_every_operation import remaining_keys
from tests.sampling import sample
from tests.scripts import call

if TYPE_CHECKING:
    from continuations import Outcome, Wait
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

SCRIPT: Any = {
    "go": [[call("hr", input="A"), call("act", what="1")], "end"],
    "A": [[call("clerk", input="B")], "A end"],
    "B": [[call("choose", what="2"), call("scan", what="3")], "B end"],
}
EFFECTS = sorted(
    ["act 1", "choose 2", "chosen 2 blue", "scan 3", "scanned 3 7 pages"],
)


class Scanner:
    """The other system: it answers while the tool that started the job still runs."""

    def __init__(self, store: MemoryStore, clock: ManualClock) -> None:
        self._runner = Runner([], store=store, clock=clock)

    def finish(self, wait_id: str) -> None:
        """End the wait of a job."""
        with suppress(WaitNotFound, AlreadyDecided):
            self._runner.decide(wait_id, Answer("7 pages", by="scanner"))


def make_boss(scanner: Scanner) -> Agent:
    """Return boss > hr > clerk with a tool that asks and one that starts a job."""

    @tool
    def act(what: str, ctx: ToolContext) -> str:
        """Act."""
        effect_log.record(Effect.of("act", what, ctx))
        return f"acted {what}"

    @tool
    def choose(what: str, ctx: ToolContext) -> ToolWait[str]:
        """Let a person choose."""
        effect_log.record(Effect.of("choose", what, ctx))
        return ask(f"{what}?")

    @choose.on_answer
    def chosen(answer: str, what: str, ctx: ToolContext) -> str:
        effect_log.record(Effect.of("chosen", f"{what} {answer}", ctx))
        return f"chosen {what} {answer}"

    @tool
    def scan(what: str, ctx: ToolContext) -> ToolWait[str]:
        """Start a scan."""
        effect_log.record(Effect.of("scan", what, ctx))
        scanner.finish(ctx.wait_id)
        return external("scan", str)

    @scan.on_answer
    def scanned(answer: str, what: str, ctx: ToolContext) -> str:
        effect_log.record(Effect.of("scanned", f"{what} {answer}", ctx))
        return f"scanned {what} {answer}"

    model = scripts.scripted_model(SCRIPT)
    clerk = Agent("clerk", tools=[choose, scan], model=model)
    hr = Agent("hr", tools=[clerk], model=model)
    return Agent("boss", tools=[hr, act], model=model)


def verdict_of(wait: Wait, environment: RunEnvironment) -> Answer | Approve:
    """Answer a question; say what the effect log says about an unknown outcome."""
    if wait.kind == "question":
        return Answer("blue", by="kim")
    what = wait.arguments["what"]
    effects, ended = {
        "act": ([f"act {what}"], f"acted {what}"),
        "choose": ([f"choose {what}", f"chosen {what} blue"], f"chosen {what} blue"),
        "scan": (
            [f"scan {what}", f"scanned {what} 7 pages"],
            f"scanned {what} 7 pages",
        ),
    }[wait.tool]
    happened = effects[wait.stage] in environment.effect_names()
    return Answer(ended, by="kim") if happened else Approve(by="kim")


def run_to_end(
    store: Store, environment: RunEnvironment, scanner: Scanner, clock: ManualClock
) -> Outcome:
    """Start or resume the run with a new runner each time, and end its waits."""
    for _ in range(30):
        runner = Runner(make_boss(scanner), store=store, clock=clock)
        try:
            outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 61
            continue
        if not isinstance(outcome, Suspended):
            return outcome
        for wait in outcome.waits:
            with suppress(AlreadyDecided):
                runner.decide(wait.id, verdict_of(wait, environment))
    raise AssertionError


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_every_storage_operation_of_waiting_tools(
    environment: RunEnvironment, moment: Literal["before", "after"]
) -> None:
    """No function runs twice, no early answer is lost, and no key is left behind."""
    clock, memory = ManualClock(), MemoryStore()
    undisturbed = FaultyStore(memory)
    end = run_to_end(undisturbed, environment, Scanner(memory, clock), clock)
    assert isinstance(end, Finished)
    assert sorted(environment.effect_names()) == EFFECTS
    numbers = sample(range(1, len(undisturbed.operations) + 1), 3)
    deaths = 0

    for number in numbers:
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        inner = MemoryStore(clock.now)
        scanner = Scanner(inner, clock)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        try:
            run_to_end(dying, environment, scanner, clock)
        except Crash:
            deaths += 1
        after = run_to_end(inner, environment, scanner, clock)

        where = f"{moment} {number}: {dying.operations[-1]}"
        assert isinstance(after, Finished), where
        names = environment.effect_names()
        assert len(names) == len(set(names)), where
        # If a tool died before its wait was stored, a person gave the call its result.
        assert set(names) <= set(EFFECTS), where
        assert {"act 1", "choose 2", "scan 3"} <= set(names), where
        for _ in range(3):
            clock.seconds += 3600
            Runner(make_boss(scanner), store=inner, clock=clock).sweep()
        assert [] == remaining_keys(inner), where

    assert deaths > len(numbers) * 0.8
