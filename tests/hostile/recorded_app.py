"""The sample application with recorded effects, and snapshots of its store."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from continuations import Agent, Answer, Approve, Deny, Outcome, Runner, Suspended, Wait
from continuations_storage import Store
from tests import sample_app, scripts
from tests.clocks import OffsetClock
from tests.effect_log import Effect
from tests.hostile.editable_store import EditableStore
from tests.scripts import Script, call

RUN = "r-1"
# Every kind of call, in the root agent and in a sub-agent.
LONG_SCRIPT: Script = {
    "go": [
        [call("act", what="1"), call("pay", what="2")],
        [call("left", input="A"), call("act", what="3")],
        [call("read", what="4")],
        [call("push", what="5")],
        "all done",
    ],
    "A": [
        [call("pay", what="6"), call("push", what="7"), call("act", what="8")],
        [call("pay", what="9")],
        "A done",
    ],
}
LONG_SCRIPT_EFFECTS = [
    *("act 1", "act 3", "act 8", "pay 2", "pay 6", "pay 9", "push 5", "push 7")
]
SHORT_SCRIPT: Script = {
    "go": [[call("act", what="1"), call("pay", what="2")], "all done"]
}


@dataclass
class RecordedApp:
    """The sample application; its tools record their effects in a list.

    Attributes:
        effects: The effects so far. `read` adds no effect, and `push` adds one for
            each idempotency key.
        script: The script of the models.
        clock: The clock of the runners.
    """

    effects: list[Effect] = field(default_factory=list["Effect"])
    script: Script = field(default_factory=lambda: LONG_SCRIPT)
    clock: OffsetClock = field(default_factory=OffsetClock)

    def runner(self, store: Store) -> Runner:
        # A failed commit is repeated until the claim ends.
        return Runner(self.root_agent(), store=store, clock=self.clock, lease=2)

    def root_agent(self) -> Agent:
        model = scripts.scripted_model(
            self.script, record_turn=lambda _task, _turn: None
        )
        [boss] = sample_app.make_agents(model, record=self._record)
        return boss

    def _record(self, effect: Effect) -> None:
        is_repeat = effect.tool == "push" and effect.key in {
            each.key for each in self.effects
        }
        if effect.tool != "read" and not is_repeat:
            self.effects.append(effect)

    def effect_names(self) -> list[str]:
        """Return the tool and argument of each effect."""
        return [effect.name for effect in self.effects]

    # A person who knows what happened ---------------------------------------------

    def decide(self, runner: Runner, wait: Wait) -> None:
        """Decide a wait so that no effect happens twice."""
        name = f"{wait.tool} {wait.arguments.get('what', '')}".strip()
        if name not in self.effect_names():
            runner.decide(wait.id, Approve(by="kim"))
        elif wait.kind == "unknown":
            runner.decide(wait.id, Answer(name, by="kim"))
        else:
            runner.decide(wait.id, Deny(by="kim", reason="it was done before"))

    def run_to_end(self, runner: Runner, outcome: Outcome) -> Outcome:
        """Decide and resume until the run has ended."""
        for _ in range(30):
            if not isinstance(outcome, Suspended):
                return outcome
            for wait in outcome.waits:
                self.decide(runner, wait)
            outcome = runner.resume(RUN)
        raise AssertionError("the run did not end after 30 resumes")


@dataclass(frozen=True)
class Snapshot:
    """The objects of a store and the effects, right before a version was created."""

    objects: dict[str, bytes]
    effects: tuple[Effect, ...]

    def store(self) -> EditableStore:
        """Return a store with these objects."""
        return EditableStore(self.objects)


class SnapshottingStore(EditableStore):
    """A store that takes a snapshot of itself before every version."""

    def __init__(self, app: RecordedApp) -> None:
        super().__init__()
        self.app = app
        self.snapshots: list[Snapshot] = []

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create an object, after a snapshot if it is a version."""
        if "/v/" in key:
            self.take_snapshot()
        return await super().create(key, body)

    def take_snapshot(self) -> None:
        self.snapshots.append(Snapshot(self.bodies, tuple(self.app.effects)))
