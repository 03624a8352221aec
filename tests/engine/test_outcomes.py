"""Outcomes: one line each, and `result()` names what to do; the advice is tried."""

from __future__ import annotations

import re
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ask,
    every,
    open_store,
    resume,
    run,
    sleep,
    wait_for,
)
from continuations.errors import ModelError, NotFinished
from continuations.models.interface import Message, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.clocks import ManualClock
from tests.engine.agent_builders import text_tool, wait_tool
from tests.hostile.editable_store import EditableStore
from tests.outcomes import expect

pay = text_tool("pay", "paid {secret}", {"secret": str}, approval=True)
nap = wait_tool("nap", lambda: sleep(60))
choose = wait_tool("choose", lambda: ask("Which one?"))
listen = wait_tool("listen", lambda: wait_for("paid", str))


def make_agent(*tools: Any, **options: Any) -> Agent:
    calls = [ToolCall(each.name, {"secret": "s3cret"}) for each in tools if each is pay]
    calls += [ToolCall(each.name, {}) for each in tools if each is not pay]
    return Agent(
        "clerk", tools=[*tools], model=ScriptedModel([*calls, "Done."]), **options
    )


def advice_of(outcome: Outcome) -> str:
    """Return the last sentence of the error of `result()`."""
    assert isinstance(outcome, Suspended)
    with pytest.raises(NotFinished) as told:
        outcome.result()
    return str(told.value).partition(". ")[2]


def do(advice: str, **names: Any) -> Any:
    """Evaluate each call that an advice names; return the last result."""
    calls = re.findall(r"\w+\(.*?\)(?=[ ,.])", f"{advice} ")
    assert calls
    return [eval(each, names) for each in calls][-1]  # noqa: S307 - of our own texts


def test_advice_about_a_pause_ends_it() -> None:
    runner = Runner(make_agent(nap), store=EditableStore(), clock=ManualClock())
    runner.start("go", run_id="r1")
    runner.pause("r1")

    advice = advice_of(runner.resume("r1"))

    assert "Call unpause('r1'), then resume('r1')." == advice
    after = do(advice, unpause=runner.unpause, resume=runner.resume)
    assert ["timer"] == [wait.kind for wait in after.waits]


def test_advice_about_a_stored_run_works_on_it() -> None:
    runner = Runner(make_agent(), store=open_store("memory:"))

    advice = advice_of(runner.start("go", run_id="r1", work=False))

    assert "Call resume('r1')." == advice
    assert isinstance(do(advice, resume=runner.resume), Finished)


def test_advice_about_a_time_or_a_person_is_to_resume_afterwards() -> None:
    clock = ManualClock()
    runner = Runner(make_agent(nap), store=EditableStore(), clock=clock)
    advice = advice_of(runner.start("go", run_id="r1"))
    assert "Wait for its end, then call resume('r1')." == advice
    clock.seconds += 61
    assert isinstance(do(advice, resume=runner.resume), Finished)

    asking = Runner(make_agent(choose), store="memory:")
    outcome = asking.start("go", run_id="r2")
    advice = advice_of(outcome)
    assert "Decide or answer it, then call resume('r2')." == advice
    asking.decide(outcome.waits[0].id, Answer("this one"))
    assert isinstance(do(advice, resume=asking.resume), Finished)


def test_advice_about_a_model_asks_it_now() -> None:
    class Limited:
        name = "limited"
        is_up = False

        async def reply(self, request: ModelRequest) -> ModelReply:
            del request
            if not self.is_up:
                raise ModelError("status 429", retryable=True, retry_after=60)
            return ModelReply(
                message=Message.from_mapping({"role": "assistant", "content": "Done."})
            )

    model = Limited()
    runner = Runner(Agent("clerk", model=model), store="memory:", model_retry_time=0)
    advice = advice_of(runner.start("go", run_id="r1"))
    model.is_up = True

    assert "To ask it now, call wake('r1'), then resume('r1')." in advice
    assert isinstance(
        do(advice, wake=runner.wake, resume=runner.resume, sweep=int), Finished
    )


@pytest.mark.parametrize("waiting", [pay, choose, listen])
def test_advice_without_a_store_answers_with_the_continuation(waiting: Any) -> None:
    agent = make_agent(waiting)
    outcome = run(agent, "go")

    advice = advice_of(outcome)

    assert advice == (
        "To end a wait, call resume(outcome.continuation, agent, "
        "answers={wait.id: verdict})."
    )
    verdict = Approve(by="kim") if waiting is pay else Answer("this one")
    [wait] = outcome.waits
    names: dict[str, Any] = {"wait": wait, "verdict": verdict, "resume": resume}
    assert isinstance(do(advice, outcome=outcome, agent=agent, **names), Finished)


def test_advice_without_a_store_about_a_time_or_a_condition() -> None:
    outcome = run(make_agent(nap), "go")
    assert "Wait for its end, then call resume(outcome.continuation, agent)." == (
        advice_of(outcome)
    )

    held = make_agent(choose, suspend_when=[every(turns=1)])
    answered = run(held, "go")
    [wait] = answered.waits
    outcome = resume(answered.continuation, held, answers={wait.id: Answer("this one")})
    advice = advice_of(outcome)
    assert "resume(outcome.continuation, agent, unpause=True)." in advice
    assert isinstance(do(advice, outcome=outcome, agent=held, resume=resume), Finished)


def test_each_class_of_outcomes_has_a_repr_of_one_line_without_arguments() -> None:
    def shown(outcome: object, beginning: str) -> None:
        text = repr(outcome)
        assert text.startswith(beginning)
        assert "\n" not in text
        assert len(text) < 200
        assert "s3cret" not in text

    long = "Done.\n" * 100
    script: list[Any] = [ToolCall("pay", {"secret": "s3cret"}), long, "And more.", long]
    agent = Agent("clerk", tools=[pay], model=ScriptedModel(script))
    runner = Runner(agent, store="memory:")
    thread = runner.thread("clerk", key="k")
    suspended = expect(thread.send("go"), Suspended)
    shown(suspended, "<Suspended t-clerk-")
    queued = thread.send("more")
    shown(queued, "<Queued t-clerk-")
    assert "message 2" in repr(queued)
    runner.decide(suspended.waits[0].id, Approve(by="kim"))
    runner.resume(suspended.run_id)
    shown(thread.send("once more"), "<Replied t-clerk-")
    texts = ScriptedModel([long])
    shown(run(Agent("clerk", model=texts), "go"), "<Finished ")
    runner.start("go", run_id="r2", work=False)
    runner.cancel("r2", reason=long)
    shown(runner.resume("r2"), "<Failed r2: cancelled")
