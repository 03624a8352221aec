"""Runs with one capability each, whose process dies at any storage operation.

`SCENARIOS` is the table: an agent, the decisions of people, and what must be true at
the end. The test kills the first process at each operation, and lets others finish the
run. By default it tries a sample of the operations; with TORTURE=1 all of them.

`tests/torture/scenarios.py` has the scenarios whose processes are killed by SIGKILL.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.core.messages import Message
from continuations.errors import AlreadyDecided, RunBusy, RunNotFound
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
    TurnInfo,
)
from continuations.models.interface import ModelReply
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine import attachment_agents, slow_models, state_agents
from tests.sampling import sample
from tests.scripts import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Outcome, Wait
    from continuations.models.interface import ModelRequest
    from continuations.results import Verdict
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

RUN_ID = "r1"


@dataclass(frozen=True)
class End:
    """The outcome of a run and its traces.

    Attributes:
        runner: A runner of a process that comes later.
        outcome: The outcome of the run.
        effects: Its effects in the external log, in their order.
    """

    runner: Runner
    outcome: Finished
    effects: list[str]

    @property
    def contents(self) -> list[Any]:
        """The contents of the messages of the root agent."""
        return [each["content"] for each in self.outcome.continuation.root.messages]

    @property
    def trips(self) -> list[GuardrailTripped]:
        """The events of guardrails."""
        events = self.runner.events(RUN_ID)
        return [each for each in events if isinstance(each, GuardrailTripped)]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run from its start to its end.

    Attributes:
        name: The capability.
        make_runner: Returns the runner of a new process.
        check: Checks the end.
        decide: Returns the verdict for a wait, given the effects until now.
        start_input: The input of the run.
    """

    name: str
    make_runner: Callable[[Store, ManualClock], Runner]
    check: Callable[[End], None]
    decide: Callable[[Wait, list[str]], Verdict]
    start_input: Any = "go"


# States ------------------------------------------------------------------------------

ONCE = [call("buy", cents=1), call("order", cents=2), call("buy", cents=4)]
REPEATED = [call("book", cents=1), call("book", cents=2), call("order", cents=4)]


def make_state_runner(calls: list[Any], store: Store, clock: ManualClock) -> Runner:
    """Return a runner of two agents that make the calls, which change their states."""
    script = {
        "go": [calls, [call("hr", input="below"), *calls], "end"],
        "below": [calls, "done"],
    }
    return Runner(state_agents.three_deep(script), store=store, clock=clock)


def say_that_it_ran(wait: Wait, _effects: list[str]) -> Verdict:
    """Approve; an unknown outcome gets a result without a change of the state."""
    return Answer("it ran") if wait.kind == "unknown" else Approve()


def check_state(total: int | None, end: End) -> None:
    """The state is the sum of the results that the model reads, no more and no less."""
    root = end.runner.look(RUN_ID).root
    spent = state_agents.replayed(root.messages)
    assert spent == root.state.get("spent", 0)
    assert total in (None, spent)


# Attachments -------------------------------------------------------------------------

ATTACHMENTS = {
    "go": [
        [call("draw", what="pie"), call("hr", input="below")],
        [call("publish", what="pie")],
        "root saw SEEN",
    ],
    "below": [[call("clerk", input="desk")], "hr done"],
    "desk": [[call("draw", what="line"), call("publish", what="line")], "saw SEEN"],
}


def make_attachment_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner of three agents that draw and publish files."""
    agent = attachment_agents.three_deep(ATTACHMENTS)
    return Runner(agent, store=store, clock=clock)


def check_attachments(end: End) -> None:
    """The models saw all bytes, at every depth."""
    assert "root saw the photo, the chart, the report" == end.outcome.output


# Models that are waited for ----------------------------------------------------------


def make_slow_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner of three agents whose models reply later."""
    return Runner(slow_models.agents(), store=store, clock=clock, model_retry_time=0)


def check_model_waits(end: End) -> None:
    """No turn that was committed as pending is asked again."""
    names = [name for name in end.effects if not name.startswith("poll")]
    assert set(slow_models.EFFECTS) == set(names)
    # Only the turn whose reply was not committed when the process died.
    asked = [name for name in names if name.startswith("ask")]
    assert len(asked) <= len({*asked}) + 1


# Hooks and guardrails ----------------------------------------------------------------


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


def make_guarded_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner of an agent with every kind of hook."""
    calls = [ToolCall("pay", {"cents": cents}) for cents in (900, 7, 13)]
    agent = Agent(
        "clerk",
        tools=[pay],
        model=ScriptedModel([calls, "secret", "one", "two"]),
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


def deny_what_was_paid(wait: Wait, effects: list[str]) -> Verdict:
    """Approve; deny a call of unknown outcome that the log has."""
    ran = f"pay {wait.arguments['cents']}" in effects
    return Deny() if wait.kind == "unknown" and ran else Approve(by="kim")


def check_guardrails(end: End) -> None:
    """No refused call runs, each call has its change, and each trip is an event."""
    assert "two" == end.outcome.output
    assert ["pay 100", "pay 7"] == sorted(end.effects)
    names = sorted(each.guardrail for each in end.trips)
    assert ["large", "no_secret", "unlucky"] == names
    assert 1 == end.contents.count("be brief") == end.contents.count("and?")
    assert "secret" not in end.contents


# Guardrails that ask -----------------------------------------------------------------


@dataclass
class Opinion:
    """The output of an agent that checks."""

    tripped: bool
    reason: str


class Judge:
    """Trips over calls with more than 100 cents."""

    name = "judge"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return an opinion about the call in the last message."""
        cents = json.loads(request.messages[-1].content)["arguments"]["cents"]
        content = json.dumps({"tripped": cents > 100, "reason": "too much"})
        data = {"role": "assistant", "content": content}
        return ModelReply(message=Message.from_mapping(data))


def asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Ask about each input and output of a payer."""
    return Tripped("a person decides") if info.text else None


def make_asking_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner of a boss, and a payer whose texts people and agents judge."""
    checker = Agent(
        "checker", model=Judge(), output_type=Opinion, instructions="Check."
    )
    ask = Guardrail(check=asks, on_trip="ask")
    calls = [ToolCall("pay", {"cents": cents}) for cents in (900, 7)]
    payer = Agent(
        "payer",
        tools=[pay],
        model=ScriptedModel([calls, "secret"]),
        guardrails=Guardrails(input=[ask], output=[ask], tools=[checker]),
    )
    model = ScriptedModel([ToolCall("payer", {"input": "pay"}), "done"])
    return Runner(Agent("boss", tools=[payer], model=model), store=store, clock=clock)


def deny_kind(denied: str, wait: Wait, effects: list[str]) -> Verdict:
    """Deny the waits of one kind, and a call of unknown outcome that was paid."""
    happened = wait.kind == "unknown" and "pay 7" in effects
    return Deny(by="kim") if happened or wait.kind == denied else Approve(by="kim")


def check_judged_texts(denied: str, end: End) -> None:
    """A denied input pays nothing; a denied output reaches no caller."""
    assert ([] if denied == "input" else ["pay 7"]) == end.effects
    assert ("secret" in str(end.contents)) == (not denied)
    stages = [each.stage for each in end.trips]
    assert 1 == stages.count("input")
    assert (denied != "input") == stages.count("output") == stages.count("tool")


# The table ---------------------------------------------------------------------------

SCENARIOS = (
    Scenario(
        name="states, calls that act",
        make_runner=partial(make_state_runner, ONCE),
        decide=say_that_it_ran,
        check=partial(check_state, None),
    ),
    Scenario(
        name="states, calls that may be repeated",
        make_runner=partial(make_state_runner, REPEATED),
        decide=lambda _wait, _effects: Approve(),
        check=partial(check_state, 14),
    ),
    Scenario(
        name="attachments",
        make_runner=make_attachment_runner,
        decide=say_that_it_ran,
        check=check_attachments,
        start_input=["go", attachment_agents.PHOTO],
    ),
    Scenario(
        name="models that reply later",
        make_runner=make_slow_runner,
        decide=lambda _wait, _effects: Approve(),
        check=check_model_waits,
    ),
    Scenario(
        name="hooks and guardrails",
        make_runner=make_guarded_runner,
        decide=deny_what_was_paid,
        check=check_guardrails,
    ),
    *(
        Scenario(
            name=f"guardrails that ask, {denied or 'nothing'} denied",
            make_runner=make_asking_runner,
            decide=partial(deny_kind, denied),
            check=partial(check_judged_texts, denied),
        )
        for denied in ("", "input", "output")
    ),
)


@dataclass(frozen=True)
class Site:
    """A store with a clock, which processes share; one run."""

    scenario: Scenario
    clock: ManualClock
    store: Store
    effects: Callable[[], list[str]]

    def runner(self) -> Runner:
        """Return the runner of a new process."""
        return self.scenario.make_runner(self.store, self.clock)

    def resume_to_end(self) -> Outcome:
        """Start or resume with a new process each time, and end the waits."""
        for count in range(60):
            runner = self.runner()
            try:
                outcome = runner.resume(RUN_ID)
            except RunNotFound:
                outcome = runner.start(self.scenario.start_input, run_id=RUN_ID)
            except RunBusy:
                self.clock.seconds += 61
                continue
            if not isinstance(outcome, Suspended):
                return outcome
            self._decide(outcome.waits)
            if any(wait.kind == "model" for wait in outcome.waits):
                if count % 2:
                    runner.wake(RUN_ID)
                else:
                    self.clock.seconds += 2 * 3600
        raise AssertionError

    def sweep_to_end(self) -> Outcome:
        """Only sweep, and decide what is listed."""
        for _ in range(60):
            self.clock.seconds += 2 * 3600
            runner = self.runner()
            assert {} == runner.sweep().errors
            self._decide([runner.wait(each.id) for each in runner.waiting()])
            try:
                status = runner.look(RUN_ID).status
            except RunNotFound:
                runner.start(self.scenario.start_input, run_id=RUN_ID)
                continue
            if status not in {"running", "suspended"}:
                return runner.resume(RUN_ID)
        raise AssertionError

    def _decide(self, waits: Any) -> None:
        for wait in waits:
            if wait.kind == "model":
                continue
            # The process that died may have recorded another verdict.
            with suppress(AlreadyDecided):
                verdict = self.scenario.decide(wait, self.effects())
                self.runner().decide(wait.id, verdict)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_run_comes_to_its_end_after_a_crash(
    environment: RunEnvironment, scenario: Scenario, moment: Any
) -> None:
    """The effects and the end are as without a crash, and no key is left behind."""
    recoveries = (Site.resume_to_end, Site.sweep_to_end)
    for number, point in enumerate(every_crash(moment, more_than=12, step=5)):
        for recover in sample(recoveries, 2, number):
            environment.folder.joinpath("effects").unlink(missing_ok=True)
            clock = ManualClock()
            store = MemoryStore(clock.now)
            with point.process(store) as dying:
                Site(scenario, clock, dying, environment.effect_names).resume_to_end()
            site = Site(scenario, clock, store, environment.effect_names)

            outcome = recover(site)

            assert isinstance(outcome, Finished), point
            scenario.check(End(site.runner(), outcome, environment.effect_names()))
            for _ in range(3):
                clock.seconds += 3600
                site.runner().sweep()
            assert [] == remaining_keys(store), point
