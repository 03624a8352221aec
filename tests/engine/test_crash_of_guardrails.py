"""A process dies at each storage operation of a run with hooks and guardrails.

Effects are counted by the external log.
"""

from __future__ import annotations

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
from continuations.events import GuardrailTripped
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeRequest,
    ChangeResult,
    Continue,
    Hooks,
    ReplyInfo,
    ResultInfo,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Outcome
    from continuations.hooks import TurnInfo
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])
CALLS: Any = [
    [
        ToolCall("pay", {"cents": 900}),
        ToolCall("pay", {"cents": 7}),
        ToolCall("pay", {"cents": 13}),
    ],
    "secret",
    "one",
    "two",
]


@tool
def pay(cents: int, ctx: ToolContext) -> str:
    """Pay."""
    effect_log.append_effect("pay", str(cents), attempt=ctx.attempt)
    return f"paid {cents}"


def cap(call: CallInfo) -> ChangeArguments | None:
    """Allow 100 cents at most."""
    return ChangeArguments({"cents": 100}) if call.arguments["cents"] > 100 else None


def unlucky(call: CallInfo) -> Tripped | None:
    """Refuse 13 cents."""
    return Tripped("unlucky") if call.arguments["cents"] == 13 else None


def large(call: CallInfo) -> Tripped | None:
    """Ask about 100 cents."""
    return Tripped("large") if call.arguments["cents"] >= 100 else None


def no_secret(reply: ReplyInfo) -> Tripped | None:
    """Refuse the secret."""
    return Tripped("secret") if reply.text == "secret" else None


def starred(result: ResultInfo) -> ChangeResult:
    """Change a result."""
    return ChangeResult(f"* {result.text}")


def add_note(turn: TurnInfo) -> ChangeRequest | None:
    """Add a message to the second turn."""
    return ChangeRequest(messages=["be brief"]) if turn.turns == 1 else None


def once_more(reply: ReplyInfo) -> Continue | None:
    """Go on after the first reply that is an output."""
    return Continue("and?") if reply.text == "one" else None


def make_runner(store: Store, clock: ManualClock) -> Runner:
    """Return the runner of a new process."""
    agent = Agent(
        "clerk",
        tools=[pay],
        model=ScriptedModel(CALLS),
        hooks=Hooks(
            before_tool=cap,
            after_tool=starred,
            before_model=add_note,
            after_model=once_more,
        ),
        guardrails=Guardrails(
            tools=[unlucky, Guardrail(check=large, on_trip="ask")],
            output=[Guardrail(check=no_secret, on_trip="retry")],
        ),
    )
    return Runner(agent, store=store, clock=clock)


def finish(
    runner: Runner,
    clock: ManualClock,
    outcome: Outcome,
    effects: Callable[[], list[str]],
) -> Outcome:
    """Decide each wait as the effects say, until the run ends."""
    while isinstance(outcome, Suspended):
        for wait in outcome.waits:
            ran = f"pay {wait.arguments['cents']}" in effects()
            happened = wait.kind == "unknown" and ran
            verdict = Deny(reason="it was paid") if happened else Approve(by="kim")
            runner.decide(wait.id, verdict)
        clock.seconds += 120
        outcome = runner.resume("r")
    return outcome


def effects_since(environment: RunEnvironment, before: int) -> list[str]:
    """Return the effects after the first ones."""
    return environment.effect_names()[before:]


@MOMENTS
@pytest.mark.parametrize("step", ["start", "resume"])
def test_hooks_and_guardrails_hold_over_a_crash(
    environment: RunEnvironment, moment: Any, step: str
) -> None:
    """No refused call runs, each call has its change, and each trip is an event."""
    for point in every_crash(moment, more_than=3):
        clock = ManualClock()
        store, before = MemoryStore(clock.now), len(environment.effect_names())
        if step == "start":
            with point.process(store) as dying:
                make_runner(dying, clock).start("go", run_id="r")
            clock.seconds += 120
            outcome = make_runner(store, clock).start("go", run_id="r")
        else:
            runner = make_runner(store, clock)
            asked = runner.start("go", run_id="r")
            assert isinstance(asked, Suspended)
            runner.decide(asked.waits[0].id, Approve(by="kim"))
            with point.process(store) as dying:
                make_runner(dying, clock).resume("r")
            clock.seconds += 120
            outcome = make_runner(store, clock).resume("r")
        runner = make_runner(store, clock)
        ended = finish(
            runner, clock, outcome, partial(effects_since, environment, before)
        )

        assert not isinstance(ended, Failed), point
        assert isinstance(ended, Finished), point
        assert "two" == ended.output
        effects = effects_since(environment, before)
        assert ["pay 100", "pay 7"] == sorted(effects), point
        told = [e for e in runner.events("r") if isinstance(e, GuardrailTripped)]
        names = sorted(each.guardrail for each in told)
        assert ["large", "no_secret", "unlucky"] == names, point
        contents = [each["content"] for each in ended.continuation.root.messages]
        assert 1 == contents.count("be brief") == contents.count("and?"), point
        assert "secret" not in contents, point
