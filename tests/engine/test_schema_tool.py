"""A tool made from a JSON Schema behaves in a run like every other tool."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Budget,
    Finished,
    Runner,
    Suspended,
    ToolContext,
)
from continuations.authoring.tool.tool import Tool
from continuations.errors import DecisionRefused
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import start_and_get_wait
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "minimum": 1},
        "send-to": {"type": "string", "default": "kim"},
    },
    "required": ["cents"],
    "additionalProperties": False,
}
SCRIPT: Script = {"go": [[call("pay", cents=5)], "end"]}


def make_pay_tool(schema: dict[str, Any] = SCHEMA, **options: Any) -> Tool[..., Any]:
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
    wider = {**SCHEMA, "additionalProperties": True}

    outcome = make_runner(make_pay_tool(wider, approval=True), store=store).resume("r1")

    assert "a detail of its schema changed" in str(single_wait(outcome).note)
    assert [] == effect_log.effects()


def test_reworded_schema_of_a_pending_call_resumes_with_a_reported_change() -> None:
    store = MemoryStore()
    runner = make_runner(make_pay_tool(approval=True), store=store)
    runner.decide(start_and_get_wait(runner).id, Approve())
    reworded = {**SCHEMA, "description": "A payment."}

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

    broken = Tool.from_schema("pay", SCHEMA, broken_pay)
    outcome = make_runner(broken).start("go", budget=Budget(requests=3))

    assert isinstance(outcome, Finished | Suspended)
    assert root_tool_results(outcome)[0].startswith("ERROR: the tool ran")
