"""The answer to an unknown outcome becomes the call's result."""

from __future__ import annotations

import pytest

from continuations import Answer, Finished
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import make_payment_runner, single_wait


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("paid", "paid"),
        ('"paid"', '"paid"'),
        ("", ""),
        (0, "0"),
        (None, "null"),
        (False, "false"),
        ([], "[]"),
        ({"paid": [5, "kim"]}, '{"paid":[5,"kim"]}'),
    ],
)
def test_an_answer_reaches_the_model_as_a_result_would(
    value: object, expected: str, clock: ManualClock
) -> None:
    """A text as it is, another value as JSON; the call does not run again."""
    # Given a call whose worker died before it recorded the result
    store = MemoryStore(clock.now)
    dies = on("create", crashed("before"), prefix="runs/", skip=2)
    with pytest.raises(Crash):
        make_payment_runner(
            policy=False, store=FaultyStore(store, dies), clock=clock
        ).start("go", run_id="r1")
    clock.seconds += 31
    runner = make_payment_runner(policy=False, store=store, clock=clock)
    wait = single_wait(runner.resume("r1"))
    assert "unknown" == wait.kind

    # When a person answers
    runner.decide(wait.id, Answer(value, by="kim"))
    outcome = runner.resume("r1")

    # Then the model reads the answer
    assert isinstance(outcome, Finished)
    assert [expected] == root_tool_results(outcome)
    assert ["pay 5 kim"] == effect_log.names()
