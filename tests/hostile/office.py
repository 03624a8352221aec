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
from tests.hostile.shelf import Shelf

if TYPE_CHECKING:
    from datetime import datetime

    from continuations import Outcome, Wait
    from continuations.authoring.agent import AnyTool
    from continuations.models.scripted import Line
    from continuations_storage import Store

RUN = "r-1"


class MovedClock(SystemClock):
    """The machine's clocks, moved on by hand: a claim's end is not waited for."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return super().now() + timedelta(seconds=self.ahead)

    def elapsed(self) -> float:
        """Return the elapsed clock's seconds."""
        return super().elapsed() + self.ahead


@dataclass
class Office:
    """Agents whose tools write down what they did.

    An effect is "tool argument key". With the same key twice is once, for the tool that
    is idempotent.
    """

    effects: list[str] = field(default_factory=list[str])
    small: bool = False
    clock: MovedClock = field(default_factory=MovedClock)

    def runner(self, store: Store) -> Runner:
        """Return a runner of the office on a store."""
        return Runner(self.boss(), store=store, clock=self.clock)

    def boss(self) -> Agent:
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

        lines: dict[str, list[Line]] = {
            "boss": [
                [call("send", 1), call("pay", 2)],
                [ToolCall("clerk", {"input": "go"}), call("send", 3)],
                [call("see", 4)],
                [call("put", 5)],
                "all done",
            ],
            "clerk": [
                [call("pay", 6), call("put", 7), call("send", 8)],
                [call("pay", 9)],
                "clerk is done",
            ],
        }
        if self.small:
            lines = {"boss": [[call("send", 1), call("pay", 2)], "all done"]}
        model = ScriptedModel(lines)
        tools: list[AnyTool] = [send, pay, put, see]
        clerk = Agent("clerk", tools=tools, model=model)
        return Agent("boss", tools=[*tools, clerk], model=model)

    def done(self) -> list[str]:
        """Return the effects without their keys."""
        return [" ".join(effect.split()[:2]) for effect in self.effects]

    # A person who knows what happened -----------------------------------------

    def decided(self, runner: Runner, wait: Wait) -> None:
        """Decide a wait by looking at the ledger: never is anything done twice."""
        effect = f"{wait.tool} {wait.arguments.get('what', '')}".strip()
        if effect not in self.done():
            runner.decide(wait.id, Approve(by="kim"))
        elif wait.kind == "unknown":
            runner.decide(wait.id, Answer(effect, by="kim"))
        else:
            runner.decide(wait.id, Deny(by="kim", reason="it was done before"))

    def ended(self, runner: Runner, outcome: Outcome) -> Outcome:
        """Decide and resume until the run has ended."""
        for _ in range(30):
            if not isinstance(outcome, Suspended):
                return outcome
            for wait in outcome.waits:
                self.decided(runner, wait)
            outcome = runner.resume(RUN)
        raise AssertionError("it did not come to an end")


def call(name: str, what: int) -> ToolCall:
    """Return a call."""
    return ToolCall(name, {"what": what})


@dataclass(frozen=True)
class Picture:
    """A store and the effects, right before a version was made."""

    objects: dict[str, bytes]
    effects: tuple[str, ...]

    def store(self) -> Shelf:
        """Return a store of these objects."""
        return Shelf(self.objects)


class Filming(Shelf):
    """Keeps a picture of itself before every version."""

    def __init__(self, office: Office) -> None:
        super().__init__()
        self.office = office
        self.pictures: list[Picture] = []

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body, after a picture if it is a version's."""
        if "/v/" in key:
            self.taken()
        return await super().create(key, body)

    def taken(self) -> None:
        """Take a picture."""
        self.pictures.append(Picture(self.bodies, tuple(self.office.effects)))
