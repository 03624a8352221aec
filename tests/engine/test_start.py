"""Starting runs, and errors for runs that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from continuations import Approve, Finished, Runner, Suspended, errors
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine import agent_builders
from tests.engine.payment_agent import pay
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("pay")], "end"], "other": ["end"]}


@pytest.fixture
def runner() -> Runner:
    """Return a runner of an agent that pays."""
    return agent_builders.make_runner(SCRIPT, pay)


def test_starting_twice_with_one_input_is_one_run(
    environment: RunEnvironment, runner: Runner
) -> None:
    """While it waits, after the decision, and after its end."""
    first = runner.start("go", run_id="r1")
    again = runner.start("go", run_id="r1")
    assert isinstance(first, Suspended)
    assert isinstance(again, Suspended)
    assert first.waits == again.waits

    runner.decide(first.waits[0].id, Approve())
    for _ in range(2):
        assert isinstance(runner.start("go", run_id="r1"), Finished)
    assert ["pay "] == environment.effect_names()
    assert ["go 0", "go 1"] == environment.turns()


@pytest.mark.parametrize(
    "other",
    [
        "other",
        "go ",
        [{"role": "user", "content": "go"}, {"role": "user", "content": "go"}],
    ],
)
def test_starting_with_another_input_is_refused(runner: Runner, other: Any) -> None:
    """`RunExists` is raised, and the run is unchanged."""
    before = runner.start("go", run_id="r1")

    with pytest.raises(errors.RunExists):
        runner.start(other, run_id="r1")
    assert before.continuation.version == runner.look("r1").version


def test_text_and_user_message_are_the_same_input(runner: Runner) -> None:
    """A text is one user message."""
    runner.start("go", run_id="r1")

    outcome = runner.start([{"role": "user", "content": "go"}], run_id="r1")
    assert isinstance(outcome, Suspended)


def test_messages_of_a_conversation_begin_a_run(
    runner: Runner, environment: RunEnvironment
) -> None:
    """A system message of the input replaces the instructions."""
    messages = [
        {"role": "system", "content": "You are another."},
        {"role": "user", "content": "go"},
    ]
    outcome = runner.start(messages)

    assert messages == outcome.continuation.root.messages[:2]
    assert ["go 0"] == environment.turns()


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        [{}],
        [{"role": "nobody", "content": "x"}],
        [{"role": "tool", "tool_call_id": "x", "content": "orphan"}],
        [{"role": "user", "content": float("nan")}],
        [{"role": "user", "content": object()}],
        {"prompt": "x"},
    ],
)
def test_an_input_that_cannot_be_sent_starts_nothing(
    runner: Runner, wrong: Any
) -> None:
    """The input is checked before anything is written."""
    with pytest.raises(errors.InvalidInput):
        runner.start(wrong, run_id="r1")
    with pytest.raises(errors.RunNotFound):
        runner.look("r1")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        ".x",
        "-x",
        "a/b",
        "a b",
        "ä",
        "x" * 201,
        "a\n",
        "../x",
        "a\x00",
        5,
        None,
        b"x",
    ],
)
def test_invalid_run_id_is_rejected_everywhere(runner: Runner, wrong: Any) -> None:
    """1 to 200 characters of `[A-Za-z0-9._-]`, the first a letter or digit."""
    methods: list[Callable[[Any], object]] = [
        runner.resume,
        runner.look,
        runner.cancel,
        lambda run_id: runner.send(run_id, "hello"),
    ]
    if wrong is not None:
        methods.append(lambda run_id: runner.start("go", run_id=run_id))
    for method in methods:
        with pytest.raises(errors.InvalidId):
            method(wrong)


def test_unusual_run_ids_work(runner: Runner) -> None:
    """Also an id that is a prefix of another."""
    for run_id in ("x" * 200, "a", "a.", "a..b", "a-b_c.D", "0", "A"):
        outcome = expect(runner.start("go", run_id=run_id), Suspended)
        runner.decide(outcome.waits[0].id, Approve())
        assert isinstance(runner.resume(run_id), Finished)
    assert 7 == len(effect_log.names())


def test_unknown_run_or_wait_is_not_found(runner: Runner) -> None:
    """The error names the run or wait."""
    for method in (runner.resume, runner.look, runner.cancel):
        with pytest.raises(errors.RunNotFound) as raised:
            method("r9")
        assert "r9" == raised.value.run_id
    with pytest.raises(errors.RunNotFound):
        runner.send("r9", "hello")
    with pytest.raises(errors.WaitNotFound):
        runner.wait(f"approval-{'0' * 26}@r9")


def test_run_is_bound_to_its_root_agent(store: MemoryStore) -> None:
    """The run id and the root agent's name belong together."""
    from continuations import Agent  # noqa: PLC0415 - only here

    one = agent_builders.make_boss(SCRIPT, pay)
    two = Agent("chief", tools=[pay], model=one.model)
    both = Runner([one, two], store=store)

    with pytest.raises(errors.InvalidInput):
        both.start("go")
    with pytest.raises(errors.InvalidInput):
        both.start("go", agent="nobody")
    assert isinstance(both.start("go", agent="chief", run_id="r1"), Suspended)
    with pytest.raises(errors.RunExists):
        both.start("go", agent="boss", run_id="r1")
    assert "chief" == both.look("r1").root.agent


def test_looking_never_writes(runner: Runner, environment: RunEnvironment) -> None:
    """Any version can be read any number of times."""
    del runner
    script: Script = {"go": [[call("pay", what="x")], "end"]}
    result = environment.start(script)
    before = environment.objects()
    looking = Runner([], store=environment.store)

    versions = [looking.look("r1", version=n) for n in range(1, result["version"] + 1)]

    assert before == environment.objects()
    assert ["running", "suspended"] == [versions[0].status, versions[-1].status]
    assert result["waits"][0]["id"] == looking.look("r1").waits[0].id
    assert "pay" == looking.look("r1").root.calls[0].tool
