"""Calls of an MCP server that wait: tasks, questions, and what happens meanwhile."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    errors,
)
from continuations.interop.mcp import McpTools
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage.memory import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.interop.mcp_bank import (
    Bank,
    asks,
    completed,
    form,
    start_task,
)
from tests.interop.test_mcp_client import payer, result_of, waiting

LOST = MCPError(types.CONNECTION_CLOSED, "Connection closed")
DAY = 24 * 3600.0


class Office:
    """Processes of an application, each with a runner and a connection of its own."""

    def __init__(self, *, reply: Any = start_task, **options: Any) -> None:
        self.bank = Bank()
        self.bank.reply = reply
        self.store = MemoryStore()
        self.clock = ManualClock()
        self.options: dict[str, Any] = {"name": "bank", **options}

    def runner(self, store: Any = None) -> Runner:
        """Return the runner of a new process."""
        tools = McpTools(self.bank, **self.options)
        return Runner(payer(tools), store=store or self.store, clock=self.clock)

    def start(self, run_id: str = "a") -> Any:
        """Start a run in a new process."""
        return self.runner().start("Pay", run_id=run_id)

    def later(self, seconds: float = 0.0, run_id: str = "a") -> Any:
        """Resume a run in a new process, some seconds later."""
        self.clock.seconds += seconds
        return self.runner().resume(run_id)

    def decide(self, wait: Any, verdict: Any, run_id: str = "a") -> Any:
        """Decide a wait in one process, and resume in another."""
        Runner([], store=self.store, clock=self.clock).decide(wait.id, verdict)
        return self.later(run_id=run_id)


def asked_again(params: types.CallToolRequestParams) -> Any:
    """Ask for an amount, then return it with the state of the question."""
    if params.input_responses is None:
        return types.InputRequiredResult.model_validate(
            {"inputRequests": {"q1": form("How much?")}, "requestState": "S1"}
        )
    [given] = params.input_responses.values()
    content = given.model_dump()["content"]
    return f"{params.request_state}: {content['cents']} {content['note']}"


# Tasks --------------------------------------------------------------------------------


def test_task_of_three_days_with_a_question_calls_its_tool_once() -> None:
    """Each step is made by another process, and none runs between them."""
    office = Office()
    first = waiting(office.start(), "timer")
    assert 60 == (first.deadline - office.clock.now()).total_seconds()
    waiting(office.later(30), "timer")
    assert 0 == office.bank.requests.count("tasks/get")
    waiting(office.later(30), "timer")
    office.bank.task = asks()

    question = waiting(office.later(DAY), "question")
    assert "bank asks: How much?" == question.question
    waiting(office.later(DAY), "question")
    office.bank.task = {"status": "working"}
    waiting(office.decide(question, Answer({"cents": 5}, by="kim")), "timer")
    office.bank.task = completed("paid 5 cents")

    ended = office.later(DAY)
    assert "paid 5 cents" == result_of(ended)
    assert ["tools/call"] == [r for r in office.bank.requests if "call" in r]
    content = {"cents": 5, "note": "thanks"}
    assert [{"q1": {"action": "accept", "content": content}}] == office.bank.updates


def test_task_is_asked_for_by_a_sweep() -> None:
    office = Office()
    office.start()
    office.bank.task = completed("paid")
    assert [] == list(office.runner().sweep().resumed)
    office.clock.seconds += 61
    [outcome] = office.runner().sweep().resumed
    assert isinstance(outcome, Finished)


@pytest.mark.parametrize(
    ("interval", "first"), [(None, 5), (0, 1), (-5, 1), (250, 1), (9_000_000, 3600)]
)
def test_pause_before_a_request_is_that_of_the_server_within_limits(
    interval: int | None, first: float
) -> None:
    def reply(params: object) -> Any:
        return {**start_task(params), "pollIntervalMs": interval}

    office = Office(reply=reply)
    wait = waiting(office.start(), "timer")
    assert first == (wait.deadline - office.clock.now()).total_seconds()


def test_task_is_asked_for_less_often_the_longer_it_runs() -> None:
    """At most 10,000 stages of a call must last for months."""
    office = Office()
    wait, pauses = waiting(office.start(), "timer"), list[float]()
    for _ in range(80):
        pauses.append((wait.deadline - office.clock.now()).total_seconds())
        wait = waiting(office.later(pauses[-1] + 0.1), "timer")
    assert sorted(pauses) == pauses
    assert (60, 60) == (pauses[0], pauses[19])
    assert sum(pauses) / 20 * 0.8 < pauses[-1] < sum(pauses) / 20


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            {"status": "failed", "error": {"code": -32603, "message": "no money"}},
            "no money",
        ),
        ({"status": "failed"}, "the task failed"),
        ({"status": "failed", "statusMessage": "closed"}, "closed"),
        ({"status": "cancelled"}, "the task was cancelled on the server"),
        (
            {
                "status": "completed",
                "result": {
                    "content": [{"type": "text", "text": "refused"}],
                    "isError": True,
                },
            },
            "refused",
        ),
    ],
)
def test_failed_task_is_an_error_for_the_model(state: Any, text: str) -> None:
    office = Office()
    office.start()
    office.bank.task = state
    assert f"ERROR: the tool failed: McpToolError: {text}" == result_of(
        office.later(61)
    )


@pytest.mark.parametrize(
    "state",
    [
        {"status": "completed"},
        {"status": "dancing"},
        {"status": "input_required"},
        {"status": "input_required", "inputRequests": {}},
    ],
)
def test_state_without_news_is_asked_for_again(state: Any) -> None:
    office = Office()
    office.start()
    office.bank.task = state
    waiting(office.later(61), "timer")
    office.bank.task = completed("paid")
    assert isinstance(office.later(61), Finished)


@pytest.mark.parametrize(
    "state", [{"status": 5}, {"status": "completed", "result": 5}, {}]
)
def test_state_that_breaks_the_protocol_is_an_unknown_outcome(state: Any) -> None:
    office = Office()
    office.start()
    office.bank.task = state
    wait = waiting(office.later(61), "unknown")
    assert "breaks the protocol" in (wait.note or "")
    office.bank.task = completed("paid")
    office.clock.seconds += 31
    assert "paid" == result_of(office.decide(wait, Approve(by="kim")))
    assert 1 == len(office.bank.calls)


def test_task_that_the_server_forgot_is_an_unknown_outcome() -> None:
    office = Office()
    office.start()
    office.bank.poll_error = MCPError(types.INVALID_PARAMS, "unknown task")
    wait = waiting(office.later(61), "unknown")
    assert "bank does not tell the state of its task: unknown task" == wait.note
    assert "paid" == result_of(office.decide(wait, Answer("paid", by="kim")))


@pytest.mark.parametrize("code", [types.CONNECTION_CLOSED, types.INTERNAL_ERROR])
def test_server_that_is_lost_while_a_task_runs_is_asked_later(code: int) -> None:
    office = Office()
    office.start()
    office.bank.poll_error = MCPError(code, "down")
    waiting(office.later(61), "timer")
    office.bank.poll_error = None
    office.bank.task = completed("paid")
    assert isinstance(office.later(61), Finished)
    assert 1 == len(office.bank.calls)


def test_server_that_cannot_list_its_tools_leaves_the_task_waiting() -> None:
    office = Office()
    office.start()
    office.bank.error = LOST
    with pytest.raises(
        errors.ToolsUnavailable, match="the tools of bank could not be listed"
    ):
        office.later(61)
    office.bank.error = None
    office.bank.task = completed("paid")
    assert isinstance(office.later(), Finished)


# Questions ----------------------------------------------------------------------------


def test_question_waits_for_days_and_is_answered_with_its_state() -> None:
    office = Office(reply=asked_again)
    wait = waiting(office.start(), "question")
    assert ("bank asks: How much?", None) == (wait.question, wait.deadline)
    waiting(office.later(30 * DAY), "question")
    assert 1 == len(office.bank.calls)

    ended = office.decide(wait, Answer({"cents": 5, "note": "hi"}, by="kim"))

    assert "S1: 5 hi" == result_of(ended)
    assert [{"to": "Jane"}] * 2 == [each.arguments for each in office.bank.calls]


@pytest.mark.parametrize(
    "value",
    [
        "yes",
        True,
        None,
        {},
        {"cents": "5"},
        {"cents": 0},
        {"cents": 5, "other": 1},
        {"cents": 5, "note": {"a": "b"}},
        ["accept"],
    ],
)
def test_answer_that_does_not_fit_the_form_is_refused(value: Any) -> None:
    office = Office(reply=asked_again)
    wait = waiting(office.start(), "question")
    with pytest.raises(errors.DecisionRefused):
        office.decide(wait, Answer(value, by="kim"))
    waiting(office.later(), "question")
    assert 1 == len(office.bank.calls)


def test_denied_question_ends_the_call_and_accepts_nothing() -> None:
    office = Office(reply=asked_again)
    wait = waiting(office.start(), "question")
    ended = office.decide(wait, Deny(by="kim", reason="too dear"))
    assert result_of(ended).startswith("DENIED")
    assert 1 == len(office.bank.calls)


def test_several_questions_are_asked_one_after_another() -> None:
    def reply(params: types.CallToolRequestParams) -> Any:
        if params.input_responses:
            given = {k: v.model_dump() for k, v in params.input_responses.items()}
            return ", ".join(f"{k} {v['content']['cents']}" for k, v in given.items())
        requests = {key: form(f"How much for {key}?") for key in ("tea", "milk")}
        return types.InputRequiredResult.model_validate({"inputRequests": requests})

    office = Office(reply=reply)
    first = waiting(office.start(), "question")
    second = waiting(office.decide(first, Answer({"cents": 5})), "question")
    assert ("bank asks: How much for tea?", "bank asks: How much for milk?") == (
        first.question,
        second.question,
    )
    assert 1 == len(office.bank.calls)
    assert "tea 5, milk 6" == result_of(office.decide(second, Answer({"cents": 6})))
    assert office.bank.calls[1].request_state is None


def test_state_without_a_question_is_sent_again_after_a_pause() -> None:
    def reply(params: types.CallToolRequestParams) -> Any:
        if params.request_state == "S2":
            return "done"
        state = "S1" if params.request_state is None else "S2"
        return types.InputRequiredResult(request_state=state)

    office = Office(reply=reply)
    waiting(office.start(), "timer")
    waiting(office.later(2), "timer")
    assert "done" == result_of(office.later(2))


@pytest.mark.parametrize(("value", "action"), [(True, "accept"), (False, "decline")])
def test_address_to_open_is_a_question_with_yes_or_no(value: Any, action: str) -> None:
    params = {
        "mode": "url",
        "message": "Log in",
        "url": "https://bank.example/login",
        "elicitationId": "e1",
    }
    office = Office()
    office.start()
    office.bank.task = {
        "status": "input_required",
        "inputRequests": {"u": {"method": "elicitation/create", "params": params}},
    }
    wait = waiting(office.later(61), "question")
    assert "https://bank.example/login" in (wait.question or "")
    waiting(office.decide(wait, Answer(value, by="kim")), "timer")
    assert [{"u": {"action": action}}] == office.bank.updates


def test_answer_that_the_server_refuses_is_asked_for_again() -> None:
    office = Office()
    office.start()
    office.bank.task = asks()
    first = waiting(office.later(61), "question")
    office.bank.replies_to_update = MCPError(types.INVALID_PARAMS, "at most 4 cents")

    again = waiting(office.decide(first, Answer({"cents": 5})), "question")

    assert "It refused the answer before: at most 4 cents" in (again.question or "")
    office.bank.replies_to_update = None
    waiting(office.decide(again, Answer({"cents": 4})), "timer")
    assert [5, 4] == [each["q1"]["content"]["cents"] for each in office.bank.updates]


def test_answered_question_is_not_asked_again_and_a_new_one_is() -> None:
    office = Office()
    office.start()
    office.bank.task = asks()
    wait = waiting(office.later(61), "question")
    waiting(office.decide(wait, Answer({"cents": 5})), "timer")
    waiting(office.later(61), "timer")
    office.bank.task = asks("Sure?", "q2")
    assert "bank asks: Sure?" == waiting(office.later(61), "question").question


def test_answer_that_did_not_arrive_is_sent_again() -> None:
    office = Office()
    office.start()
    office.bank.task = asks()
    wait = waiting(office.later(61), "question")
    office.bank.replies_to_update = LOST
    waiting(office.decide(wait, Answer({"cents": 5})), "timer")
    office.bank.replies_to_update = None
    office.bank.task = completed("paid")
    assert "paid" == result_of(office.later(61))
    first, second = office.bank.updates
    assert first == second


NESTED = {"type": "object", "properties": {"a": {"type": "object"}}}
REMOTE = {"type": "array", "items": {"anyOf": [{"$ref": "https://x.example/y"}]}}


@pytest.mark.parametrize(
    "request_",
    [
        {
            "method": "sampling/createMessage",
            "params": {"messages": [], "maxTokens": 5},
        },
        {"method": "roots/list"},
        {"method": "elicitation/create"},
        {"method": 5},
        {},
        "elicitation/create",
        form("?", {"type": "object"}),
        form("?", NESTED),
        form("?", {"type": "object", "properties": {"a": REMOTE}}),
        form("?", {"type": "object", "properties": {"a": {"$ref": "https://x"}}}),
        form("?", {"type": "object", "properties": {"a": {"anyOf": 5}}}),
        form("?", {"type": "object", "properties": {"a": True}}),
        form("?", {"type": "array", "properties": {"a": {"type": "string"}}}),
        form("?", {"type": "object", "properties": 5}),
        {
            "method": "elicitation/create",
            "params": {
                "mode": "url",
                "message": "!",
                "url": "javascript:alert(1)",
                "elicitationId": "e",
            },
        },
    ],
)
def test_request_that_no_person_can_answer_is_an_error(request_: Any) -> None:
    office = Office()
    office.start()
    office.bank.task = {"status": "input_required", "inputRequests": {"q": request_}}
    outcome = office.later(61)
    assert result_of(outcome).startswith("ERROR: the tool failed: QuestionInvalid: ")


# Meanwhile ----------------------------------------------------------------------------


def test_cancelled_call_cancels_its_task() -> None:
    office = Office()
    office.start()
    office.runner().cancel("a")
    assert isinstance(office.later(), Failed)
    assert ["task-1"] == office.bank.cancelled


def test_cancelled_call_whose_task_has_ended_or_is_unknown_ends() -> None:
    office = Office()
    office.start()
    office.bank.cancel_error = MCPError(types.INVALID_PARAMS, "unknown task")
    office.runner().cancel("a")
    assert isinstance(office.later(), Failed)
    assert 1 == office.bank.requests.count("tasks/cancel")


def test_cancelled_run_waits_until_the_server_of_its_task_is_back() -> None:
    office = Office()
    office.start()
    office.bank.error = LOST
    office.runner().cancel("a")
    with pytest.raises(errors.ToolsUnavailable):
        office.later(30)
    office.bank.error = None
    assert isinstance(office.later(61), Failed)
    assert ["task-1"] == office.bank.cancelled


def test_cancelled_question_tells_the_server_nothing() -> None:
    office = Office(reply=asked_again)
    office.start()
    office.runner().cancel("a")
    assert isinstance(office.later(), Failed)
    assert 0 == office.bank.requests.count("tasks/cancel")


def test_fork_reads_the_task_of_the_other_run_and_does_not_cancel_it() -> None:
    office = Office()
    office.start()
    for run_id in ("b", "c"):
        office.runner().fork("a", run_id=run_id)
    office.runner().cancel("c")
    assert isinstance(office.later(run_id="c"), Failed)
    assert [] == office.bank.cancelled
    office.bank.task = completed("paid")
    assert "paid" == result_of(office.later(61))
    assert "paid" == result_of(office.later(run_id="b"))
    assert 1 == len(office.bank.calls)


def test_fork_of_a_question_asks_in_both_runs() -> None:
    office = Office(reply=asked_again)
    first = waiting(office.start(), "question")
    office.runner().fork("a", run_id="b")
    second = waiting(office.later(run_id="b"), "question")
    assert first.id != second.id
    assert "S1: 5 thanks" == result_of(office.decide(first, Answer({"cents": 5})))
    waiting(office.later(run_id="b"), "question")


def test_rewind_to_a_time_after_the_call_goes_on_with_the_task() -> None:
    office = Office()
    office.start()
    waited = [each.number for each in office.runner().history("a")][-1]
    office.later(61)
    office.runner().rewind("a", waited)
    office.bank.task = completed("paid")
    assert "paid" == result_of(office.later(61))
    assert ([], 1) == (office.bank.cancelled, len(office.bank.calls))


def test_rewind_to_a_time_before_the_call_asks_a_person() -> None:
    office = Office()
    office.start()
    office.runner().rewind("a", 1)
    outcome = office.later(61)
    assert isinstance(outcome, Suspended)
    assert 1 == len(office.bank.calls)
    [wait] = outcome.waits
    assert "approval" == wait.kind
    ended = office.decide(wait, Answer("paid", by="kim"))
    assert result_of(ended).endswith("paid")
    assert 1 == len(office.bank.calls)


def test_task_of_a_child_lets_its_parent_wait() -> None:
    bank, clock, store = Bank(), ManualClock(), MemoryStore()
    bank.reply = start_task

    def runner() -> Runner:
        child = payer(McpTools(bank))
        model = ScriptedModel([ToolCall("payer", {"input": "Pay"}), "All done."])
        boss = Agent("boss", tools=[child], model=model)
        return Runner(boss, store=store, clock=clock)

    wait = waiting(runner().start("Go", run_id="a"), "timer")
    assert ("boss", "payer", "pay") == wait.path
    bank.task, clock.seconds = completed("paid"), 61
    assert "All done." == runner().resume("a").result()
    runner().start("Go", run_id="b")
    runner().cancel("b")
    runner().resume("b")
    assert ["task-1"] == bank.cancelled


# Crashes ------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_any_operation_calls_a_task_once(moment: Any) -> None:
    """A person tells the truth about a call whose reply a dead worker did not store."""
    for point in every_crash(moment, more_than=10, step=8):
        office = Office()
        with point.process(office.store) as dying:
            runner = office.runner(dying)
            runner.start("Pay", run_id="a")
            office.bank.task = asks()
            office.clock.seconds += 61
            wait = waiting(runner.resume("a"), "question")
            runner.decide(wait.id, Answer({"cents": 5}))
            runner.resume("a")
        ended = finish(office)

        assert 1 == len(office.bank.calls), point
        assert "paid" == result_of(ended), point
        assert len(office.bank.updates) <= 2, point


def finish(office: Office) -> Any:
    """Let new processes end the run, whatever it waits for."""
    for _ in range(20):
        try:
            outcome = office.later(120)
        except errors.RunNotFound:
            outcome = office.start()
        if not isinstance(outcome, Suspended):
            return outcome
        if office.bank.updates:
            office.bank.task = completed("paid")
        elif office.bank.calls:
            office.bank.task = asks()
        [wait] = outcome.waits
        verdict: Any = Answer({"cents": 5})
        if wait.kind == "unknown":
            verdict = Answer("paid") if office.bank.calls else Approve()
        if wait.kind in {"question", "unknown"}:
            with suppress(errors.AlreadyDecided):
                office.runner().decide(wait.id, verdict)
    pytest.fail("the run does not end")
