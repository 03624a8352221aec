"""Those who act in a story: a worker, people, and whoever comes after a crash."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from continuations import (
    AlreadyDecided,
    Cancelled,
    ModelError,
    RunBusy,
    Runner,
    RunNotFound,
    Suspended,
    WaitExpired,
)
from continuations.core.run import ENDED
from tests.torture.tree import RUN, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Outcome, Wait
    from continuations_storage import Store
    from tests.torture.places import Place
    from tests.torture.stories import Step, Story

MOST = 60


@dataclass
class People:
    """What one process can do in a place; each act with a runner of its own."""

    story: Story
    place: Place
    store: Store
    unknown: set[str] = field(default_factory=set[str])
    resumer: Runner | None = None

    def worker(self, *, down: bool = False) -> Runner:
        """Return a new runner with the agents."""
        agent = tree(self.story.script, self.store, down=down)
        return Runner(agent, store=self.store, clock=self.place.clock)

    def person(self) -> Runner:
        """Return a new runner without any."""
        return Runner([], store=self.store, clock=self.place.clock)

    # One step of the story --------------------------------------------------------

    def do(self, step: Step) -> None:
        """Do a step as the story has it."""
        match step.verb:
            case "start" | "resume":
                with suppress(*([ModelError] if step.down else [])):
                    self.move(step.verb, down=step.down)
            case "decide":
                for wait in self.person().look(RUN).waits[: step.count]:
                    self.judge(wait)
            case "cancel":
                self.person().cancel(RUN, by="kim")
            case "send":
                self.person().send(RUN, "One thing more.", by="kim")

    def move(self, verb: str, *, down: bool = False) -> Outcome:
        """Start or resume the run."""
        worker = self.worker(down=down)
        if verb == "start":
            return worker.start("go", run_id=RUN)
        return worker.resume(RUN)

    def judge(self, wait: Wait) -> None:
        """Decide a wait; who died before may have decided it, in other words."""
        if wait.kind == "unknown":
            self.unknown.add(wait.id)
        what = f"{wait.tool} {wait.arguments['what']}"
        happened = what in self.place.world.done()
        with suppress(AlreadyDecided, Cancelled, WaitExpired):
            self.person().decide(wait.id, self.story.judge(wait, happened))

    def settle(self, waits: list[Wait]) -> None:
        """Do what ends the waits in this story; unknown outcomes are always told."""
        person = self.person()
        if self.story.sends and not self.place.world.keys(f"runs/{RUN}/in/m-"):
            person.send(RUN, "One thing more.", by="kim")
        if self.story.instead == "cancel":
            person.cancel(RUN, by="kim")
            return
        for wait in waits:
            if wait.kind == "unknown" or self.story.instead == "decide":
                self.judge(wait)
            else:
                self.place.clock.ahead += 4000

    # After a crash ------------------------------------------------------------

    def by_hand(self) -> None:
        """Resume, decide what waits, and so on to the end."""
        for _ in range(MOST):
            try:
                outcome = self.move(self.story.by)
            except RunNotFound:
                outcome = self.move("start")
            except RunBusy:
                self.place.clock.ahead += 31
                continue
            if not isinstance(outcome, Suspended):
                return
            self.settle(list(outcome.waits))
        raise AssertionError(self.person().look(RUN).to_json())

    def by_sweeps(self) -> None:
        """Do nothing but sweep, and decide what is listed as waiting."""
        for wait_for in self._growing():
            self.place.clock.ahead += wait_for
            swept = self.worker().sweep()
            assert {} == swept.failed, swept.failed
            person = self.person()
            try:
                state = person.look(RUN)
            except RunNotFound:
                # Its caller was told nothing, so there is nothing to sweep: once more.
                self.move("start")
                continue
            if state.status in ENDED:
                return
            if state.status == "suspended":
                listed = [each.id for each in person.waiting() if each.run_id == RUN]
                assert sorted(wait.id for wait in state.waits) == sorted(listed)
                self.settle([person.wait(wait_id) for wait_id in listed])
        raise AssertionError(self.person().look(RUN).to_json())

    def _growing(self) -> Iterator[float]:
        for number in range(MOST):
            yield 61 if number < 20 else 3600

    def clean(self) -> None:
        """Sweep for some days, as a timer would."""
        for _ in range(3):
            self.place.clock.ahead += 100_000
            swept = self.worker().sweep()
            assert {} == swept.failed, swept.failed


def bystander(people: People) -> None:
    """Leave another run in the store, with a name that begins like ours."""
    script = {"other": [[["pay", {"what": "other"}]], "end"]}
    agent = tree(script, people.store)
    runner = Runner(agent, store=people.store, clock=people.place.clock)
    outcome = runner.start("other", run_id=f"{RUN}.2")
    assert isinstance(outcome, Suspended), json.dumps(outcome.continuation.to_json())
