"""Tools from sources and from schemas behave like every other tool."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Budget,
    Deny,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    external,
    resume,
    run,
    tool,
    workflow,
)
from continuations.errors import (
    AgentChanged,
    DecisionRefused,
    InvalidInput,
    ToolsUnavailable,
)
from continuations.guardrails import Guardrail
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log, scripts
from tests.clocks import ManualClock, OffsetClock
from tests.engine.agent_builders import make_boss, root_tool_results, text_tool
from tests.engine.payment_agent import start_and_get_wait
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}


class Source:
    """A source whose tools a test changes."""

    def __init__(self, *names: str, name: str = "bank") -> None:
        self.name = name
        self.names: Sequence[str] = names
        self.listings = 0
        self.paid: list[str] = []
        self.error: BaseException | None = None
        self.options: dict[str, Any] = {}
        self.schema: dict[str, Any] = SCHEMA

    async def list_tools(self) -> list[Any]:
        self.listings += 1
        if self.error is not None:
            raise self.error
        return [
            Tool.from_schema(name, self.schema, self._pay, **self.options)
            for name in self.names
        ]

    def _pay(self, arguments: dict[str, Any]) -> str:
        self.paid.append(arguments["to"])
        return f"paid {arguments['to']}"


def _has_receiver(to: str = "") -> bool:
    return bool(to)


def _got(answer: object) -> str:
    return f"got {answer}"


def payer(source: Source, *tools: Any, **options: Any) -> Agent:
    """Return an agent that pays Jane with the tool `pay`."""
    script: list[Any] = [ToolCall("pay", {"to": "Jane"}), "Done."]
    model = ScriptedModel(script)
    return Agent("payer", tools=[source, *tools], model=model, **options)


def test_worker_lists_tools_once_in_each_session() -> None:
    """Making the agent and the runner, and a decision, list nothing."""
    source = Source("pay")
    runner = Runner(payer(source, approval=True), store="memory:")
    assert source.listings == 0

    waiting = expect(runner.start("Pay Jane", run_id="jane-1"), Suspended)
    assert waiting.code_changes == ()
    assert source.listings == 1
    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    assert source.listings == 1

    assert isinstance(runner.resume("jane-1"), Finished)
    assert (source.listings, source.paid) == (2, ["Jane"])
    assert isinstance(runner.resume("jane-1"), Finished)
    assert source.listings == 2  # the run has ended


def test_start_without_work_lists_nothing() -> None:
    source = Source("pay")
    runner = Runner(payer(source), store="memory:")
    source.error = ConnectionError()
    assert isinstance(runner.start("Pay", run_id="jane-1", work=False), Suspended)
    assert source.listings == 0
    source.error = None
    [outcome] = runner.sweep().resumed
    assert isinstance(outcome, Finished)
    assert outcome.code_changes == ()


def test_model_reads_listed_tools_in_the_place_of_the_source() -> None:
    source = Source("pay", "refund")
    first = text_tool("first", "", read_only=True)
    model = ScriptedModel(["Done."])
    agent = Agent("payer", tools=[first, source], model=model)
    run(agent, "Hello")
    [request] = model.requests
    assert [each.name for each in request.tools] == [
        "first",
        "pay",
        "refund",
    ]
    assert list(agent.tools_by_name) == ["first"]  # the agent itself is as it was


@pytest.mark.parametrize("change", ["schema", "version"])
def test_changed_contract_while_an_approval_waits_asks_again(change: str) -> None:
    source = Source("pay")
    runner = Runner(payer(source, approval=True), store="memory:")
    waiting = expect(runner.start("Pay Jane", run_id="jane-1"), Suspended)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    if change == "schema":
        amount = {"amount": {"type": "integer", "default": 900}}
        source.schema = {**SCHEMA, "properties": {**SCHEMA["properties"], **amount}}  # type: ignore[dict-item]  # a dict of a test
    else:
        source.options = {"version": "2"}
    again = expect(runner.resume("jane-1"), Suspended)
    assert source.paid == []
    [wait] = again.waits
    assert wait.id != waiting.waits[0].id
    assert [each.where for each in again.code_changes] == ["payer/pay"]


def test_removed_tool_of_an_approved_call_keeps_the_approval() -> None:
    source = Source("pay")
    runner = Runner(payer(source, approval=True), store="memory:")
    waiting = expect(runner.start("Pay Jane", run_id="jane-1"), Suspended)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    source.names = ["transfer"]
    with pytest.raises(AgentChanged, match="has no tool pay"):
        runner.resume("jane-1")
    source.names = ["pay"]
    assert isinstance(runner.resume("jane-1"), Finished)
    assert source.paid == ["Jane"]


def test_renamed_tool_of_a_source_keeps_the_approval() -> None:
    source = Source("pay")
    agent = payer(source, approval=True)
    store = "memory:renamed-of-source"
    waiting = Runner(agent, store=store).start("Pay Jane", run_id="jane-1")
    assert isinstance(waiting, Suspended)
    runner = Runner(agent, store=store, renamed={"pay": "transfer"})
    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    source.names = ["transfer"]
    assert isinstance(runner.resume("jane-1"), Finished)
    assert source.paid == ["Jane"]
    source.names = ["pay", "transfer"]
    with pytest.raises(ToolsUnavailable, match="is ambiguous"):
        runner.start("Pay Jane", run_id="jane-2")


def test_source_that_fails_leaves_the_run_as_it_was() -> None:
    """Nothing is written; a later sweep of any process goes on."""
    clock = OffsetClock()
    source = Source("pay")
    runner = Runner(payer(source, approval=True), store="memory:", clock=clock)
    waiting = expect(runner.start("Pay Jane", run_id="jane-1"), Suspended)
    source.error = ConnectionError("https://user:secret@bank")
    # A run that only waits needs no tools.
    assert isinstance(runner.resume("jane-1"), Suspended)

    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    before = len(list(runner.history("jane-1")))
    with pytest.raises(ToolsUnavailable, match="bank could not be listed") as raised:
        runner.resume("jane-1")
    assert raised.value.run_id == "jane-1"
    assert "secret" not in str(raised.value)
    swept = runner.sweep()
    assert isinstance(swept.errors["jane-1"], ToolsUnavailable)
    assert len(list(runner.history("jane-1"))) == before

    source.error = None
    assert runner.sweep().runs_checked == 0  # it leaves the run alone for a minute
    clock.offset_seconds = 61
    [outcome] = runner.sweep().resumed
    assert isinstance(outcome, Finished)
    assert source.paid == ["Jane"]


def test_start_with_a_source_that_fails_stores_nothing() -> None:
    source = Source("pay")
    source.error = TimeoutError()
    runner = Runner(payer(source), store="memory:")
    with pytest.raises(ToolsUnavailable, match="jane-1 did not continue"):
        runner.start("Pay Jane", run_id="jane-1")
    assert list(runner.runs()) == []
    with pytest.raises(ToolsUnavailable, match="TimeoutError"):
        run(payer(source), "Pay Jane")


def test_cancel_needs_no_source() -> None:
    source = Source("pay")
    runner = Runner(payer(source, approval=True), store="memory:")
    runner.start("Pay Jane", run_id="jane-1")
    source.error = ConnectionError()
    runner.cancel("jane-1", reason="not needed")
    assert runner.look("jane-1").status == "cancelled"


def test_job_of_a_source_is_cancelled_only_with_its_tool() -> None:
    stopped: list[str] = []

    class Jobs(Source):
        async def list_tools(self) -> list[Any]:
            await super().list_tools()
            made = Tool.from_schema("pay", SCHEMA, lambda _: external("the payment"))
            made.on_cancel(lambda: stopped.append("stopped"))
            return [made]

    source = Jobs("pay")
    runner = Runner(payer(source), store="memory:")
    assert isinstance(runner.start("Pay Jane", run_id="jane-1"), Suspended)
    source.error = ConnectionError()
    runner.cancel("jane-1")
    with pytest.raises(ToolsUnavailable):
        runner.resume("jane-1")
    source.error = None
    runner.resume("jane-1")
    assert stopped == ["stopped"]
    assert runner.look("jane-1").status == "cancelled"


@pytest.mark.parametrize("other", ["source", "own"])
def test_two_tools_with_one_name_are_an_error_with_both_owners(other: str) -> None:
    @tool(name="pay")
    def own() -> str:
        """Pay."""
        return ""

    more: Any = own if other == "own" else Source("pay", name="shop")
    owners = "the agent itself, one of bank" if other == "own" else "bank, one of shop"
    with pytest.raises(ToolsUnavailable, match=f"named pay: one of {owners}"):
        run(payer(Source("pay"), more), "Pay")


@pytest.mark.parametrize("wrong", [Agent("other"), 5, "pay"])
def test_source_that_lists_no_tools_is_an_error(wrong: Any) -> None:
    class Wrong(Source):
        async def list_tools(self) -> list[Any]:
            return [wrong]

    with pytest.raises(ToolsUnavailable, match="bank cannot be used: it listed"):
        run(payer(Wrong()), "Pay")


def test_invalid_schema_of_a_source_is_an_error() -> None:
    source = Source("pay")
    source.schema = {"type": "object", "properties": {"to": {"$ref": "https://a/b"}}}
    with pytest.raises(ToolsUnavailable, match="bank cannot be used: tool pay"):
        run(payer(source), "Pay")


def test_sources_of_sub_agents_in_a_circle_are_listed_once() -> None:
    """A process that takes over finds the frames of the copies by their names."""
    source = Source("pay")
    script: list[Any] = [ToolCall("clerk", {"input": "go on"}), "Done."]
    boss: Agent = Agent(
        "boss", tools=lambda: [clerk, source], model=ScriptedModel(script)
    )
    pay: list[Any] = [ToolCall("pay", {"to": "Jane"}), "Paid."]
    clerk: Agent = Agent(
        "clerk",
        tools=lambda: [boss, source],
        handoffs=lambda: [boss],
        model=ScriptedModel(pay),
        approval=_has_receiver,
    )
    runner = Runner(boss, store="memory:")
    waiting = expect(runner.start("Go", run_id="jane-1"), Suspended)
    assert source.listings == 1
    assert waiting.waits[0].path == ("boss", "clerk", "pay")
    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    assert isinstance(runner.resume("jane-1"), Finished)
    assert source.paid == ["Jane"]


def test_agents_of_a_workflow_may_have_sources_and_the_workflow_may_not() -> None:
    source = Source("pay")
    agent = payer(source)

    @workflow(agents=[agent])
    async def trip(flow: Any) -> str:
        """Pay by an agent."""
        return str(await flow.call(agent, "Pay Jane"))

    assert run(trip.bind()).result() == "Done."
    assert source.paid == ["Jane"]

    async def other(flow: Any) -> str:
        """Pay."""
        return str(flow)

    with pytest.raises(InvalidInput, match="Give the source to an agent"):
        workflow(tools=[source])(other)


def test_source_without_a_store() -> None:
    source = Source("pay")
    agent = payer(source, approval=True)
    waiting = expect(run(agent, "Pay Jane"), Suspended)
    answers = {waiting.waits[0].id: Approve(by="kim")}
    done = resume(waiting.continuation.to_bytes(), agent, answers=answers)
    assert isinstance(done, Finished)
    assert done.code_changes == ()
    assert (source.listings, source.paid) == (2, ["Jane"])


def test_fork_rewind_and_drift_list_the_tools() -> None:
    source = Source("pay")
    runner = Runner(payer(source, approval=True), store="memory:")
    waiting = expect(runner.start("Pay Jane", run_id="jane-1"), Suspended)
    assert [row.verdict for row in runner.drift()] == ["accept"]
    source.options = {"version": "2"}
    [row] = runner.drift()
    assert (row.verdict, row.why[0].change) == ("reopen", "contract")
    source.options, source.error = {}, ConnectionError()
    [row] = runner.drift()
    assert (row.verdict, row.why[0].change) == ("refuse", "tools")
    source.error = None

    forked = runner.fork("jane-1", run_id="jane-2")
    [wait] = runner.look(forked).waits
    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("jane-2"), Finished)
    assert source.paid == ["Jane"]
    runner.decide(waiting.waits[0].id, Deny(by="kim"))
    assert isinstance(runner.resume("jane-1"), Finished)


def test_forced_tool_of_a_source_is_checked_when_it_is_listed() -> None:
    source = Source("pay")
    agent = payer(source, tool_choice="pay")
    assert isinstance(run(agent, "Pay Jane"), Finished)
    source.names = ["transfer"]
    with pytest.raises(ToolsUnavailable, match="tool_choice"):
        run(agent, "Pay Jane")


def test_guardrail_agent_may_have_no_source() -> None:
    judge = Agent("judge", tools=[Source("pay")], output_type=dict[str, bool])
    with pytest.raises(InvalidInput, match="judge has tools"):
        Guardrail(check=judge)


def test_answer_of_a_wait_with_the_run_lists_the_tools(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An `on_answer` function of a listed tool gets the answer in another session."""

    class Asking(Source):
        async def list_tools(self) -> list[Any]:
            self.listings += 1
            made = Tool.from_schema("pay", SCHEMA, lambda _: external("the payment"))
            made.on_answer(_got)
            return [made]

    source = Asking("pay")
    runner = Runner(payer(source), store="memory:")
    with caplog.at_level(logging.WARNING, logger="continuations"):
        waiting = runner.start("Pay Jane", run_id="jane-1")
    assert isinstance(waiting, Suspended)
    runner.decide(waiting.waits[0].id, Answer(5, by="kim"))
    done = expect(runner.resume("jane-1"), Finished)
    assert done.continuation.root.messages[-2]["content"] == "got 5"
    assert caplog.records == []


# Schemas ----------------------------------------------------------------------


PAY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "minimum": 1},
        "send-to": {"type": "string", "default": "kim"},
    },
    "required": ["cents"],
    "additionalProperties": False,
}
SCRIPT: Script = {"go": [[call("pay", cents=5)], "end"]}


def make_pay_tool(
    schema: dict[str, Any] = PAY_SCHEMA, **options: Any
) -> Tool[..., Any]:
    """Return a tool that writes each payment to the effect log."""

    def pay(arguments: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        what = f"{arguments['cents']} {arguments['send-to']}"
        effect_log.append_line(effect_log.EFFECTS_VARIABLE, tool="pay", what=what)
        return {"paid": arguments["cents"], "run": ctx.run_id}

    return Tool.from_schema("pay", schema, pay, description="Pay.", **options)


def make_runner(pay: Tool[..., Any], **options: Any) -> Runner:
    options.setdefault("store", MemoryStore())
    return Runner(make_boss(SCRIPT, pay), **options)


def test_approved_schema_tool_runs_with_the_defaults_that_the_wait_showed() -> None:
    runner = make_runner(make_pay_tool(approval=True))
    wait = start_and_get_wait(runner)
    assert {"cents": 5, "send-to": "kim"} == wait.arguments

    runner.decide(wait.id, Approve())
    outcome = expect(runner.resume("r1"), Finished)

    assert ["pay 5 kim"] == effect_log.names()
    assert ['{"paid":5,"run":"r1"}'] == root_tool_results(outcome)


def test_condition_on_a_schema_tool_reads_the_arguments_by_name() -> None:
    def over_three(cents: int) -> bool:
        return cents > 3

    wait = start_and_get_wait(make_runner(make_pay_tool(approval=over_three)))

    assert "over_three" == wait.policy
    assert [] == effect_log.effects()


def test_edited_arguments_of_a_schema_tool_run() -> None:
    """The edit runs with the defaults of the schema; a wrong edit is refused."""
    runner = make_runner(make_pay_tool(approval=True))
    wait = start_and_get_wait(runner)
    for wrong in ({"cents": 0}, {"cents": "3"}, {"cents": 3, "more": 1}, {}):
        with pytest.raises(DecisionRefused):
            runner.decide(wait.id, Approve(arguments=wrong))

    runner.decide(wait.id, Approve(arguments={"cents": 3.0}))
    outcome = expect(runner.resume("r1"), Finished)

    assert ["pay 3 kim"] == effect_log.names()
    assert "changed its arguments" in root_tool_results(outcome)[0]


def test_invalid_arguments_are_returned_to_the_model() -> None:
    script: Script = {"go": [[call("pay", cents="5")], [call("pay", cents=2)], "end"]}
    outcome = Runner(make_boss(script, make_pay_tool()), store=MemoryStore()).start(
        "go"
    )

    assert isinstance(outcome, Finished)
    [refused, _] = root_tool_results(outcome)
    assert refused.startswith("ERROR: the call was not executed")
    assert 'cents: the value is not of type "integer"' in refused
    assert ["pay 2 kim"] == effect_log.names()


def test_schema_tool_of_a_sub_agent_waits_and_runs() -> None:
    script: Script = {
        "go": [[call("clerk", input="sub")], "end"],
        "sub": [[call("pay", cents=5)], "done"],
    }
    model = scripts.scripted_model(script)
    clerk = Agent("clerk", tools=[make_pay_tool(approval=True)], model=model)
    runner = Runner(Agent("boss", tools=[clerk], model=model), store=MemoryStore())
    wait = start_and_get_wait(runner)
    assert ("boss", "clerk", "pay") == wait.path

    runner.decide(wait.id, Approve())

    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def crash_in_the_call(pay: Tool[..., Any]) -> Runner:
    """Return a runner whose run crashed after the call and before its result."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    fault = on("create", crashed("before"), prefix="runs/", skip=2)
    with pytest.raises(Crash):
        make_runner(pay, store=FaultyStore(store, fault), clock=clock).start(
            "go", run_id="r1"
        )
    clock.seconds += 31
    return make_runner(pay, store=store, clock=clock)


def test_crash_in_a_schema_tool_is_an_unknown_outcome() -> None:
    runner = crash_in_the_call(make_pay_tool())
    wait = single_wait(runner.resume("r1"))
    assert "unknown" == wait.kind

    runner.decide(wait.id, Answer("paid", by="kim"))

    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def test_crash_in_an_idempotent_schema_tool_repeats_the_call() -> None:
    runner = crash_in_the_call(make_pay_tool(idempotent=True))

    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim", "pay 5 kim"] == effect_log.names()


def test_crash_in_a_verifiable_schema_tool_asks_its_verify_function() -> None:
    seen: list[tuple[dict[str, Any], int]] = []

    def verify(arguments: dict[str, Any], ctx: ToolContext) -> Answer:
        seen.append((arguments, ctx.attempt))
        return Answer("it was paid")

    outcome = crash_in_the_call(make_pay_tool(verify=verify)).resume("r1")

    assert isinstance(outcome, Finished)
    assert ["it was paid"] == root_tool_results(outcome)
    assert [({"cents": 5, "send-to": "kim"}, 1)] == seen
    assert ["pay 5 kim"] == effect_log.names()


def test_changed_schema_of_an_approved_call_opens_a_new_wait() -> None:
    """Another schema is another contract, so the approval does not count."""
    store = MemoryStore()
    runner = make_runner(make_pay_tool(approval=True), store=store)
    runner.decide(start_and_get_wait(runner).id, Approve())
    wider = {**PAY_SCHEMA, "additionalProperties": True}

    outcome = make_runner(make_pay_tool(wider, approval=True), store=store).resume("r1")

    assert "a detail of its schema changed" in str(single_wait(outcome).note)
    assert [] == effect_log.effects()


def test_reworded_schema_of_a_pending_call_resumes_with_a_reported_change() -> None:
    store = MemoryStore()
    runner = make_runner(make_pay_tool(approval=True), store=store)
    runner.decide(start_and_get_wait(runner).id, Approve())
    reworded = {**PAY_SCHEMA, "description": "A payment."}

    outcome = make_runner(make_pay_tool(reworded, approval=True), store=store).resume(
        "r1"
    )

    assert isinstance(outcome, Finished)
    assert ["boss/pay"] == [each.where for each in outcome.code_changes]
    assert ["pay 5 kim"] == effect_log.names()


class OwnTool:
    """A tool of an application: it has the members of the protocol, no base class."""

    def __init__(self, inner: Tool[..., Any]) -> None:
        self.name = inner.name
        self.description = inner.description
        self.parameters = inner.parameters
        self.schema_json = inner.schema_json
        self.contract_digest = inner.contract_digest
        self.model_text_digest = inner.model_text_digest
        self.version = inner.version
        self.approval = inner.approval
        self.read_only = self.writes_state = self.repeatable = self.verifiable = False
        self.timeout = inner.timeout
        self.on_timeout = inner.on_timeout
        self.sub_agent = inner.sub_agent
        self.effective_arguments = inner.effective_arguments
        self.find_edit_difference = inner.find_edit_difference
        self.enabled = inner.enabled
        self.needs_approval = inner.needs_approval
        self.invoke = inner.invoke
        self.continues = inner.continues
        self.cancels = inner.cancels
        self.cancel_call = inner.cancel_call
        self.check_answer = inner.check_answer
        self.receive_answer = inner.receive_answer
        self.verify_call = inner.verify_call
        self.display_call = inner.display_call
        self.secrets = inner.secrets
        self.retries = inner.retries
        self.on_error = inner.on_error


def test_own_implementation_of_the_protocol_waits_and_runs() -> None:
    own = OwnTool(make_pay_tool(approval=True))
    runner = Runner(make_boss(SCRIPT, own), store=MemoryStore())
    runner.decide(start_and_get_wait(runner).id, Approve())

    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5 kim"] == effect_log.names()


def test_schema_tool_whose_result_has_no_json_form_is_an_error_for_the_model() -> None:
    def broken_pay(_arguments: dict[str, Any]) -> object:
        return object()

    broken = Tool.from_schema("pay", PAY_SCHEMA, broken_pay)
    outcome = make_runner(broken).start("go", budget=Budget(requests=3))

    assert isinstance(outcome, Finished | Suspended)
    assert root_tool_results(outcome)[0].startswith("ERROR: the tool ran")
