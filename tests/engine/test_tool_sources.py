"""Tool sources: their tools are listed when a worker begins, and never before."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
    external,
    resume,
    run,
    tool,
    workflow,
)
from continuations.errors import AgentChanged, InvalidInput, ToolsUnavailable
from continuations.guardrails import Guardrail
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool
from tests.clocks import OffsetClock
from tests.engine.agent_builders import text_tool
from tests.outcomes import expect

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
