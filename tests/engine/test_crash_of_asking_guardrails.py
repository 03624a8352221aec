"""A process dies at each storage operation while people and agents judge.

Effects are counted by the external log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    Approve,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.core.messages import Message
from continuations.events import GuardrailTripped
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo, TurnInfo
from continuations.models.interface import ModelReply
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Outcome
    from continuations.models.interface import ModelRequest
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])
CALLS: Any = [ToolCall("pay", {"cents": 900}), ToolCall("pay", {"cents": 7})]


@dataclass
class Verdict:
    """The output of an agent that checks."""

    tripped: bool
    reason: str


class Judge:
    """Trips over calls with more than 100 cents."""

    name = "judge"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a verdict about the call in the last message."""
        cents = json.loads(request.messages[-1].content)["arguments"]["cents"]
        content = json.dumps({"tripped": cents > 100, "reason": "too much"})
        data = {"role": "assistant", "content": content}
        return ModelReply(message=Message.from_mapping(data))


@tool
def pay(cents: int, ctx: ToolContext) -> str:
    """Pay."""
    effect_log.append_effect("pay", str(cents), attempt=ctx.attempt)
    return f"paid {cents}"


def asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Ask about each input and output of a payer."""
    return Tripped("a person decides") if info.text else None


def make_runner(store: Store, clock: ManualClock) -> Runner:
    """Return the runner of a new process: a boss, and a payer who is guarded."""
    checker = Agent(
        "checker", model=Judge(), output_type=Verdict, instructions="Check."
    )
    ask = Guardrail(check=asks, on_trip="ask")
    payer = Agent(
        "payer",
        tools=[pay],
        model=ScriptedModel([CALLS, "secret"]),
        guardrails=Guardrails(input=[ask], output=[ask], tools=[checker]),
    )
    model = ScriptedModel([ToolCall("payer", {"input": "pay"}), "done"])
    return Runner(Agent("boss", tools=[payer], model=model), store=store, clock=clock)


def finish(
    runner: Runner,
    clock: ManualClock,
    outcome: Outcome,
    effects: Callable[[], list[str]],
    kinds: set[str],
    denies: str,
) -> Outcome:
    """Decide each wait until the run ends; `denies` is a kind."""
    while isinstance(outcome, Suspended):
        for wait in outcome.waits:
            kinds.add(wait.kind)
            happened = wait.kind == "unknown" and "pay 7" in effects()
            no = happened or wait.kind == denies
            runner.decide(wait.id, Deny(by="kim") if no else Approve(by="kim"))
        clock.seconds += 120
        outcome = runner.resume("r")
    return outcome


def effects_since(environment: RunEnvironment, before: int) -> list[str]:
    """Return the effects after the first ones."""
    return environment.effect_names()[before:]


@MOMENTS
@pytest.mark.parametrize(
    ("stage", "denies"),
    [
        ("start", ""),
        ("start", "input"),
        ("start", "output"),
        ("input", ""),
        ("input", "input"),
        ("output", ""),
        ("output", "output"),
    ],
)
def test_no_text_is_used_unasked_after_a_crash(
    environment: RunEnvironment, moment: Any, stage: str, denies: str
) -> None:
    """A denied input pays nothing; a denied output reaches no caller."""
    for point in every_crash(moment, more_than=3, step=2):
        clock, kinds = ManualClock(), set[str]()
        store, before = MemoryStore(clock.now), len(environment.effect_names())
        effects = partial(effects_since, environment, before)
        _reach(store, clock, stage, denies)
        with point.process(store) as dying:
            if stage == "start":
                make_runner(dying, clock).start("go", run_id="r")
            else:
                make_runner(dying, clock).resume("r")
        clock.seconds += 120
        runner = make_runner(store, clock)
        outcome = runner.start("go", run_id="r")
        ended = finish(runner, clock, outcome, effects, kinds, denies)

        assert not isinstance(ended, Failed), point
        assert isinstance(ended, Finished), point
        expected = [] if denies == "input" else ["pay 7"]
        assert expected == effects(), point
        texts = str([each["content"] for each in ended.continuation.root.messages])
        assert ("secret" in texts) == (not denies), point
        told = [e for e in runner.events("r") if isinstance(e, GuardrailTripped)]
        stages = [each.stage for each in told]
        assert 1 == stages.count("input"), point
        assert (denies != "input") == stages.count("output") == stages.count("tool")


def _reach(store: MemoryStore, clock: ManualClock, stage: str, denies: str) -> None:
    """Run until the decision about the text of a stage is recorded."""
    runner = make_runner(store, clock)
    kinds = ["input", "output"][: ["start", "input", "output"].index(stage)]
    for number, kind in enumerate(kinds):
        outcome = runner.resume("r") if number else runner.start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        [wait] = outcome.waits
        assert kind == wait.kind
        no = kind == denies
        runner.decide(wait.id, Deny(by="kim") if no else Approve(by="kim"))
