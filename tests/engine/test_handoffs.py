"""Handoffs: an agent gives its conversation to another one, in the same frame."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Failed,
    Flow,
    Grant,
    Replied,
    Runner,
    Suspended,
    ToolContext,
    tool,
    workflow,
)
from continuations.authoring.manifest import find_version, make_manifest
from continuations.errors import AgentChanged, InvalidInput, RunBusy, RunNotFound
from continuations.events import Handoff as HandoffEvent
from continuations.guardrails import Guardrails, Tripped
from continuations.hooks import TurnInfo
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import handoff
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import text_tool
from tests.engine.handoff_agents import Shop, boss, last_of, look_up, refund
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment

RUN = "r1"


def test_other_agent_goes_on_with_the_conversation() -> None:
    shop, store = Shop(), MemoryStore()

    waiting = shop.runner(store).start("a refund, please", run_id=RUN)

    assert isinstance(waiting, Suspended)
    assert ("refunds", "refund") == waiting.waits[0].path
    assert "refunds" == waiting.continuation.root.agent
    handed = ("refund", "transfer_to_triage")
    tools = ("look_up", "transfer_to_refunds", "transfer_to_sales")
    assert [
        ("triage", tools, "You route."),
        ("refunds", handed, "You refund."),
    ] == shop.seen
    # Another process approves and goes on.
    other = Shop()
    other.runner(store).decide(waiting.waits[0].id, Approve(by="kim"))
    ended = other.runner(store).resume(RUN)
    assert "refunds: refunded 5" == ended.result()
    assert [("refunds", handed, "You refund.")] == other.seen
    assert ["refund 5"] == [e["tool"] for e in effect_log.effects()]


def test_thread_stays_with_the_agent_until_it_hands_back() -> None:
    shop, store = Shop(), MemoryStore()

    def send(text: str) -> Any:
        return shop.runner(store).thread("triage", key="k").send(text)

    waiting = send("a refund, please")
    shop.runner(store).decide(waiting.waits[0].id, Approve(by="kim"))
    shop.runner(store).resume(waiting.run_id)

    assert "refunds: hello" == send("hello").output
    assert "triage: The agent triage has the conversation now." == send("back").output
    assert "triage: hello again" == send("hello again").output
    last = [(agent, system) for agent, _, system in shop.seen[-3:]]
    assert [
        ("refunds", "You refund."),
        ("triage", "You route."),
        ("triage", "You route."),
    ] == last
    assert 1 == len(effect_log.effects())


def test_turn_has_one_handoff_and_all_other_calls_run() -> None:
    shop = Shop()
    runner = shop.runner(MemoryStore())

    assert isinstance(runner.start("both", run_id=RUN), Suspended)

    results = [m["content"] for m in runner.look(RUN).root.messages[3:6]]
    assert ["order o1", "The agent refunds has the conversation now."] == results[:2]
    assert "handed the conversation to refunds. A turn has one handoff" in results[2]
    assert ["look_up o1"] == [e["tool"] for e in effect_log.effects()]


@pytest.mark.parametrize("stops", ["failure", "stop"])
def test_thread_whose_turn_fails_after_a_handoff_stays_with_the_next_agent(
    stops: str,
) -> None:
    """The transcript says that the next agent has it."""
    order = text_tool("order", "ordered", approval=ApprovalPolicy(on_denied="stop"))
    clerk = Agent("clerk", model=ScriptedModel(lambda _: "clerk here"))
    model = ScriptedModel([[ToolCall("transfer_to_clerk", {}), ToolCall("order", {})]])
    triage = Agent("triage", model=model, tools=[order], handoffs=[clerk])
    runner = Runner(triage, store=MemoryStore())
    thread = runner.thread("triage", key="k")
    waiting = expect(thread.send("go"), Suspended)
    if stops == "failure":
        runner.decide(waiting.waits[0].id, Deny(by="kim"))
        runner.resume(waiting.run_id)
    else:
        thread.stop_turn()
        runner.resume(waiting.run_id)

    assert "clerk" == runner.look(waiting.run_id).root.agent
    reply = expect(thread.send("hello"), Replied)
    assert "clerk here" == reply.output


def test_event_names_both_agents_and_calls_have_the_path_of_their_agent() -> None:
    shop = Shop()
    runner = shop.runner(MemoryStore())
    runner.start("a refund, please", run_id=RUN)

    events = list(runner.events(RUN))

    [handed] = [each for each in events if isinstance(each, HandoffEvent)]
    assert ("triage", "refunds") == (handed.previous, handed.agent)
    paths = {each.path for each in events if len(each.path) == 2}
    assert {("triage", "transfer_to_refunds"), ("refunds", "refund")} == paths


def test_circle_of_handoffs_ends_as_too_many_turns() -> None:
    def always(name: str) -> ScriptedModel:
        return ScriptedModel(lambda _: ToolCall(f"transfer_to_{name}", {}))

    first: Agent[str] = Agent(
        "first", model=always("second"), handoffs=lambda: [second], max_turns=7
    )
    second: Agent[str] = Agent("second", model=always("first"), handoffs=[first])

    ended = expect(Runner(first, store=MemoryStore()).start("go", run_id=RUN), Failed)

    assert "max_turns" == ended.error.code
    assert 7 == ended.continuation.root.turns


def test_handoff_needs_fewer_turns_than_an_agent_as_a_tool() -> None:
    clerk = Agent("clerk", model=ScriptedModel(lambda _: "answer"))

    def says(request: ModelRequest) -> Any:
        if last_of(request)[0] == "tool":
            return last_of(request)[1]
        [offered] = request.tools
        has_input = "input" in offered.parameters["properties"]
        return ToolCall(offered.name, {"input": "x"} if has_input else {})

    def requests(**options: Any) -> list[int]:
        agent = Agent("triage", model=ScriptedModel(says), **options)
        thread = Runner(agent, store=MemoryStore()).thread("triage", key="k")
        replies = [thread.send("one"), thread.send("two")]
        assert all(isinstance(each, Replied) for each in replies)
        return [each.usage.requests for each in replies if isinstance(each, Replied)]

    assert [2, 1] == requests(handoffs=[clerk])
    assert [3, 3] == requests(tools=[clerk])


# Options of a handoff ---------------------------------------------------------------


class Reason(BaseModel):
    """Why the conversation goes to another agent."""

    reason: str
    urgent: bool = False


def shop_with_approval(summary: str | None = None) -> Shop:
    """Return a shop whose first handoff waits for a person, and has a reason."""
    shop = Shop()
    asked = handoff(
        shop.refunds, input_type=Reason, approval=True, summary=summary, name="escalate"
    )
    triage = ScriptedModel(
        lambda r: (
            ToolCall("escalate", {"reason": "angry"})
            if last_of(r)[0] == "user"
            else f"triage: {last_of(r)[1]}"
        )
    )
    shop.triage = Agent(
        "triage", instructions="You route.", model=triage, handoffs=[asked]
    )
    return shop


@pytest.mark.parametrize("says_yes", [True, False])
def test_handoff_may_wait_for_a_person(says_yes: bool) -> None:
    shop, store = shop_with_approval("Escalate: {reason}"), MemoryStore()
    wait = single_wait(shop.runner(store).start("help", run_id=RUN))
    assert "Escalate: angry" == (wait.display and wait.display.title)
    assert {"reason": "angry", "urgent": False} == wait.arguments

    verdict = Approve(by="kim") if says_yes else Deny(by="kim")
    shop.runner(store).decide(wait.id, verdict)
    after = shop.runner(store).resume(RUN)

    assert ("refunds" if says_yes else "triage") == after.continuation.root.agent
    assert isinstance(after, Suspended) is says_yes


def test_answer_in_place_of_a_handoff_hands_nothing_over() -> None:
    shop, store = shop_with_approval(), MemoryStore()
    waiting = expect(shop.runner(store).start("help", run_id=RUN), Suspended)
    shop.runner(store).decide(waiting.waits[0].id, Answer("Not now.", by="kim"))

    ended = shop.runner(store).resume(RUN)

    assert "triage" == ended.continuation.root.agent
    assert "Not now." in ended.result()


# Seams ------------------------------------------------------------------------------


def test_fork_and_rewind_before_a_handoff_have_the_agent_of_that_time() -> None:
    shop, store = Shop(), MemoryStore()
    runner = shop.runner(store)
    runner.start("a refund, please", run_id=RUN)
    history = [
        (each.number, runner.look(RUN, version=each.number).root.agent)
        for each in runner.history(RUN)
    ]
    before = max(number for number, agent in history if agent == "triage")

    forked = runner.fork(RUN, before, run_id="f1")

    assert "triage" == runner.look(forked).root.agent
    assert "refunds" == runner.resume(forked).continuation.root.agent
    later = runner.fork(RUN, run_id="f2")
    assert "refunds" == runner.look(later).root.agent


def test_code_without_the_handoff_is_refused_and_named() -> None:
    shop, store = Shop(), MemoryStore()
    waiting = shop.runner(store).start("a refund, please", run_id=RUN)
    assert isinstance(waiting, Suspended)
    alone = Agent("triage", model=ScriptedModel(["x"]))
    runner = Runner(alone, store=store, clock=ManualClock())
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    with pytest.raises(AgentChanged, match="no handoff leads from agent triage to age"):
        runner.resume(RUN)
    (row,) = runner.drift()
    assert "refuse" == row.verdict
    assert isinstance(shop.runner(store).resume(RUN).result(), str)


def test_sub_agent_without_the_handoff_is_named_and_can_be_given_up() -> None:
    store = MemoryStore()
    waiting = expect(Runner(boss(), store=store).start("go", run_id=RUN), Suspended)
    alone = Agent("triage", model=ScriptedModel(["x"]))
    model = ScriptedModel(lambda r: last_of(r)[1])
    runner = Runner(Agent("boss", tools=[alone], model=model), store=store)

    with pytest.raises(AgentChanged, match="no handoff leads from agent triage to age"):
        runner.resume(RUN)
    runner.decide(waiting.waits[0].id, Deny(by="kim"))
    assert "the agent refunds was removed" in runner.resume(RUN).result()


def test_version_of_a_tool_is_found_by_the_path_of_its_agent() -> None:
    pay = text_tool("pay", "paid", version="2")
    clerk = Agent("clerk", tools=[pay])
    triage = Agent("triage", handoffs=[clerk])
    boss_of_triage = Agent("boss", tools=[triage])
    digest = pay.contract_digest

    for root, path in (
        (triage, ("clerk", "pay")),
        (boss_of_triage, ("boss", "triage", "clerk", "pay")),
    ):
        assert ("2",) == find_version(
            make_manifest(root, sdk_version="1"), path, digest
        )


def test_renamed_agent_is_found() -> None:
    shop, store = Shop(), MemoryStore()
    waiting = shop.runner(store).start("a refund, please", run_id=RUN)
    assert isinstance(waiting, Suspended)
    desk = Agent("desk", model=shop.refunds.model, tools=[refund])
    renamed = Shop(refunds=desk)
    names = {"refunds": "desk", "transfer_to_refunds": "transfer_to_desk"}
    runner = renamed.runner(store, renamed=names)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    assert "refunds: refunded 5" == runner.resume(RUN).result()


def test_sub_agent_may_be_handed_over_and_its_caller_gets_the_reply() -> None:
    shop, store = Shop(), MemoryStore()
    boss = Agent(
        "boss",
        tools=[shop.triage],
        model=ScriptedModel(
            lambda r: (
                ToolCall("triage", {"input": "a refund"})
                if last_of(r)[0] == "user"
                else last_of(r)[1]
            )
        ),
    )
    waiting = expect(Runner(boss, store=store).start("go", run_id=RUN), Suspended)
    assert ("boss", "triage", "refunds", "refund") == waiting.waits[0].path
    runner = Runner(boss, store=store)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    assert "refunds: refunded 5" == runner.resume(RUN).result()


def test_workflow_gets_the_reply_of_the_last_agent() -> None:
    shop = Shop()

    @workflow(agents=[shop.triage])
    async def helps(flow: Flow) -> str:
        return await flow.call(shop.triage, "a refund")

    runner = Runner(helps, store=MemoryStore())
    waiting = expect(runner.start(helps.bind(), run_id=RUN), Suspended)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    assert "refunds: refunded 5" == runner.resume(RUN).result()


class Basket(BaseModel):
    """The state of an agent."""

    items: int = 0


@pytest.mark.parametrize("is_shared", [True, False])
def test_state_stays_if_both_agents_have_its_type(is_shared: bool) -> None:
    @tool(writes_state=True)
    def put(ctx: ToolContext) -> str:
        """Put an item into the basket."""
        ctx.update(items=3)
        return "put"

    class Other(BaseModel):
        name: str = ""

    def says(request: ModelRequest) -> Any:
        if last_of(request)[0] == "user":
            return [ToolCall("put", {}), ToolCall("transfer_to_cashier", {})]
        return "?"

    cashier = Agent(
        "cashier",
        model=ScriptedModel(lambda _: "paid"),
        state=Basket if is_shared else Other,
    )
    store: Any = MemoryStore()
    clerk = Agent(
        "clerk",
        model=ScriptedModel(says),
        tools=[put],
        state=Basket,
        handoffs=[cashier],
    )
    thread = Runner(clerk, store=store).thread("clerk", key="k")

    reply = expect(thread.send("go"), Replied)

    state = reply.continuation.root.state
    assert ({"items": 3} if is_shared else {}) == state
    assert (
        "paid" == Runner(clerk, store=store).thread("clerk", key="k").send("x").output
    )


def test_input_guardrails_of_the_next_agent_judge_the_last_message() -> None:
    asked: list[str] = []

    def no_thief(turn: TurnInfo) -> Tripped | None:
        asked.append(turn.text)
        return Tripped("a thief") if "steal" in turn.text else None

    def says(request: ModelRequest) -> Any:
        role, text = last_of(request)
        if role == "user":
            return ToolCall("look_up", {"order": "o1"})
        return ToolCall("transfer_to_clerk", {}) if "order o1" in text else "?"

    clerk = Agent(
        "clerk",
        model=ScriptedModel(lambda _: "clerk here"),
        guardrails=Guardrails(input=[no_thief]),
    )
    triage = Agent(
        "triage", model=ScriptedModel(says), tools=[look_up], handoffs=[clerk]
    )
    runner = Runner(triage, store=MemoryStore())

    assert "clerk here" == runner.start("a pen", run_id=RUN).result()
    stopped = runner.start("steal a pen", run_id="r2")

    assert ["a pen", "steal a pen"] == asked
    assert isinstance(stopped, Failed)
    assert "guardrail" == stopped.error.code
    thread = runner.thread("triage", key="k")
    thread.send("a pen")
    thread.send("and a book")
    assert ["a pen", "and a book"] == asked[2:]


def test_grant_of_an_agent_covers_no_call_of_the_next_one() -> None:
    """Their tools may have the same name and parameters."""
    paid: list[str] = []

    def payer(name: str) -> Any:
        @tool(approval=True, name="pay")
        def pay(cents: int) -> str:
            """Pay."""
            paid.append(f"{name} {cents}")
            return "paid"

        return pay

    def says(request: ModelRequest) -> Any:
        role, text = last_of(request)
        if role == "user":
            return ToolCall("pay", {"cents": 1})
        return ToolCall("transfer_to_second", {}) if text == "paid" else "?"

    def pays(request: ModelRequest) -> Any:
        is_new = "conversation" in last_of(request)[1]
        return ToolCall("pay", {"cents": 999}) if is_new else "end"

    second = Agent("second", model=ScriptedModel(pays), tools=[payer("second")])
    first = Agent(
        "first", model=ScriptedModel(says), tools=[payer("first")], handoffs=[second]
    )
    above = ScriptedModel(
        lambda r: (
            ToolCall("first", {"input": "go"})
            if last_of(r)[0] == "user"
            else last_of(r)[1]
        )
    )
    runner = Runner(Agent("boss", tools=[first], model=above), store=MemoryStore())
    waiting = expect(runner.start("go", run_id=RUN), Suspended)
    approval = Approve(by="kim", remember=Grant("pay"))
    runner.decide(waiting.waits[0].id, approval)

    assert ("boss", "first", "second", "pay") == single_wait(runner.resume(RUN)).path
    assert ["first 1"] == paid


def after_an_empty_reply(reply: Any) -> ScriptedModel:
    replies = iter(["", reply])
    return ScriptedModel(lambda _: next(replies))


def test_next_agent_has_its_own_retries_and_reads_only_persons() -> None:
    """An empty reply of the first agent costs the next one nothing."""
    judged: list[str] = []
    told: list[object] = []

    def note(turn: TurnInfo) -> None:
        judged.append(turn.text)

    def instructions(task: object, _context: object) -> str:
        told.append(task)
        return "You sell."

    clerk = Agent(
        "clerk",
        instructions=instructions,
        model=after_an_empty_reply("sold"),
        guardrails=Guardrails(input=[note]),
    )
    model = after_an_empty_reply(ToolCall("transfer_to_clerk", {}))
    triage = Agent("triage", model=model, handoffs=[clerk])

    ended = Runner(triage, store=MemoryStore()).start("a pen", run_id=RUN)

    assert "sold" == ended.result()
    assert ["a pen"] == judged
    assert ["a pen"] == told


class Text(BaseModel):
    """A state with another type of its field."""

    items: str = ""


def test_state_of_a_thread_has_the_type_of_the_agent_that_has_it() -> None:
    @tool(writes_state=True)
    def put(ctx: ToolContext) -> str:
        """Put a text."""
        ctx.update(items="many")
        return "put"

    model = ScriptedModel(["", ToolCall("put", {}), "end"])
    cashier = Agent("cashier", model=model, tools=[put], state=Text)
    first = ScriptedModel([ToolCall("transfer_to_cashier", {})])
    clerk = Agent("clerk", model=first, state=Basket, handoffs=[cashier])
    store = MemoryStore()
    thread = Runner(clerk, store=store).thread("clerk", key="k")
    assert Basket() == thread.state

    thread.send("go")

    assert Text(items="many") == thread.state
    alone = Agent("clerk", model=ScriptedModel(["x"]), state=Basket)
    without = Runner(alone, store=store).thread("clerk", key="k")
    with pytest.raises(InvalidInput, match="no handoff to agent cashier"):
        _ = without.state
    assert {"items": "many"} == without.look().root.state  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["fork", "adopt"])
def test_events_of_a_copy_have_the_paths_of_the_original(how: str) -> None:
    shop, store = Shop(), MemoryStore()
    runner = shop.runner(store)
    runner.start("a refund, please", run_id=RUN)
    if how == "fork":
        runner.fork(RUN, run_id="copy")
    else:
        runner.adopt(runner.look(RUN).to_bytes(), run_id="copy")

    paths = {each.path for each in runner.events("copy") if len(each.path) == 2}

    assert {("refunds", "refund")} == paths - {("triage", "transfer_to_refunds")}


# Mistakes ---------------------------------------------------------------------------


@workflow
async def code(_flow: Flow) -> str:
    """Do nothing."""
    return ""


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([refund], r"handoffs has an item that is not an agent, got <Tool refund>"),
        (["sales"], r"handoffs has an item that is not an agent, got 'sales'"),
        ([code], r"code is a workflow, which reads no messages"),
        ([Agent("two", output_type=int)], r"two has another output_type"),
        ([Agent("a"), Agent("a")], r"two tools named transfer_to_a"),
        (Agent("a"), r"handoffs must be a list"),
        ([Agent("a b")], r"agent triage: a tool's name must .*handoff\(agent, name="),
    ],
    ids=[
        "a tool",
        "a name",
        "a workflow",
        "another output",
        "a pair",
        "no list",
        "a space",
    ],
)
def test_handoffs_are_checked(items: Any, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        Agent("triage", handoffs=items)


def test_handoff_among_the_tools_is_refused() -> None:
    given = handoff(Agent("clerk", model=ScriptedModel(["x"])))
    with pytest.raises(InvalidInput, match=r"Pass it in handoffs=\[...\] of an agent"):
        Agent("triage", tools=[given])
    with pytest.raises(InvalidInput, match="Pass it in handoffs"):
        workflow(tools=[given])(code.function)


def test_function_handoff_takes_an_agent() -> None:
    given: Any = refund
    with pytest.raises(InvalidInput, match=r"handoff\(\.\.\.\) takes an agent, got"):
        handoff(given)


def test_two_agents_of_one_name_are_refused_before_the_handoff() -> None:
    """A later process could not tell them apart."""
    model = ScriptedModel(lambda _: "x")
    near = Agent("clerk", model=model)
    far = Agent("clerk", model=model)
    desk = Agent(
        "desk",
        model=ScriptedModel(
            lambda r: (
                ToolCall("transfer_to_clerk", {})
                if "desk has" in last_of(r)[1]
                else last_of(r)[1]
            )
        ),
        handoffs=[far],
    )
    triage = Agent(
        "triage",
        model=ScriptedModel(lambda _: ToolCall("transfer_to_desk", {})),
        handoffs=[near, desk],
    )

    ended = Runner(triage, store=MemoryStore()).start("go", run_id=RUN)

    assert "ERROR: the call was not executed: two agents are named clerk." == (
        ended.result()
    )


def test_approved_handoff_to_another_agent_is_asked_about_again() -> None:
    """New code gives the tool of the approval another agent."""
    store = MemoryStore()

    def runner(target: str) -> Runner:
        desk = Agent(target, model=ScriptedModel(["", f"{target} answers."]))
        escalate = handoff(desk, name="escalate", approval=True)
        model = ScriptedModel([ToolCall("escalate", {})])
        return Runner(Agent("triage", model=model, handoffs=[escalate]), store=store)

    first = runner("desk").start("go", run_id=RUN)
    runner("desk").decide(first.waits[0].id, Approve(by="kim"))

    again = expect(runner("intern").resume(RUN), Suspended)

    assert again.waits[0].id != first.waits[0].id
    runner("intern").decide(again.waits[0].id, Approve(by="kim"))
    assert "intern answers." == runner("intern").resume(RUN).result()


# Processes --------------------------------------------------------------------


APP = "tests.engine.handoff_agents:agents"


@pytest.mark.fresh_interpreters
def test_agent_that_got_the_conversation_goes_on_in_another_process(
    environment: RunEnvironment,
) -> None:
    started = environment.run("start", "r1", "go", app=APP)
    [wait] = started["waits"]
    assert ["boss", "triage", "refunds", "refund"] == wait["path"]
    environment.approve(wait)

    ended = environment.run("resume", "r1", app=APP)

    assert "refunds: refunded 5" == ended["output"]
    assert ["refund 5"] == [each["tool"] for each in environment.effects()]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_every_operation_loses_no_handoff(moment: Any) -> None:
    for point in every_crash(moment, more_than=5, step=3):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            runner = Runner(boss(), store=dying, clock=clock)
            waiting = expect(runner.start("go", run_id="r1"), Suspended)
            runner.decide(waiting.waits[0].id, Approve(by="kim"))
            runner.resume("r1")
        outcome: Any = None
        for _ in range(8):
            clock.seconds += 120
            runner = Runner(boss(), store=store, clock=clock)
            try:
                outcome = runner.resume("r1")
            except RunBusy:
                continue
            except RunNotFound:
                outcome = runner.start("go", run_id="r1")
            if not isinstance(outcome, Suspended):
                break
            (wait,) = outcome.waits
            assert ("boss", "triage", "refunds", "refund") == wait.path, point
            ran = bool(effect_log.effects())  # then the outcome is known
            told = Answer("refunded 5", by="kim") if ran else Approve(by="kim")
            runner.decide(wait.id, told)
        assert "refunds: refunded 5" == outcome.result(), point
        assert 1 == len(effect_log.effects()), point
