"""The rules of every call hold for the calls of a workflow."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Budget,
    Deny,
    Failed,
    Finished,
    Flow,
    Grant,
    Suspended,
    ToolContext,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.errors import Cancelled, DecisionRefused, WorkflowChanged
from continuations.events import (
    CallEnded,
    CallProposed,
    CallStarted,
    RunEnded,
    WaitDecided,
    WaitOpened,
)
from continuations.ledger.objects import Objects
from continuations.ledger.repair.integrity import check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Decision, Vote
from continuations.tools import Retries
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.priced_agents import PRICES, PricedModel
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    make_runner,
    objects,
    pay,
    the_wait,
)
from tests.outcomes import expect
from tests.run_environment import RunEnvironment


@tool(approval=ApprovalPolicy(votes=2))
def transfer(ctx: ToolContext, cents: int) -> str:
    """Transfer money, if two people agree."""
    effect_log.record(effect_log.Effect.of("transfer", cents, ctx))
    return f"sent {cents}"


# Decisions ---------------------------------------------------------------------------


def test_second_vote_releases_the_call(store: MemoryStore) -> None:
    @workflow(tools=[transfer])
    async def transfers(flow: Flow) -> str:
        return await flow.call(transfer, 5)

    waiting = make_runner(transfers, store=store).start(transfers.bind(), run_id=RUN)
    wait_id = the_wait(waiting)
    first = make_runner(transfers, store=store).decide(wait_id, Approve(by="kim"))
    assert isinstance(first, Vote)
    assert isinstance(make_runner(transfers, store=store).resume(RUN), Suspended)
    assert [] == effect_log.names()

    second = make_runner(transfers, store=store).decide(wait_id, Approve(by="lee"))

    assert isinstance(second, Decision)
    assert "sent 5" == make_runner(transfers, store=store).resume(RUN).result()
    assert ["transfer 5"] == effect_log.names()


def test_cancelled_call_takes_no_second_vote(store: MemoryStore) -> None:
    @workflow(tools=[transfer, pay])
    async def gives_up(flow: Flow) -> str:
        sending = asyncio.create_task(flow.call(transfer, 5))
        receipt = await flow.call(pay, 1)
        sending.cancel()
        await ask("Over?")
        return receipt

    runner = make_runner(gives_up, store=store)
    waiting = expect(runner.start(gives_up.bind(), run_id=RUN), Suspended)
    waits = {wait.tool: wait.id for wait in waiting.waits}
    runner.decide(waits["transfer"], Approve(by="kim"))
    runner.decide(waits["pay"], Approve(by="kim"))
    asked = make_runner(gives_up, store=store).resume(RUN)

    runner = make_runner(gives_up, store=store)
    with pytest.raises(Cancelled):
        runner.decide(waits["transfer"], Approve(by="lee"))
    runner.decide(the_wait(asked, "question"), Answer("yes"))
    assert "paid 1" == runner.resume(RUN).result()
    assert ["pay 1"] == effect_log.names()


def test_grant_covers_an_equal_call(environment: RunEnvironment) -> None:
    @workflow(tools=[pay])
    async def pays_twice(flow: Flow, cents: int) -> list[str]:
        first = await flow.call(pay, 5)
        return [first, await flow.call(pay, cents)]

    five: Any = {"type": "object", "properties": {"cents": {"const": 5}}}
    for cents, run_id in ((5, "equal"), (6, "other")):
        environment.clear_logs()
        store = MemoryStore()
        runner = make_runner(pays_twice, store=store)
        waiting = runner.start(pays_twice.bind(cents), run_id=run_id)
        verdict = Approve(by="kim", remember=Grant("pay", five))
        runner.decide(the_wait(waiting), verdict)

        outcome = make_runner(pays_twice, store=store).resume(run_id)

        if cents == 5:
            assert ["paid 5", "paid 5"] == outcome.result()
            assert ["pay 5", "pay 5"] == environment.effect_names()
        else:
            assert {"cents": 6} == outcome.waits[0].arguments
            assert ["pay 5"] == environment.effect_names()


class Receipt(BaseModel):
    """A purchase."""

    cents: int


@tool
def buy(ctx: ToolContext, cents: int) -> Receipt:
    """Buy something; it may not be repeated."""
    effect_log.record(effect_log.Effect.of("buy", cents, ctx))
    return Receipt(cents=cents)


def test_answer_to_an_unknown_outcome_has_the_type_of_the_result() -> None:
    @workflow(tools=[buy])
    async def buys(flow: Flow) -> int:
        return (await flow.call(buy, 5)).cents

    unknown = 0
    for point in every_crash("before", more_than=3, step=1):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            make_runner(buys, store=dying, clock=clock).start(buys.bind(), run_id=RUN)
        if not effect_log.effects():
            continue
        # The tool has bought, and its worker may have died before it could say so.
        clock.seconds = 3600
        outcome = make_runner(buys, store=store, clock=clock).resume(RUN)
        if isinstance(outcome, Suspended):
            unknown += 1
            wait_id = the_wait(outcome, "unknown")
            runner = make_runner(buys, store=store, clock=clock)
            for wrong in ("bought", {"cents": "many"}, 5, None):
                with pytest.raises(DecisionRefused):
                    runner.decide(wait_id, Answer(wrong, by="kim"))
            runner.decide(wait_id, Answer({"cents": 5}, by="kim"))
            outcome = make_runner(buys, store=store, clock=clock).resume(RUN)
        assert 5 == outcome.result()
        assert ["buy 5"] == effect_log.names()

    assert unknown


def test_answer_in_place_of_a_call_has_the_type_of_the_result() -> None:
    @tool(approval=True)
    def order(ctx: ToolContext, cents: int) -> Receipt:
        """Order something."""
        effect_log.record(effect_log.Effect.of("order", cents, ctx))
        return Receipt(cents=cents)

    @workflow(tools=[order])
    async def orders(flow: Flow) -> int:
        return (await flow.call(order, 5)).cents

    store = MemoryStore()
    waiting = make_runner(orders, store=store).start(orders.bind(), run_id=RUN)
    runner = make_runner(orders, store=store)
    for wrong in ("ordered", {"cents": "many"}, 5, None):
        with pytest.raises(DecisionRefused):
            runner.decide(the_wait(waiting), Answer(wrong, by="kim"))
    runner.decide(the_wait(waiting), Answer({"cents": 7}, by="kim"))

    assert 7 == make_runner(orders, store=store).resume(RUN).result()
    assert [] == effect_log.effects()


# Attempts ----------------------------------------------------------------------------


def test_retried_call_has_one_result(store: MemoryStore) -> None:
    @tool(idempotent=True, retries=Retries(2, first_delay=1))
    def push(ctx: ToolContext, text: str) -> str:
        """Push; the first attempt raises."""
        effect_log.record(effect_log.Effect.of("push", text, ctx))
        if ctx.attempt == 1:
            raise ConnectionError(text)
        return f"attempt {ctx.attempt}"

    @workflow(tools=[push, pay])
    async def pushes(flow: Flow) -> list[str]:
        seen = [await flow.call(push, "x")]
        return [*seen, await flow.call(pay, 1)]

    waiting = make_runner(pushes, store=store).start(pushes.bind(), run_id=RUN)
    make_runner(pushes, store=store).decide(the_wait(waiting), Approve(by="kim"))

    ended = make_runner(pushes, store=store).resume(RUN)

    assert ["attempt 2", "paid 1"] == ended.result()
    attempts = [(each["tool"], each["attempt"]) for each in effect_log.effects()]
    assert [("push", 1), ("push", 2), ("pay", 1)] == attempts
    roles = [each["role"] for each in make_runner(store=store).look(RUN).root.messages]
    assert 2 == roles.count("tool")


def test_verify_settles_the_unknown_outcome_of_a_call() -> None:
    """A worker died: the tool says whether it has shipped, or ships now."""

    def look_up(box: str) -> Answer | Approve:
        if f"ship {box}" in effect_log.names():
            return Answer(7)
        return Approve()

    @tool(verify=look_up)
    def ship(ctx: ToolContext, box: str) -> int:
        """Ship a box; return the number of the parcel."""
        effect_log.record(effect_log.Effect.of("ship", box, ctx))
        return 7

    @workflow(tools=[ship])
    async def ships(flow: Flow) -> int:
        return 1 + await flow.call(ship, "a")

    began = 0
    for point in every_crash("before", "after", more_than=3):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            make_runner(ships, store=dying, clock=clock).start(ships.bind(), run_id=RUN)
        began += point.has_crashed and bool(effect_log.effects())
        clock.seconds = 3600
        runner = make_runner(ships, store=store, clock=clock)
        if not [*runner.runs()]:
            assert [] == effect_log.effects()
            continue

        assert 8 == runner.resume(RUN).result(), point
        assert ["ship a"] == effect_log.names(), point

    assert began


# What the code cannot catch ----------------------------------------------------------


@tool(approval=ApprovalPolicy(on_denied="stop"))
def sign(ctx: ToolContext, text: str) -> str:
    """Sign a text; a denial ends the run."""
    effect_log.record(effect_log.Effect.of("sign", text, ctx))
    return f"signed {text}"


def test_code_cannot_catch_a_denial_that_stops_the_run(store: MemoryStore) -> None:
    seen: list[str] = []

    @workflow(tools=[sign, add])
    async def signs(flow: Flow) -> str:
        try:
            await flow.call(sign, "x")
        except BaseException as error:  # noqa: BLE001 - it is what the test shows
            seen.append(type(error).__name__)
        return str(await flow.call(add, 1, 1))

    waiting = make_runner(signs, store=store).start(signs.bind(), run_id=RUN)
    runner = make_runner(signs, store=store)
    runner.decide(the_wait(waiting), Deny(by="kim", reason="No."))

    ended = expect(make_runner(signs, store=store).resume(RUN), Failed)

    assert ("denied", "sign was denied: No.") == (ended.error.code, ended.error.message)
    assert isinstance(make_runner(signs, store=store).resume(RUN), Failed)
    assert [] == effect_log.names()
    # Each worker that stopped closed the code.
    assert {"GeneratorExit"} == {*seen}


def test_code_cannot_catch_an_exhausted_budget(
    caplog: pytest.LogCaptureFixture, store: MemoryStore
) -> None:
    helper: Agent[str] = Agent("helper", model=ScriptedModel(["hello"] * 5))

    @workflow(agents=[helper], tools=[add, pay])
    async def asks(flow: Flow) -> str:
        await flow.call(pay, 1)
        for _ in range(3):
            try:
                await flow.call(helper, "go")
            except BaseException:  # noqa: BLE001 - it is what the test shows
                break
        return str(await flow.call(add, 1, 1))

    waiting = make_runner(asks, store=store).start(
        asks.bind(), run_id=RUN, budget=Budget(requests=2)
    )
    make_runner(asks, store=store).decide(the_wait(waiting), Approve(by="kim"))
    with caplog.at_level(logging.CRITICAL):
        ended = make_runner(asks, store=store).resume(RUN)

    assert isinstance(ended, Failed)
    assert "budget" == ended.error.code
    assert 2 == ended.continuation.usage.requests
    assert ["pay 1"] == effect_log.names()


def test_code_cannot_catch_the_refusal_of_changed_code(store: MemoryStore) -> None:
    def code(first: int) -> Any:
        @workflow(tools=[add, pay], name="code")
        async def function(flow: Flow) -> str:
            total = 0
            try:
                total = await flow.call(add, first, 1)
                await flow.call(pay, total)
            except BaseException:  # noqa: BLE001, S110 - it is what the test shows
                pass
            return f"total {total}"

        return function

    old, new = code(1), code(2)
    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
    make_runner(old, store=store).decide(the_wait(waiting), Approve(by="kim"))
    before = objects(store)

    for _ in range(2):
        with pytest.raises(WorkflowChanged, match="other arguments than the history"):
            make_runner(new, store=store).resume(RUN)

    assert before == objects(store)
    assert ["add 1+1"] == effect_log.names()
    assert "total 2" == make_runner(old, store=store).resume(RUN).result()
    assert ["add 1+1", "pay 2"] == effect_log.names()


# What new code may change ------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "options", "is_refused"),
    [
        ("How many?", {}, False),
        ("How much?", {}, True),
        ("How many?", {"within": 7200}, False),
        ("How many?", {"response_type": float}, False),
        ("How many?", {"on_deadline": Answer(3)}, False),
    ],
    ids=["nothing", "question", "within", "schema", "on_deadline"],
)
def test_question_is_compared_and_its_options_are_not(
    question: str, options: Any, is_refused: bool, store: MemoryStore
) -> None:
    def code(text: str, **options: Any) -> Any:
        type_ = options.pop("response_type", int)
        options.setdefault("within", 3600)

        @workflow(tools=[add], name="code")
        async def function(flow: Flow) -> int:
            number: Any = await ask(text, type_, **options)
            return await flow.call(add, int(number), 1)

        return function

    old, new = code("How many?"), code(question, **options)
    waiting = make_runner(old, store=store).start(old.bind(), run_id=RUN)
    make_runner(old, store=store).decide(the_wait(waiting, "question"), Answer(4))
    before = objects(store)
    if is_refused:
        with pytest.raises(WorkflowChanged):
            make_runner(new, store=store).resume(RUN)
        assert before == objects(store)
        assert [] == effect_log.names()
        return

    assert 5 == make_runner(new, store=store).resume(RUN).result()
    assert ["add 4+1"] == effect_log.names()


# Events ------------------------------------------------------------------------------


def told(events: Any) -> list[str]:
    """Return the events of calls and waits as texts, in their order."""
    texts: list[str] = []
    for event in events:
        match event:
            case CallProposed() | CallStarted() | CallEnded():
                texts.append(f"{type(event).__name__} {event.tool}")
            case WaitOpened():
                texts.append(f"WaitOpened {event.wait.kind}")
            case WaitDecided():
                texts.append(f"WaitDecided {event.kind}")
            case RunEnded():
                texts.append("RunEnded")
            case _:
                pass
    return texts


def test_stream_yields_the_events_of_the_steps_in_order(store: MemoryStore) -> None:
    @workflow(tools=[add, pay])
    async def bill(flow: Flow) -> str:
        total = await flow.call(add, 1, 2)
        return await flow.call(pay, await flow.call(add, total, 3))

    runner = make_runner(bill, store=store)
    stream = runner.stream(bill.bind(), run_id=RUN)
    first = told(stream)
    assert isinstance(stream.outcome, Suspended)
    runner.decide(the_wait(stream.outcome), Approve(by="kim"))
    runner = make_runner(bill, store=store)
    resumed = runner.resume_stream(RUN)
    second = told(resumed)

    assert isinstance(resumed.outcome, Finished)
    assert "paid 6" == resumed.outcome.output
    assert [
        *("CallProposed add", "CallStarted add", "CallEnded add"),
        *("CallProposed add", "CallStarted add", "CallEnded add"),
        *("CallProposed pay", "WaitOpened approval"),
    ] == first
    assert [
        *("WaitDecided approve", "CallStarted pay", "CallEnded pay", "RunEnded"),
    ] == second
    assert [*first, *second] == told(runner.events(RUN))


# Agents ------------------------------------------------------------------------------


def test_output_of_an_agent_has_its_type(store: MemoryStore) -> None:
    """Also in each replay."""
    seen: list[object] = []
    buyer = Agent("buyer", model=ScriptedModel(['{"cents": 5}']), output_type=Receipt)

    @workflow(agents=[buyer], tools=[pay])
    async def buys(flow: Flow) -> Receipt:
        receipt = await flow.call(buyer, "Buy!")
        seen.append(receipt)
        await flow.call(pay, receipt.cents)
        return Receipt(cents=receipt.cents + 1)

    waiting = make_runner(buys, store=store).start(buys.bind(), run_id=RUN)
    make_runner(buys, store=store).decide(the_wait(waiting), Approve(by="kim"))

    ended = make_runner(buys, store=store).resume(RUN)

    assert Receipt(cents=6) == ended.result()
    assert [Receipt(cents=5)] * 2 == seen
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize(("requests", "fits"), [(2, False), (3, True)])
def test_budget_counts_both_agents_of_a_handoff(
    requests: int, fits: bool, caplog: pytest.LogCaptureFixture, store: MemoryStore
) -> None:
    # A script has a reply for each turn of the frame: the first one is of the triage.
    replies: list[Any] = ["", ToolCall("pay", {"cents": 5}), "sold"]
    sales: Agent[str] = Agent("sales", model=ScriptedModel(replies), tools=[pay])
    model = ScriptedModel([ToolCall("transfer_to_sales", {})])
    triage: Agent[str] = Agent("triage", model=model, handoffs=[sales])

    @workflow(agents=[triage])
    async def sells(flow: Flow) -> str:
        return await flow.call(triage, "go")

    waiting = make_runner(sells, store=store).start(
        sells.bind(), run_id=RUN, budget=Budget(requests=requests)
    )
    make_runner(sells, store=store).decide(the_wait(waiting), Approve(by="kim"))
    with caplog.at_level(logging.CRITICAL):
        ended = make_runner(sells, store=store).resume(RUN)

    assert requests == ended.continuation.usage.requests
    if fits:
        assert "sold" == ended.result()
    else:
        assert isinstance(ended, Failed)
        assert "budget" == ended.error.code
    assert ["pay 5"] == effect_log.names()


def test_usage_of_a_run_covers_the_agents_below(store: MemoryStore) -> None:
    clerk = Agent("clerk", model=PricedModel(["one", "two", "three"]))

    @workflow(agents=[clerk])
    async def inner(flow: Flow) -> str:
        return await flow.call(clerk, "go")

    @workflow(agents=[clerk, inner], tools=[pay])
    async def outer(flow: Flow) -> str:
        texts = await asyncio.gather(flow.call(clerk, "go"), flow.call(inner))
        await flow.call(pay, 1)
        return " ".join([*texts, await flow.call(clerk, "go")])

    runner = make_runner(outer, store=store, prices=PRICES)
    waiting = expect(runner.start(outer.bind(), run_id=RUN), Suspended)
    usage = waiting.continuation.usage
    assert (2, 20) == (usage.requests, usage.input_tokens)
    runner.decide(the_wait(waiting), Approve(by="kim"))

    ended = expect(make_runner(outer, store=store, prices=PRICES).resume(RUN), Finished)

    usage = ended.continuation.usage
    assert (3, 30, "0.03", "USD") == (
        usage.requests,
        usage.input_tokens,
        str(usage.cost),
        usage.currency,
    )


# Histories ---------------------------------------------------------------------------


def test_history_after_a_restart_has_other_random_numbers() -> None:
    @tool
    def note(ctx: ToolContext, text: str) -> None:
        """Note a text."""
        effect_log.record(effect_log.Effect.of("note", text, ctx))

    @workflow(tools=[note])
    async def rounds(flow: Flow, number: int, before: str = "") -> list[str]:
        key = str(flow.uuid())
        await flow.call(note, key)
        await sleep(60)
        if number:
            flow.restart(number - 1, key)
        return [before, key]

    store, clock = MemoryStore(), ManualClock()
    outcome = make_runner(rounds, store=store, clock=clock).start(
        rounds.bind(1), run_id=RUN
    )
    while isinstance(outcome, Suspended):
        clock.seconds += 61
        outcome = make_runner(rounds, store=store, clock=clock).resume(RUN)

    first, second = outcome.result()
    assert first != second
    assert [f"note {first}", f"note {second}"] == effect_log.names()


def test_doctor_finds_nothing_wrong_in_a_run_of_a_workflow() -> None:
    """After each step: calls, waits, a timer, a patch, a nested run and a restart."""

    @workflow(tools=[add])
    async def inner(flow: Flow, first: int) -> int:
        await sleep(60)
        return await flow.call(add, first, 1)

    @workflow(agents=[inner], tools=[pay])
    async def outer(flow: Flow, rest: int) -> int:
        flow.patched("doctor")
        asking = asyncio.create_task(ask("Stop?"))
        total: int
        total, _ = await asyncio.gather(flow.call(inner, rest), flow.call(pay, rest))
        asking.cancel()
        if rest:
            flow.restart(rest - 1)
        return total

    store, clock = MemoryStore(), ManualClock()
    outcome = make_runner(outer, store=store, clock=clock).start(
        outer.bind(1), run_id=RUN
    )
    looked = 0
    while isinstance(outcome, Suspended):
        found = asyncio.run(check_integrity(Objects(store), RUN))
        assert () == found.findings
        looked += 1
        runner = make_runner(outer, store=store, clock=clock)
        for wait in outcome.waits:
            if wait.kind == "approval":
                runner.decide(wait.id, Approve(by="kim"))
        clock.seconds += 61
        outcome = make_runner(outer, store=store, clock=clock).resume(RUN)

    assert 1 == outcome.result()
    found = asyncio.run(check_integrity(Objects(store), RUN))
    assert () == found.findings
    assert found.newest_number == found.last_good_number
    assert looked > 1
