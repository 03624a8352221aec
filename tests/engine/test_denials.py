"""Denials: by persons and by rules, and models that repeat a denied call."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Deny,
    Failed,
    Finished,
    Grant,
    Outcome,
    Runner,
    Suspended,
    Wait,
    resume,
    run,
    tool,
)
from continuations.engine.ports import SystemIdGenerator
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor
from continuations.results import Decision
from continuations.tools import Tool
from continuations_storage import MemoryStore, faults
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import (
    make_boss,
    root_tool_results,
    should_pause_after,
    text_tool,
)
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment
from tests.scripts import Line, call, scripted_model

PAY = [call("pay", cents=5)]


def always(*lines: Line) -> Any:
    """Return a script with so many turns that it never ends by itself."""
    return {"go": [*lines * 20, "end"]}


def make_pay(approval: Any = True) -> Tool[..., Any]:
    """Return a tool whose calls need an approval."""
    return text_tool(
        "pay", "paid {cents}", {"cents": int}, logs=True, approval=approval
    )


def deny_all(runner: Runner, outcome: Outcome, times: int) -> Outcome:
    """Deny what waits, so many times."""
    for _ in range(times):
        assert isinstance(outcome, Suspended)
        for wait in outcome.waits:
            runner.decide(wait.id, Deny(by="kim", reason="no"))
        outcome = runner.resume("r")
    return outcome


def test_third_denial_of_one_call_ends_the_run(environment: RunEnvironment) -> None:
    """By default, the model gets three chances; each denial says that it is one."""
    runner = Runner(make_boss(always(PAY), make_pay()), store="memory:")

    outcome = expect(deny_all(runner, runner.start("go", run_id="r"), 3), Failed)

    assert "max_denials" == outcome.error.code
    assert outcome.error.message == (
        "pay was denied in 3 turns of agent boss, with the same arguments each time. "
        "Change the instructions or the policy of the tool, or raise max_denials."
    )
    first, second, _ = root_tool_results(outcome)
    assert first.endswith("Reason: no")
    assert second.endswith(
        "Reason: no The same call was denied in 2 turns. Do not repeat it: your task "
        "may end."
    )
    assert [] == environment.effect_names()
    assert ["go 0", "go 1", "go 2"] == environment.turns()


@pytest.mark.parametrize("again", [[call("pay", cents=6)], [call("other", cents=5)]])
def test_other_calls_have_a_count_of_their_own(again: list[Any]) -> None:
    """Other arguments, or another tool, make another call."""
    script = {"go": [PAY, PAY, again, again, "end"]}
    other = tool(make_pay().function, name="other", approval=True)
    runner = Runner(make_boss(script, make_pay(), other), store="memory:")

    assert isinstance(deny_all(runner, runner.start("go", run_id="r"), 4), Finished)


def test_calls_are_the_same_if_their_effective_arguments_are() -> None:
    """The order of the fields, blanks and defaults make no other call."""

    @tool(approval=True)
    def send(to: str, text: str = "hi") -> str:
        """Send a text."""
        return f"{text}, {to}"

    calls = [call("send", to="ann"), call("send", text="hi", to="ann")]
    script = {"go": [calls[:1], calls[1:], "end"]}
    runner = Runner(make_boss(script, send, max_denials=2), store="memory:")

    assert isinstance(deny_all(runner, runner.start("go", run_id="r"), 2), Failed)


def test_identical_calls_of_one_turn_count_once() -> None:
    """The model makes them before it reads a denial."""
    script = {"go": [PAY * 5, "end"]}
    runner = Runner(make_boss(script, make_pay(), max_denials=2), store="memory:")

    assert isinstance(deny_all(runner, runner.start("go", run_id="r"), 1), Finished)


def test_call_that_ran_is_counted_from_the_beginning() -> None:
    """An approval between the denials says that the call may be made again."""
    runner = Runner(make_boss(always(PAY), make_pay(), max_denials=2), store="memory:")
    outcome = expect(deny_all(runner, runner.start("go", run_id="r"), 1), Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))

    outcome = expect(deny_all(runner, runner.resume("r"), 1), Suspended)

    assert isinstance(deny_all(runner, outcome, 1), Failed)


def test_message_of_a_user_starts_the_count_again() -> None:
    """Also a message that no worker has read when the last denial arrives."""
    runner = Runner(make_boss(always(PAY), make_pay(), max_denials=2), store="memory:")
    outcome = expect(deny_all(runner, runner.start("go", run_id="r"), 1), Suspended)
    runner.send("r", "Ask for less.")

    outcome = expect(deny_all(runner, outcome, 2), Suspended)

    assert isinstance(deny_all(runner, outcome, 1), Failed)


def test_denials_of_rules_count() -> None:
    """No person is needed to stop a model that a rule denies again and again."""

    def never(cents: int) -> Deny:
        return Deny(reason=f"{cents} is too much")

    runner = Runner(make_boss(always(PAY), make_pay(never)), store="memory:")

    outcome = expect(runner.start("go", run_id="r"), Failed)

    assert "max_denials" == outcome.error.code
    assert 3 == len(root_tool_results(outcome))


@pytest.mark.parametrize("on_deadline", [None, Deny(reason="too late")])
def test_deadlines_that_refuse_the_call_count(on_deadline: Deny | None) -> None:
    policy = ApprovalPolicy(within=timedelta(minutes=5), on_deadline=on_deadline)
    clock = ManualClock()
    agent = make_boss(always(PAY), make_pay(policy), max_denials=2)
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    runner.start("go", run_id="r")

    for _ in range(2):
        clock.seconds += 360
        runner.sweep()

    outcome = expect(runner.resume("r"), Failed)
    assert "max_denials" == outcome.error.code


def test_no_limit_and_the_limit_of_the_running_code(store: MemoryStore) -> None:
    """With None nothing ends; a deployment with a limit counts earlier denials."""
    model = always(PAY)
    endless = Runner(make_boss(model, make_pay(), max_denials=None), store=store)
    outcome = expect(deny_all(endless, endless.start("go", run_id="r"), 5), Suspended)
    bounded = Runner(make_boss(model, make_pay()), store=store)

    failed = expect(deny_all(bounded, outcome, 1), Failed)

    assert "pay was denied in 6 turns" in failed.error.message


def test_count_survives_other_processes(environment: RunEnvironment) -> None:
    """Each denial is decided and taken in by processes of their own."""
    script = always([call("pay", what="1")])
    outcome = environment.start(script)
    for _ in range(3):
        [wait] = outcome["waits"]
        environment.deny(wait)
        outcome = environment.resume(script)

    assert "Failed" == outcome["kind"]
    assert "max_denials" == outcome["error"]["code"]
    assert [] == environment.effects()
    assert ["go 0", "go 1", "go 2"] == environment.turns()


@pytest.mark.fresh_interpreters
def test_sub_agent_ends_with_an_error_for_its_caller(
    environment: RunEnvironment,
) -> None:
    """Three levels deep, in fresh interpreters: the agent above goes on."""
    script: Any = {
        "go": [[call("left", input="A")], "all done"],
        "A": [[call("clerk", input="C")], "A done"],
        "C": [[call("pay", what="7")]] * 9,
    }
    outcome = environment.start(script)
    for _ in range(3):
        [wait] = outcome["waits"]
        assert ["boss", "left", "clerk", "pay"] == wait["path"]
        environment.deny(wait)
        outcome = environment.resume(script)

    assert ("Finished", "all done") == (outcome["kind"], outcome["output"])
    read = environment.run("tool-results", "r1", "A", script=script)["tool_results"]
    assert "ERROR: the agent clerk failed: pay was denied in 3 turns" in read
    assert [] == environment.effects()


def test_caller_that_repeats_such_a_sub_agent_ends_too() -> None:

    def never(cents: int) -> Deny:
        return Deny(reason=f"not {cents}")

    calls = [call("clerk", input="C")]
    script: Any = {"go": [calls] * 9, "C": [PAY] * 9}
    model = scripted_model(script)
    clerk = Agent("clerk", tools=[make_pay(never)], model=model)
    boss = Agent("boss", tools=[clerk], model=model)

    outcome = expect(Runner(boss, store="memory:").start("go", run_id="r"), Failed)

    assert outcome.error.message.startswith("clerk was denied in 3 turns of agent boss")


def test_count_is_part_of_a_continuation_without_a_store() -> None:
    agent = make_boss(always(PAY), make_pay())
    outcome = run(agent, "go")
    for _ in range(3):
        assert isinstance(outcome, Suspended)
        data = outcome.continuation.to_bytes()
        outcome = resume(data, agent, answers={outcome.waits[0].id: Deny(by="kim")})

    assert isinstance(outcome, Failed)
    assert "max_denials" == outcome.error.code


# Rules that deny --------------------------------------------------------------


DENIED = "DENIED: a rule refused"


class Rule:
    """A condition whose limit can change while a run waits."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit

    def tool(self, *, repeatable: bool = False, **policy: Any) -> Tool[..., Any]:
        """Return a tool that asks, and that denies calls above the limit."""

        def limits(cents: int) -> bool | Deny:
            return Deny(reason="above the limit") if cents > self.limit else True

        @tool(approval=ApprovalPolicy(when=limits, **policy), idempotent=repeatable)
        def pay(cents: int) -> str:
            """Pay."""
            effect_log.append_effect("pay", str(cents))
            return f"paid {cents}"

        return pay


class Shop:
    """A store, a clock and a rule that several processes share."""

    def __init__(self, *cents: int, **policy: Any) -> None:
        self.clock, self.rule = ManualClock(), Rule()
        self.store = MemoryStore(self.clock.now)
        script = {"go": [*([call("pay", cents=each)] for each in cents), "end"]}
        self.agent = make_boss(script, self.rule.tool(**policy))

    def runner(self, store: Any = None) -> Runner:
        return Runner(self.agent, store=store or self.store, clock=self.clock)

    def start(self) -> Wait:
        return single_wait(self.runner().start("go", run_id="r"))

    def die_in_call(self) -> Wait:
        """Let a process die after the approved call ran; return its unknown outcome."""
        dies = faults.on("create", faults.crashed("before"), prefix="runs/r/v/", skip=1)
        with suppress(faults.Crash):
            self.runner(faults.FaultyStore(self.store, dies)).resume("r")
        self.clock.seconds += 60
        return single_wait(self.runner().resume("r"))


def check_denied(outcome: Outcome, *, last: int = -1) -> None:
    """Check that the run went on, and that a rule denied its call."""
    assert isinstance(outcome, Finished)
    assert list(root_tool_results(outcome))[last].startswith(DENIED)


def test_rule_denies_edited_arguments() -> None:
    """The rule is asked about the arguments that would run."""
    shop = Shop(5)

    shop.runner().decide(shop.start().id, Approve(arguments={"cents": 500}, by="kim"))

    check_denied(shop.runner().resume("r"))
    assert [] == effect_log.names()
    lines = {(line.verdict, line.by, line.rule) for line in shop.runner().audit("r")}
    assert {("approve", "kim", None), ("deny", None, "limits")} == lines


@pytest.mark.parametrize("votes", [1, 2])
def test_rule_that_denies_since_the_approval_counts(votes: int) -> None:
    """The rule is asked again before the begin, also after several votes."""
    shop = Shop(5, votes=votes)
    wait = shop.start()
    decided = [
        shop.runner().decide(wait.id, Approve(by=name))
        for name in ("kim", "lee")[:votes]
    ]
    assert isinstance(decided[-1], Decision)
    shop.rule.limit = 1

    check_denied(shop.runner().resume("r"))

    assert [] == effect_log.names()


def test_rule_may_stop_the_run_before_the_begin() -> None:
    """`on_denied="stop"` holds for a denial before the begin, too."""
    shop = Shop(5, on_denied="stop")
    shop.runner().decide(shop.start().id, Approve(arguments={"cents": 500}, by="kim"))

    outcome = expect(shop.runner().resume("r"), Failed)

    assert "denied" == outcome.error.code
    assert [] == effect_log.names()


def test_rule_denies_a_call_that_a_grant_approved() -> None:
    """The process that examined the call paused before it began."""
    shop = Shop(5, 6)
    remember = Grant("pay")
    shop.runner().decide(shop.start().id, Approve(by="kim", remember=remember))
    for steps in range(2, 9):
        paused = shop.runner().resume("r", should_pause=should_pause_after(steps))
        assert isinstance(paused, Suspended)
        calls = shop.runner().look("r").run_state.calls.values()
        if any(each.grant is not None for each in calls):
            break
    assert ["pay 5"] == effect_log.names()
    shop.rule.limit = 5

    check_denied(shop.runner().resume("r"))

    assert ["pay 5"] == effect_log.names()


def test_rule_denies_an_unknown_outcome_that_a_person_lets_run() -> None:
    """A person says that the call did not happen, and the rule denies its repeat."""
    shop = Shop(5)
    shop.runner().decide(shop.start().id, Approve(by="kim"))
    unknown = shop.die_in_call()
    assert "unknown" == unknown.kind
    shop.runner().decide(unknown.id, Approve(by="kim"))
    shop.rule.limit = 1

    outcome = shop.runner().resume("r")

    check_denied(outcome)
    assert isinstance(outcome, Finished)
    assert "started before" in next(iter(root_tool_results(outcome)))
    assert ["pay 5"] == effect_log.names()


def test_rule_denies_the_repeat_of_an_idempotent_call() -> None:
    """A repeat after a crash is a begin."""
    shop = Shop(5, repeatable=True)
    shop.runner().decide(shop.start().id, Approve(by="kim"))
    dies = faults.on("create", faults.crashed("before"), prefix="runs/r/v/", skip=1)
    with suppress(faults.Crash):
        shop.runner(faults.FaultyStore(shop.store, dies)).resume("r")
    shop.clock.seconds += 60
    shop.rule.limit = 1

    check_denied(shop.runner().resume("r"))

    assert ["pay 5"] == effect_log.names()


def test_rule_denies_what_is_doubtful_in_a_fork() -> None:
    """The call that the model makes again is denied at once; no person is asked."""
    shop = Shop(5, 500)
    shop.runner().decide(shop.start().id, Approve(by="kim"))
    check_denied(shop.runner().resume("r"))
    fork = shop.runner().fork("r", 1, run_id="f")
    assert fork == "f"
    shop.rule.limit = 1

    check_denied(shop.runner().resume("f"))

    assert ["pay 5"] == effect_log.names()


def test_rule_denies_after_a_repair() -> None:
    """Versions were lost, so each call asks a person, and a denied one does not."""
    shop = Shop(5)
    shop.start()
    shop.rule.limit = 1
    shop.clock.seconds += 3600
    asyncio.run(lose_newest_version(shop))
    assert shop.runner().look("r").run_state.run.history_lost

    check_denied(shop.runner().resume("r"))

    assert [] == effect_log.names()


async def lose_newest_version(shop: Shop) -> None:
    """Damage the version with the wait, and repair the run."""
    look = await asyncio.to_thread(shop.runner().look, "r")
    newest = layout.version_key("r", look.version)
    await shop.store.delete(newest)
    await shop.store.create(newest, b"damaged")
    objects, now = Objects(shop.store), shop.clock.now()
    ids = SystemIdGenerator()
    await doctor.repair(objects, "r", now=now, new_ulid=lambda: ids.new_ulid(now))


def test_rule_denies_an_edit_without_a_store() -> None:
    """`resume` with answers is a begin like every other one."""
    shop = Shop(5)
    outcome = run(shop.agent, "go")
    edited = Approve(arguments={"cents": 500}, by="kim")

    data = outcome.continuation.to_bytes()
    end = resume(data, shop.agent, answers={single_wait(outcome).id: edited})

    check_denied(end)
    assert [] == effect_log.names()


def test_denial_that_is_not_recorded_keeps_the_call_from_running() -> None:
    """A person is asked, and the rule is asked again after each approval."""
    shop = Shop(5)
    shop.runner().decide(shop.start().id, Approve(arguments={"cents": 500}, by="kim"))
    refuses = faults.on("create", faults.refused(), prefix="runs/r/in/d-")

    again = single_wait(
        shop.runner(faults.FaultyStore(shop.store, refuses)).resume("r")
    )

    assert "A rule denies this call" in (again.note or "")
    shop.runner().decide(again.id, Approve(by="kim"))
    check_denied(shop.runner().resume("r"))
    assert [] == effect_log.names()


def test_drift_names_a_call_that_the_rule_denies_now() -> None:
    """Nothing is recorded: `drift` only reads."""
    shop = Shop(5)
    shop.runner().decide(shop.start().id, Approve(by="kim"))
    paused = shop.runner().resume("r", should_pause=should_pause_after(1))
    assert isinstance(paused, Suspended)
    shop.rule.limit = 1

    [row] = shop.runner().drift(run="r")

    text = "The approval policy of pay denies the call now."
    assert [("reopen", "policy", text)] == [
        (each.verdict, each.change, each.text) for each in row.why
    ]
    assert ["approve"] == [line.verdict for line in shop.runner().audit("r")]
    assert [] == effect_log.names()
