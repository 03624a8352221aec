"""A run in which every kind of call is made, with a ledger of effects, and its film."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.engine.ports import SystemClock
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.hostile.editable_store import EditableStore

if TYPE_CHECKING:
    from datetime import datetime

    from continuations import Outcome, Wait
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.models.scripted import ScriptedReply
    from continuations_storage import Store

RUN = "r-1"


class AdjustableClock(SystemClock):
    """The machine's clocks, moved on by hand: a claim's end is not waited for."""

    def __init__(self) -> None:
        self.offset_seconds = 0.0

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return super().now() + timedelta(seconds=self.offset_seconds)

    def elapsed(self) -> float:
        """Return the elapsed clock's seconds."""
        return super().elapsed() + self.offset_seconds


@dataclass
class RecordedApp:
    """Agents whose tools write down what they did.

    An effect is "tool argument key". With the same key twice is once, for the tool that
    is idempotent.
    """

    effects: list[str] = field(default_factory=list[str])
    short_script: bool = False
    clock: AdjustableClock = field(default_factory=AdjustableClock)

    def runner(self, store: Store) -> Runner:
        """Return a runner of the office on a store."""
        return Runner(self.root_agent(), store=store, clock=self.clock)

    def root_agent(self) -> Agent:
        """Return the root agent; its sub-agent makes calls of every kind, too."""
        effects = self.effects

        def did(name: str, what: int, ctx: ToolContext) -> str:
            effects.append(f"{name} {what} {ctx.idempotency_key}")
            return f"{name} {what}"

        @tool
        def send(what: int, ctx: ToolContext) -> str:
            """Do it at once, and never twice."""
            return did("send", what, ctx)

        @tool(approval=True)
        def pay(what: int, ctx: ToolContext) -> str:
            """Do it once approved, and never twice."""
            return did("pay", what, ctx)

        @tool(idempotent=True)
        def put(what: int, ctx: ToolContext) -> str:
            """Do it at once; with the same key it may be done again."""
            if f"put {what} {ctx.idempotency_key}" in effects:
                return f"put {what}"
            return did("put", what, ctx)

        @tool(read_only=True)
        def see(what: int) -> str:
            """Do nothing."""
            return f"saw {what}"

        lines: dict[str, list[ScriptedReply]] = {
            "boss": [
                [tool_call("send", 1), tool_call("pay", 2)],
                [ToolCall("clerk", {"input": "go"}), tool_call("send", 3)],
                [tool_call("see", 4)],
                [tool_call("put", 5)],
                "all done",
            ],
            "clerk": [
                [tool_call("pay", 6), tool_call("put", 7), tool_call("send", 8)],
                [tool_call("pay", 9)],
                "clerk is done",
            ],
        }
        if self.short_script:
            lines = {"boss": [[tool_call("send", 1), tool_call("pay", 2)], "all done"]}
        model = ScriptedModel(lines)
        tools: list[ToolProtocol] = [send, pay, put, see]
        clerk = Agent("clerk", tools=tools, model=model)
        return Agent("boss", tools=[*tools, clerk], model=model)

    def effect_names(self) -> list[str]:
        """Return the effects without their keys."""
        return [" ".join(effect.split()[:2]) for effect in self.effects]

    # A person who knows what happened -----------------------------------------

    def decide(self, runner: Runner, wait: Wait) -> None:
        """Decide a wait by looking at the ledger: never is anything done twice."""
        effect = f"{wait.tool} {wait.arguments.get('what', '')}".strip()
        if effect not in self.effect_names():
            runner.decide(wait.id, Approve(by="kim"))
        elif wait.kind == "unknown":
            runner.decide(wait.id, Answer(effect, by="kim"))
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
        raise AssertionError("it did not come to an end")


def tool_call(name: str, what: int) -> ToolCall:
    """Return a call."""
    return ToolCall(name, {"what": what})


@dataclass(frozen=True)
class Snapshot:
    """A store and the effects, right before a version was made."""

    objects: dict[str, bytes]
    effects: tuple[str, ...]

    def store(self) -> EditableStore:
        """Return a store of these objects."""
        return EditableStore(self.objects)


class SnapshottingStore(EditableStore):
    """Keeps a picture of itself before every version."""

    def __init__(self, office: RecordedApp) -> None:
        super().__init__()
        self.app = office
        self.snapshots: list[Snapshot] = []

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body, after a picture if it is a version's."""
        if "/v/" in key:
            self.take_snapshot()
        return await super().create(key, body)

    def take_snapshot(self) -> None:
        """Take a picture."""
        self.snapshots.append(Snapshot(self.bodies, tuple(self.app.effects)))
