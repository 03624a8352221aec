"""Agents of other kits wait in our store, and go on with what people decided."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import agents
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic_ai import DeferredToolRequests
from typing_extensions import TypedDict

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Suspended,
    errors,
)
from continuations.interop.langgraph import open_interrupts, resume_command
from continuations.interop.openai_agents import decided_state, open_state
from continuations.interop.paused_calls import make_paused_calls, paused_calls
from continuations.interop.pydantic_ai import decided_requests, open_requests
from continuations.serve.http.api import HttpApi, Request
from tests.interop import paused_application
from tests.interop.paused_application import RUN_ID, openai_agent, pydantic_agent

APPLICATION = Path(paused_application.__file__)
Reading = Callable[[], Awaitable[Any]]


@pytest.fixture(autouse=True)
def _no_tracing() -> None:
    agents.set_tracing_disabled(disabled=True)


def process(*words: str) -> str:
    """Return what an interpreter of its own prints."""
    made = subprocess.run(
        [sys.executable, *words], check=True, capture_output=True, text=True
    )
    return made.stdout


@pytest.mark.fresh_interpreters
@pytest.mark.parametrize("kit", ["openai", "langgraph", "pydantic"])
def test_an_agent_waits_in_one_process_and_goes_on_in_another(
    kit: str, tmp_path: Path
) -> None:
    """The tool runs once, in the third process, after an approval in the second."""
    store = f"file:{tmp_path}/runs"
    step = (str(APPLICATION), "{}", kit, store, str(tmp_path))
    opened = json.loads(process(*[each.format("open") for each in step]))
    assert ["A-17", 900] not in opened
    command = ("-m", "continuations")
    (row,) = json.loads(process(*command, "waiting", "--json", "--store", store))
    process(*command, "approve", row["id"], "--by", "kim", "--store", store)
    effects, output = json.loads(process(*[each.format("back") for each in step]))
    assert effects == [["A-17", 900]]
    assert "refunded 900" in output or output == "A-17 approve"


def runner_of(*flows: Any) -> AsyncRunner:
    return AsyncRunner(list(flows) or [paused_calls], store="memory:")


async def openai_pause(
    runner: AsyncRunner, effects: list[Any], **options: Any
) -> tuple[Any, str]:
    """Return an agent of the Agents SDK, and the state at which it waits."""
    agent = openai_agent(effects)
    result = await agents.Runner.run(agent, "Refund A-17")
    state = result.to_state().to_string()
    await open_state(runner, agent, state, run_id=RUN_ID, **options)
    return agent, state


async def wait_of(runner: AsyncRunner) -> Any:
    return (await runner.look(RUN_ID)).waits[0]


async def test_an_approval_shows_the_name_and_all_arguments_of_the_call() -> None:
    runner = runner_of()
    await openai_pause(runner, [])
    wait = await wait_of(runner)
    assert (wait.kind, wait.title) == ("approval", "Run refund")
    assert wait.arguments == {
        "tool": "refund",
        "arguments": {"order": "A-17", "cents": 900},
    }


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Deny(by="kim", reason="too much"), "too much"),
        (Answer('{"order": "A-17", "cents": 900}', by="kim"), "answered instead"),
        (Answer("approve", by="kim"), "answered instead: approve"),
    ],
)
async def test_only_an_approve_runs_a_call_of_the_agents_sdk(
    verdict: Any, told: str
) -> None:
    """An answer approves nothing, even if it equals the result of an approval."""
    runner = runner_of()
    effects: list[Any] = []
    agent, state = await openai_pause(runner, effects)
    await runner.decide((await wait_of(runner)).id, verdict)
    decided = await decided_state(runner, agent, state, run_id=RUN_ID)
    result = await agents.Runner.run(agent, decided)
    assert effects == []
    assert told in result.final_output


async def test_arguments_that_a_kit_cannot_take_back_are_not_editable() -> None:
    runner = runner_of()
    await openai_pause(runner, [])
    edited = {"tool": "refund", "arguments": {"order": "A-17", "cents": 1}}
    with pytest.raises(errors.DecisionRefused, match="cannot be edited"):
        await runner.decide((await wait_of(runner)).id, Approve(arguments=edited))


async def test_a_run_that_waits_is_not_handed_back() -> None:
    runner = runner_of()
    agent, state = await openai_pause(runner, [])
    with pytest.raises(errors.NotFinished, match="1 of its calls are not decided"):
        await decided_state(runner, agent, state, run_id=RUN_ID)


async def test_a_cancelled_run_is_not_handed_back() -> None:
    runner = runner_of()
    agent, state = await openai_pause(runner, [])
    await runner.cancel(RUN_ID)
    with pytest.raises(errors.RunFailed, match="was cancelled or has failed"):
        await decided_state(runner, agent, state, run_id=RUN_ID)


async def test_the_second_decision_is_refused_and_the_first_counts() -> None:
    runner = runner_of()
    effects: list[Any] = []
    agent, state = await openai_pause(runner, effects)
    wait_id = (await wait_of(runner)).id
    await runner.decide(wait_id, Deny(by="kim", reason="no"))
    with pytest.raises(errors.AlreadyDecided):
        await runner.decide(wait_id, Approve(by="tom"))
    decided = await decided_state(runner, agent, state, run_id=RUN_ID)
    await agents.Runner.run(agent, decided)
    assert effects == []


async def test_a_decision_over_http_is_handed_back() -> None:
    runner = runner_of()
    effects: list[Any] = []
    agent, state = await openai_pause(runner, effects)
    wait_id = (await wait_of(runner)).id
    body = json.dumps({"decision": "approve"}).encode()
    request = Request(
        method="POST",
        path=f"/waits/{wait_id}/decision",
        headers={"content-type": "application/json"},
        body=body,
    )
    api = HttpApi(runner, verify=lambda _request: "kim")
    assert (await api.handle(request)).status == 200
    decided = await decided_state(runner, agent, state, run_id=RUN_ID)
    await agents.Runner.run(agent, decided)
    assert effects == [("A-17", 900)]


async def test_a_changed_state_is_refused() -> None:
    """An approval of one state approves no call of another one."""
    runner = runner_of()
    agent, state = await openai_pause(runner, [])
    await runner.decide((await wait_of(runner)).id, Approve())
    changed = state.replace("900", "90000")
    assert changed != state
    with pytest.raises(errors.InvalidInput, match="is not the one that was opened"):
        await decided_state(runner, agent, changed, run_id=RUN_ID)


async def test_a_run_id_holds_one_state() -> None:
    """A repeat opens the same run; another state needs another id."""
    runner = runner_of()
    agent, state = await openai_pause(runner, [])
    again = await open_state(runner, agent, json.loads(state), run_id=RUN_ID)
    assert isinstance(again, Suspended)
    assert len(again.waits) == 1
    changed = state.replace("900", "90000")
    with pytest.raises(errors.RunExists, match="Use another run id"):
        await open_state(runner, agent, changed, run_id=RUN_ID)


@pytest.mark.parametrize(
    "state", ["", "{}", "[]", "null", '{"$schemaVersion": "99.0"}', {"a": 1}, 7, b"x"]
)
async def test_a_damaged_state_is_refused(state: Any) -> None:
    runner = runner_of()
    with pytest.raises(errors.InvalidInput, match="the RunState was not opened"):
        await open_state(runner, openai_agent([]), state, run_id=RUN_ID)
    assert [each async for each in runner.runs()] == []


async def test_a_state_that_is_not_interrupted_is_refused() -> None:
    agent = openai_agent([])
    result = await agents.Runner.run(agent, "Refund A-17")
    state = result.to_state()
    for item in result.interruptions:
        state.reject(item)
    done = (await agents.Runner.run(agent, state)).to_state().to_string()
    with pytest.raises(errors.InvalidInput, match="is not paused at a call"):
        await open_state(runner_of(), agent, done, run_id=RUN_ID)


async def test_a_policy_that_does_not_ask_approves_nothing() -> None:
    """The other kit asked for an approval, so a policy cannot skip it."""
    flow = make_paused_calls(approval=ApprovalPolicy(when=False))
    runner = runner_of(flow)
    agent, state = await openai_pause(runner, [], flow=flow)
    with pytest.raises(errors.InvalidInput, match="nobody approved"):
        await decided_state(runner, agent, state, run_id=RUN_ID, flow=flow)


async def test_approvers_of_a_policy_decide() -> None:
    flow = make_paused_calls("audited", approval=ApprovalPolicy(approvers=["kim"]))
    runner = runner_of(paused_calls, flow)
    effects: list[Any] = []
    agent, state = await openai_pause(runner, effects, flow=flow)
    wait_id = (await wait_of(runner)).id
    with pytest.raises(errors.DecisionRefused):
        await runner.decide(wait_id, Approve(by="tom"))
    await runner.decide(wait_id, Approve(by="kim"))
    decided = await decided_state(runner, agent, state, run_id=RUN_ID, flow=flow)
    await agents.Runner.run(agent, decided)
    assert effects == [("A-17", 900)]


class Booking(TypedDict):
    cost_center: int


@pytest.mark.parametrize("policy", [{"editable": []}, {"form": Booking}])
def test_a_policy_that_cannot_be_carried_over_is_refused(policy: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="Leave both out"):
        make_paused_calls(approval=ApprovalPolicy(**policy))


# LangGraph ------------------------------------------------------------------


class Order(TypedDict, total=False):
    answer: Any


def graph_that_asks(value: Any, **options: Any) -> Any:
    """Return a graph whose only node returns the value of its interrupt."""

    def node(_state: Order) -> Any:
        return {"answer": interrupt(value, **options)}

    builder: Any = StateGraph(Order)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver())


CONFIG: Any = {"configurable": {"thread_id": "t"}}


async def graph_pause(runner: AsyncRunner, value: Any, **options: Any) -> Any:
    graph = graph_that_asks(value, **options)
    graph.invoke({}, CONFIG)
    await open_interrupts(runner, graph.get_state(CONFIG), run_id=RUN_ID)
    return graph


async def graph_result(runner: AsyncRunner, graph: Any) -> Any:
    state = graph.get_state(CONFIG)
    command = await resume_command(runner, state, run_id=RUN_ID)
    return graph.invoke(command, CONFIG)["answer"]


async def test_an_interrupt_is_a_question_whose_answer_resumes_the_graph() -> None:
    runner = runner_of()
    graph = await graph_pause(runner, "Is this essay good?")
    wait = await wait_of(runner)
    assert wait.kind == "question"
    assert "Is this essay good?" in wait.question
    await runner.decide(wait.id, Answer({"good": True}))
    assert await graph_result(runner, graph) == {"good": True}


async def test_an_answer_must_fit_the_schema_of_the_interrupt() -> None:
    runner = runner_of()
    graph = await graph_pause(runner, "How many?", response_schema=int)
    wait = await wait_of(runner)
    with pytest.raises(errors.DecisionRefused):
        await runner.decide(wait.id, Answer("many"))
    await runner.decide(wait.id, Answer(3))
    assert await graph_result(runner, graph) == 3


async def test_a_declined_question_does_not_resume_the_graph() -> None:
    runner = runner_of()
    graph = await graph_pause(runner, "Is it good?")
    await runner.decide((await wait_of(runner)).id, Deny(reason="no"))
    with pytest.raises(errors.InvalidInput, match="has no answer"):
        await graph_result(runner, graph)


def actions(*names: str, allowed: tuple[str, ...] = ("approve", "reject")) -> Any:
    """Return a request of the human-in-the-loop middleware."""
    reviews = [{"action_name": n, "allowed_decisions": list(allowed)} for n in names]
    requests = [{"name": name, "args": {"n": 1}} for name in names]
    return {"action_requests": requests, "review_configs": reviews}


async def test_each_action_of_an_interrupt_has_its_own_approval() -> None:
    runner = runner_of()
    request = actions("pay", "mail", "drop", allowed=("approve", "edit", "reject"))
    graph = await graph_pause(runner, request)
    waits = (await runner.look(RUN_ID)).waits
    assert [each.arguments["tool"] for each in waits] == ["pay", "mail", "drop"]
    edited = {"tool": "mail", "arguments": {"n": 2}}
    await runner.decide(waits[0].id, Approve())
    await runner.decide(waits[1].id, Approve(arguments=edited))
    await runner.decide(waits[2].id, Answer('{"type": "approve"}'))
    decisions = (await graph_result(runner, graph))["decisions"]
    assert decisions[0] == {"type": "approve"}
    edit = {"type": "edit", "edited_action": {"name": "mail", "args": {"n": 2}}}
    assert decisions[1] == edit
    assert decisions[2]["type"] == "reject"


async def test_the_name_of_an_action_is_not_editable() -> None:
    runner = runner_of()
    await graph_pause(runner, actions("pay", allowed=("approve", "edit", "reject")))
    renamed = {"tool": "mail", "arguments": {"n": 1}}
    with pytest.raises(errors.DecisionRefused, match="cannot be edited"):
        await runner.decide((await wait_of(runner)).id, Approve(arguments=renamed))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({1, 2}, "is not JSON"),
        (actions("pay", allowed=("approve",)), "both approve and reject"),
    ],
)
async def test_an_interrupt_that_cannot_be_carried_over_is_refused(
    value: Any, reason: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=reason):
        await graph_pause(runner_of(), value)


async def test_a_graph_that_moved_on_is_refused() -> None:
    runner = runner_of()
    graph = await graph_pause(runner, actions("pay"))
    await runner.decide((await wait_of(runner)).id, Approve())
    graph.invoke(Command(resume={"decisions": [{"type": "reject"}]}), CONFIG)
    graph.invoke({}, CONFIG)  # the same interrupt, of a later checkpoint
    with pytest.raises(errors.InvalidInput, match="is not the one that was opened"):
        await graph_result(runner, graph)


async def test_a_graph_without_an_interrupt_is_refused() -> None:
    graph = graph_that_asks("x")
    with pytest.raises(errors.InvalidInput, match="is not paused at a call"):
        await open_interrupts(runner_of(), graph.get_state(CONFIG), run_id=RUN_ID)


# Pydantic AI ----------------------------------------------------------------


async def test_pydantic_ai_runs_the_arguments_that_were_approved() -> None:
    runner = runner_of()
    effects: list[Any] = []
    agent = pydantic_agent(effects)
    await open_requests(runner, await agent.run("Refund"), run_id=RUN_ID)
    edited = {"tool": "refund", "arguments": {"order": "A-17", "cents": 100}}
    await runner.decide((await wait_of(runner)).id, Approve(arguments=edited, by="kim"))
    paused = await decided_requests(runner, run_id=RUN_ID)
    assert paused["deferred_tool_results"].answered_by == {"call_1": "kim"}
    await agent.run(**paused)
    assert effects == [["A-17"], ["A-17", 100]]


async def test_pydantic_ai_does_not_run_a_call_that_was_answered() -> None:
    runner = runner_of()
    effects: list[Any] = []
    agent = pydantic_agent(effects)
    await open_requests(runner, await agent.run("Refund"), run_id=RUN_ID)
    await runner.decide((await wait_of(runner)).id, Answer("approved"))
    result = await agent.run(**await decided_requests(runner, run_id=RUN_ID))
    assert effects == [["A-17"]]
    assert "answered instead" in result.output


async def test_an_output_without_deferred_calls_is_refused() -> None:
    agent = pydantic_agent([])
    result = await agent.run("Refund")
    result.output = "done"
    with pytest.raises(errors.InvalidInput, match="the output of the agent is str"):
        await open_requests(runner_of(), result, run_id=RUN_ID)
    result.output = DeferredToolRequests()
    with pytest.raises(errors.InvalidInput, match="is not paused at a call"):
        await open_requests(runner_of(), result, run_id=RUN_ID)


async def test_a_run_of_another_kit_is_refused() -> None:
    runner = runner_of()
    agent, state = await openai_pause(runner, [])
    await runner.decide((await wait_of(runner)).id, Approve())
    with pytest.raises(
        errors.InvalidInput, match="holds no paused calls of pydantic-ai"
    ):
        await decided_requests(runner, run_id=RUN_ID)
    assert await decided_state(runner, agent, state, run_id=RUN_ID) is not None


async def test_two_processes_that_hand_back_read_the_same_decisions() -> None:
    runner = runner_of()
    agent, state = await openai_pause(runner, [])
    await runner.decide((await wait_of(runner)).id, Approve())
    both = await asyncio.gather(
        *[decided_state(runner, agent, state, run_id=RUN_ID) for _ in range(2)],
        return_exceptions=True,
    )
    made = [each.to_string() for each in both if isinstance(each, agents.RunState)]
    assert len(set(made)) == 1
