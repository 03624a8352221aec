"""A tool that returns a wait: its answer, its deadline, its `on_answer` function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Fail,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    ask,
    ask_person,
    external,
    resume,
    run,
    sleep,
    sleep_until,
    tool,
    wait_for,
)
from continuations.authoring.tool_waits import DeadlineAction
from continuations.errors import (
    AgentChanged,
    Cancelled,
    DecisionRefused,
    InvalidInput,
    WaitExpired,
)
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results, tool_results
from tests.engine.waiting_tools import Laptop, Size
from tests.outcomes import expect, single_wait
from tests.scripts import call

SCRIPT: Any = {"go": [[call("receipt", trip="Rome")], "end"]}
HOUR = 3600


def make_receipt(
    wait: Callable[[], ToolWait[Any]], **options: Any
) -> Tool[..., ToolWait[Any]]:
    @tool(**options)
    def receipt(trip: str) -> ToolWait[Any]:
        """Get a receipt."""
        effect_log.append_effect("receipt", trip)
        return wait()

    return receipt


def with_received(receipt: Tool[..., Any], type_: Any = Laptop) -> Tool[..., Any]:
    """Return the tool with a function that gets the answer."""

    def received(answer: Any, trip: str, ctx: ToolContext) -> str:
        effect_log.append_effect(
            "received", f"{trip} {answer}", key=ctx.idempotency_key
        )
        return f"{trip}: {answer}"

    received.__annotations__["answer"] = type_
    receipt.on_answer(received)
    return receipt


def make_runner(
    receipt: Any, clock: ManualClock | None = None, store: MemoryStore | None = None
) -> Runner:
    boss = make_boss(SCRIPT, receipt)
    return Runner(boss, store=store or MemoryStore(), clock=clock or ManualClock())


# Answers ----------------------------------------------------------------------


def test_answer_becomes_the_result_of_the_tool() -> None:
    runner = make_runner(make_receipt(lambda: ask("Which one?")))

    wait = single_wait(runner.start("go", run_id="r1"))
    assert ("question", "Which one?") == (wait.kind, wait.question)
    runner.decide(wait.id, Answer("the blue one", by="kim"))
    ended = expect(runner.resume("r1"), Finished)

    assert ["the blue one"] == root_tool_results(ended)
    assert ["receipt Rome"] == effect_log.names()


def test_no_approval_runs_the_tool_again() -> None:
    runner = make_runner(make_receipt(lambda: ask("Which one?")))
    wait = single_wait(runner.start("go", run_id="r1"))

    with pytest.raises(DecisionRefused, match="is ended by answer, deny"):
        runner.decide(wait.id, Approve())

    assert [wait.id] == [each.id for each in runner.waiting()]
    assert ["receipt Rome"] == effect_log.names()


@pytest.mark.parametrize(
    "value", [7, None, {}, {"name": 7}, {"name": "x", "size": "?"}]
)
def test_answer_of_another_type_is_refused_when_it_is_given(value: Any) -> None:
    runner = make_runner(with_received(make_receipt(lambda: ask("Which?", Laptop))))
    wait = single_wait(runner.start("go", run_id="r1"))

    with pytest.raises(DecisionRefused, match="does not match the schema"):
        runner.decide(wait.id, Answer(value))

    runner.decide(wait.id, Answer({"name": "x", "size": "large"}))
    ended = runner.resume("r1")
    laptop = Laptop(name="x", size=Size.LARGE)
    assert [f"Rome: {laptop}"] == root_tool_results(ended)


def test_function_gets_the_answer_once_under_a_key_of_its_own() -> None:
    runner = make_runner(with_received(make_receipt(lambda: ask("Which?")), str))
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("blue"))

    runner.resume("r1")
    runner.resume("r1")

    tool_ran, received = effect_log.effects()
    assert ("receipt", "received") == (tool_ran["tool"], received["tool"])
    assert received["key"].endswith("-1")


def test_denial_of_a_question_is_told_to_the_model() -> None:
    runner = make_runner(with_received(make_receipt(lambda: ask("Which?")), str))
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Deny(reason="not now"))

    [told] = root_tool_results(runner.resume("r1"))
    assert told == (
        "DENIED: the tool asked a person, who declined to answer. Effects of the tool "
        "remain. Reason: not now"
    )


def test_answer_that_the_function_rejects_opens_the_wait_again() -> None:
    """The schema of the question is wider than the type of the function."""
    runner = make_runner(
        with_received(make_receipt(lambda: ask("How many?", Any)), int)
    )
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("many"))

    again = single_wait(runner.resume("r1"))

    assert again.id != wait.id
    assert again.digest == wait.digest
    assert str(again.note).startswith("The tool rejected the answer:")
    runner.decide(again.id, Answer(7))
    assert ["Rome: 7"] == root_tool_results(runner.resume("r1"))
    assert ["receipt Rome", "received Rome 7"] == effect_log.names()


def test_removed_function_keeps_the_answer_until_its_code_is_back() -> None:
    store = MemoryStore()
    old = with_received(make_receipt(lambda: ask("Which?")), str)
    runner = make_runner(old, store=store)
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Answer("blue"))
    new = make_runner(make_receipt(lambda: ask("Which?")), store=store)

    with pytest.raises(AgentChanged, match="has no on_answer function any more"):
        new.resume("r1")

    assert isinstance(runner.resume("r1"), Finished)
    assert ["receipt Rome", "received Rome blue"] == effect_log.names()


def test_wait_of_an_approved_call_keeps_no_approval() -> None:
    """The person approved the tool, and the answer lets its function run."""
    receipt = make_receipt(lambda: ask("Which?"), approval=True)
    runner = make_runner(with_received(receipt, str))
    approval = single_wait(runner.start("go", run_id="r1"))
    runner.decide(approval.id, Approve())
    question = single_wait(runner.resume("r1"))
    assert ("approval", "question") == (approval.kind, question.kind)
    runner.decide(question.id, Answer("blue"))

    assert ["Rome: blue"] == root_tool_results(runner.resume("r1"))
    assert ["receipt Rome", "received Rome blue"] == effect_log.names()


def test_cancelled_run_ends_its_parked_calls() -> None:
    runner = make_runner(make_receipt(lambda: ask("Which?")))
    wait = single_wait(runner.start("go", run_id="r1"))

    runner.cancel("r1")

    with pytest.raises(Cancelled):
        runner.decide(wait.id, Answer("blue"))
    [told] = tool_results(runner.look("r1").root.messages)
    assert told.startswith("CANCELLED while it waited; effects of the tool remain.")


@pytest.mark.parametrize(
    ("kind", "wrong", "value"),
    [
        ("text", 7, "blue"),
        ("yes or no", "yes", True),
        ("number", "7", 7.5),
        ("date", "soon", "2026-12-01"),
    ],
)
def test_model_asks_a_person_with_the_ready_made_tool(
    kind: str, wrong: object, value: object
) -> None:
    question = call("ask_person", question="When?", answer_type=kind)
    runner = Runner(
        make_boss({"go": [[question], "end"]}, ask_person), store=MemoryStore()
    )
    wait = single_wait(runner.start("go", run_id="r1"))
    assert ("question", "When?") == (wait.kind, wait.question)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Answer(wrong))
    runner.decide(wait.id, Answer(value))

    [result] = root_tool_results(runner.resume("r1"))
    assert value == (result if isinstance(value, str) else json.loads(result))


# Deadlines ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "result"),
    [
        (Answer("red"), "Rome: red"),
        (Deny(reason="late"), "DENIED: the tool asked"),
        (Fail("nobody is there"), "ERROR: nobody is there"),
        (None, "EXPIRED: the tool waited, and its deadline passed without an answer."),
    ],
)
def test_deadline_of_a_question_does_what_the_tool_says(
    action: DeadlineAction | None, result: str, clock: ManualClock
) -> None:
    receipt = make_receipt(lambda: ask("Which?", within=HOUR, on_deadline=action))
    runner = make_runner(with_received(receipt, str), clock)
    wait = single_wait(runner.start("go", run_id="r1"))
    clock.seconds = HOUR + 1

    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Answer("blue"))
    [ended] = runner.sweep().resumed

    assert isinstance(ended, Finished)
    [told] = root_tool_results(ended)
    assert told.startswith(result)
    # A person who comes too late reads what was recorded.
    with pytest.raises(WaitExpired):
        runner.decide(wait.id, Answer("blue"))


@pytest.mark.parametrize(
    ("wait", "result"),
    [
        (wait_for("mail", within=HOUR), "ERROR: the event did not come in time."),
        (
            external("scan", within=HOUR),
            "ERROR: the other system did not report a result in time.",
        ),
        (sleep(HOUR), "The time has come."),
    ],
)
def test_deadline_of_other_kinds_has_a_rule_of_its_own(
    wait: ToolWait[Any], result: str, clock: ManualClock
) -> None:
    runner = make_runner(make_receipt(lambda: wait), clock)
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    assert not runner.sweep().resumed
    clock.seconds = HOUR + 1

    [ended] = runner.sweep().resumed

    assert [result] == root_tool_results(ended)


def test_timer_is_a_row_and_a_marker_only() -> None:
    """No wait object is listed, and no decision is written."""
    store, clock = MemoryStore(), ManualClock()
    runner = make_runner(make_receipt(lambda: sleep(HOUR)), clock, store)
    runner.start("go", run_id="r1")
    assert {"runs", "markers", "index", "probe"} >= {
        key.split("/")[0] for key in keys_of(store)
    }
    assert not list(runner.waiting())
    clock.seconds = HOUR + 1

    [ended] = runner.sweep().resumed

    assert isinstance(ended, Finished)
    assert not [key for key in keys_of(store) if "/in/" in key or "markers/" in key]


@pytest.mark.parametrize("ends", ["cancel", "time"])
def test_timer_costs_no_request_for_an_object(ends: str) -> None:
    """The end of a timer deletes its marker, and no wait object."""
    clock, store = ManualClock(), FaultyStore(MemoryStore())
    boss = make_boss(SCRIPT, make_receipt(lambda: sleep(HOUR)))
    runner = Runner(boss, store=store, clock=clock)
    runner.start("go", run_id="r1")
    if ends == "cancel":
        runner.cancel("r1")
    else:
        clock.seconds = HOUR + 1
        assert isinstance(runner.resume("r1"), Finished)

    asked = [each.key for each in store.operations]
    assert asked
    assert not [key for key in asked if "timer-" in key]


def keys_of(store: MemoryStore) -> list[str]:
    return asyncio.run(_keys_of(store))


async def _keys_of(store: MemoryStore) -> list[str]:
    return list(await store.keys(""))


def test_time_in_the_past_ends_the_wait_at_once(clock: ManualClock) -> None:
    past = clock.now() - timedelta(days=1)
    runner = make_runner(make_receipt(lambda: sleep_until(past)), clock)
    runner.start("go", run_id="r1")

    assert isinstance(runner.resume("r1"), Finished)


# Kinds that people are not asked ------------------------------------------------


def test_only_peoples_waits_are_listed_and_notified() -> None:
    notified: list[str] = []
    boss = make_boss(
        {"go": [[call("a"), call("b"), call("c"), call("d")], "end"]},
        *(
            _waiting_tool(name, wait)
            for name, wait in (
                ("a", ask("?")),
                ("b", wait_for("mail", key="7")),
                ("c", external("scan")),
                ("d", sleep(HOUR)),
            )
        ),
    )
    runner = Runner(
        boss, store=MemoryStore(), notify=lambda wait: notified.append(wait.kind)
    )
    outcome = expect(runner.start("go", run_id="r1"), Suspended)

    kinds = {"question", "event", "external", "timer"}
    assert kinds == {wait.kind for wait in outcome.waits}
    assert ["question"] == [wait.kind for wait in runner.waiting()] == notified
    others = [wait.kind for wait in runner.open_waits(kinds=["event", "external"])]
    assert ["event", "external"] == others
    with pytest.raises(InvalidInput, match="kinds must be a list of kinds of waits"):
        runner.waiting(kinds=["mail"])


def test_run_that_cannot_be_read_hides_no_timer_of_another_run() -> None:
    clock, store = ManualClock(), MemoryStore()
    runner = Runner(
        make_boss({"go": [[call("nap")], "end"]}, _waiting_tool("nap", sleep(HOUR))),
        store=store,
        clock=clock,
    )
    for run_id in ("damaged", "erased", "r1"):
        runner.start("go", run_id=run_id)
    left = [key for key in asyncio.run(store.keys("markers/")) if "@erased" in key]
    runner.erase("erased")
    for key in left:  # a process that was frozen creates it under the tombstone
        asyncio.run(store.create(key, b""))
    for key in asyncio.run(store.keys("runs/damaged/v/")):
        asyncio.run(store.delete(key))
        asyncio.run(store.create(key, b"junk"))

    other = Runner([], store=store, clock=clock)

    assert ["r1"] == [wait.run_id for wait in other.waiting(kinds=["timer"])]


def _waiting_tool(name: str, wait: ToolWait[Any]) -> Tool[..., Any]:
    @tool(name=name, description=name)
    def waits() -> ToolWait[Any]:
        return wait

    return waits


def test_verdict_for_a_timer_is_refused() -> None:
    runner = make_runner(make_receipt(lambda: sleep(HOUR)))
    wait = single_wait(runner.start("go", run_id="r1"))

    with pytest.raises(DecisionRefused, match="kind timer is ended by the clock"):
        runner.decide(wait.id, Answer("now"))


def test_failed_job_is_told_to_the_model() -> None:
    runner = make_runner(make_receipt(lambda: external("scan")))
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Fail("the paper jammed", by="scanner"))

    assert ["ERROR: the paper jammed"] == root_tool_results(runner.resume("r1"))


# Mistakes of authors ------------------------------------------------------------


def not_typed(value: Any) -> Any:
    """Return a value whose type the checker does not know."""
    return value


@pytest.mark.parametrize(
    ("wait", "problem"),
    [
        (lambda: ask(""), "ask: question must be a str that is not empty"),
        (lambda: ask("?", within=-1), "ask: within must be a timedelta or seconds"),
        (
            lambda: ask("?", on_deadline=not_typed(Approve())),
            "on_deadline must be an Answer",
        ),
        (
            lambda: sleep_until(not_typed("soon")),
            "moment must be a datetime with a time zone",
        ),
        (
            lambda: sleep_until(datetime.fromisoformat("9999-12-31T23:59:59-23:59")),
            "in the years 1 to 9999 of UTC",
        ),
        (lambda: ask("?", int, on_deadline=Answer("x")), "does not fit answer_type"),
        (lambda: wait_for("e", on_deadline=Answer(object())), "cannot be stored"),
    ],
)
def test_invalid_wait_is_an_error_for_the_model(wait: Any, problem: str) -> None:
    """The tool ran, so the text says that its effects remain, or that it failed."""
    outcome = make_runner(make_receipt(wait)).start("go")

    [result] = root_tool_results(outcome)
    assert problem in result
    assert result.startswith("ERROR: the tool ")
    assert ["receipt Rome"] == effect_log.names()


def takes_a_reply(reply: str) -> str:
    return reply


def takes_a_city(answer: str, city: str) -> str:
    return f"{answer} {city}"


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (takes_a_reply, r"must take a parameter 'answer', got \(reply\)"),
        (takes_a_city, "requires the argument 'city'"),
        ("received", "on_answer must be a function"),
    ],
)
def test_function_that_cannot_get_the_answer_is_refused(
    function: Any, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        make_receipt(lambda: ask("?")).on_answer(function)


def test_tool_has_only_one_function() -> None:
    receipt = with_received(make_receipt(lambda: ask("?")))

    with pytest.raises(InvalidInput, match="has an on_answer function already"):
        with_received(receipt)


# Without a store ------------------------------------------------------------------


def test_continuation_keeps_a_tool_that_waits() -> None:
    receipt = with_received(make_receipt(lambda: ask("Which?")), str)
    agent: Agent = make_boss(SCRIPT, receipt)
    suspended = run(agent, "go")
    wait = single_wait(suspended)

    ended = resume(
        suspended.continuation.to_bytes(), agent, answers={wait.id: Answer("blue")}
    )

    assert ["Rome: blue"] == root_tool_results(ended)
    assert ["receipt Rome", "received Rome blue"] == effect_log.names()


def test_resume_without_a_store_applies_deadlines_first() -> None:
    agent: Agent = make_boss(SCRIPT, make_receipt(lambda: sleep(0.001)))
    suspended = run(agent, "go")
    while not isinstance(suspended, Finished):
        suspended = resume(suspended.continuation, agent)

    assert ["The time has come."] == root_tool_results(suspended)
