"""Without a store, the caller passes the continuation from process to process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from continuations import (
    Approve,
    Continuation,
    Deny,
    Finished,
    Suspended,
    errors,
    resume,
    run,
    sleep,
    tool,
)
from continuations.tools import ToolWait
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

NESTED: Script = {
    "go": [[call("left", input="A"), call("right", input="B")], "all"],
    "A": [[call("act", what="1"), call("pay", what="a")], "A done"],
    "B": [[call("clerk", input="C")], "B done"],
    "C": [[call("pay", what="c")], "C done"],
}


def test_four_processes_pass_a_run_on_as_bytes(environment: RunEnvironment) -> None:
    """Each process decides some of the waits."""
    paths = [str(environment.folder / f"{number}.bytes") for number in range(4)]

    # Given a suspended run as bytes
    result = environment.run("run", "go", paths[0], script=NESTED)
    waits = {wait["arguments"]["what"]: wait["id"] for wait in result["waits"]}

    def resumed(number: int, answers: dict[str, Any]) -> dict[str, Any]:
        words = (paths[number], json.dumps(answers), paths[number + 1])
        return environment.run("resume-bytes", *words, script=NESTED)

    # When the first decides the deeper wait, the next nothing, the last the other one
    first = resumed(0, {waits["c"]: {"approve": {"by": "kim"}}})
    assert [waits["a"]] == [wait["id"] for wait in first["waits"]]
    second = resumed(1, {})
    assert ("Suspended", ["act 1", "pay c"]) == (
        second["kind"],
        environment.effect_names(),
    )
    last = resumed(2, {waits["a"]: {"deny": {"reason": "No."}}})

    # Then each call ran once and no turn was repeated
    assert "all" == last["output"]
    assert ["act 1", "pay c"] == environment.effect_names()
    assert ["A done", "B done"] == agent_builders.tool_results(last["messages"])
    assert len(set(environment.turns())) == len(environment.turns())
    assert 8 == last["usage"]["requests"]


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    effect_log.append_effect("pay", what)
    return f"paid {what}"


def start_suspended_run(*whats: str) -> Suspended:
    """Return a run that waits for so many approvals."""
    return expect(run(make_payment_agent(*whats), "go"), Suspended)


def make_payment_agent(*whats: str, **options: Any) -> Any:
    """Return an agent that pays so often, in one turn."""
    script: Script = {"go": [[call("pay", what=what) for what in whats], "end"]}
    return agent_builders.make_boss(script, options.get("tool", pay))


def test_an_answer_to_no_open_wait_runs_nothing() -> None:
    """Also beside a valid verdict, and for a wait that was decided before."""
    outcome = start_suspended_run("a", "b")
    one, two = (wait.id for wait in outcome.waits)
    for wrong in ("", "0", f"{one}x", start_suspended_run("a").waits[0].id):
        with pytest.raises(errors.WaitNotFound):
            resume(
                outcome.continuation,
                make_payment_agent(),
                answers={one: Approve(), wrong: Deny()},
            )
    with pytest.raises(errors.DecisionRefused):
        resume(outcome.continuation, make_payment_agent(), answers={one: Approve(by=5)})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert [] == effect_log.effects()

    half = resume(
        outcome.continuation, make_payment_agent("a", "b"), answers={one: Deny()}
    )
    with pytest.raises(errors.WaitNotFound):
        resume(
            half.continuation,
            make_payment_agent("a", "b"),
            answers={one: Approve(), two: Deny()},
        )
    assert [] == effect_log.effects()


@pytest.mark.parametrize(
    "junk",
    [None, True, 1, "yes", "approve", {}, [], [True], [Approve(), True], Approve],
    ids=repr,
)
def test_an_answer_that_is_no_verdict_runs_nothing(junk: Any) -> None:
    """Only an exact verdict decides; the continuation stays as it is."""
    outcome = start_suspended_run("a")
    [wait] = outcome.waits

    with pytest.raises(errors.DecisionRefused):
        resume(outcome.continuation, make_payment_agent("a"), answers={wait.id: junk})

    assert [] == effect_log.effects()
    again = expect(resume(outcome.continuation, make_payment_agent("a")), Suspended)
    assert [wait] == list(again.waits)


def test_resume_does_not_change_the_continuation() -> None:
    """It can be resumed again, which is then another run."""
    outcome = start_suspended_run("a")
    before = outcome.continuation.to_bytes()

    ended = resume(
        outcome.continuation,
        make_payment_agent("a"),
        answers={outcome.waits[0].id: Approve()},
    )

    assert isinstance(ended, Finished)
    assert before == outcome.continuation.to_bytes()
    assert "suspended" == outcome.continuation.status
    assert ["waiting"] == [call.state for call in outcome.continuation.root.calls]
    assert ["pay a"] == effect_log.names()
    # And resuming the finished run returns its end
    assert ended.output == getattr(
        resume(ended.continuation, make_payment_agent("a")), "output", None
    )
    assert ["pay a"] == effect_log.names()


def test_invalid_bytes_raise_a_typed_error() -> None:
    """Nothing is guessed, and nothing runs."""
    data = start_suspended_run("a").continuation.to_bytes()
    for wrong in (
        b"",
        b"{}",
        b"\x80\x04.",
        data[:-1],
        data[:20],
        data + b"x",
        data[::-1],
    ):
        with pytest.raises(errors.FormatError):
            resume(wrong, make_payment_agent("a"))
    for place in range(0, len(data), max(1, len(data) // 40)):
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        with pytest.raises((errors.FormatError, errors.Corrupt)):
            Continuation.from_bytes(bytes(flipped))


def test_resume_with_agent_before_data_says_the_order() -> None:
    """The type checker's error comes too late for a person at a prompt."""
    swapped: Any = make_payment_agent("a")
    data: Any = start_suspended_run("a").continuation.to_bytes()

    with pytest.raises(errors.InvalidInput, match="data comes first"):
        resume(swapped, data)


def test_changed_code_of_an_approved_call_opens_a_new_wait_without_a_store() -> None:
    """The old code can still resume the old bytes."""

    @tool(name="pay", approval=True)
    def pay_in(what: str, currency: str = "EUR") -> str:
        """Pay in a currency."""
        return f"paid {what} {currency}"

    outcome = start_suspended_run("a")
    yes = {outcome.waits[0].id: Approve()}
    again = resume(
        outcome.continuation, make_payment_agent("a", tool=pay_in), answers=yes
    )
    assert isinstance(again, Suspended)
    assert "parameter currency was added" in str(again.waits[0].note)
    assert ["paid a"] == root_tool_results(
        resume(outcome.continuation, make_payment_agent("a"), answers=yes)
    )


def test_to_json_contains_messages_and_waits() -> None:
    """The standard messages array, and each wait with its path."""
    outcome = start_suspended_run("a")

    result = json.loads(outcome.continuation.to_json())

    assert outcome.continuation.root.messages == result["frames"][0]["messages"]
    assert [["boss", "pay"]] == [wait["path"] for wait in result["waits"]]
    assert [] == effect_log.effects()


def test_timer_ends_at_its_time_on_the_clock_of_a_test(clock: ManualClock) -> None:
    """Without a store, `resume` applies the timers and deadlines first."""

    @tool
    def nap() -> ToolWait[str]:
        """Wait for an hour."""
        return sleep(3600)

    agent = agent_builders.make_boss({"go": [[call("nap")], "end"]}, nap)
    asleep = expect(run(agent, "go", clock=clock), Suspended)

    clock.seconds = 3599
    assert isinstance(resume(asleep.continuation, agent, clock=clock), Suspended)
    clock.seconds = 3601
    assert isinstance(resume(asleep.continuation, agent, clock=clock), Finished)

    with pytest.raises(
        errors.InvalidInput, match=r"^clock must have the method now\(\)"
    ):
        run(agent, "go", clock=object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
