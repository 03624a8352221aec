"""Yes, but with these arguments (R-C10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Answer,
    Approve,
    DecisionRefused,
    Finished,
    Runner,
    tool,
)
from continuations_storage import MemoryStore
from tests.engine import ledgers
from tests.engine.offices import boss, results
from tests.engine.payers import PAY, office, only, waiting

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World


def test_edited_arguments_are_what_runs_and_what_is_told(world: World) -> None:
    """R-C10, X-09, SL-L10: beside the original; the assistant's message stays."""
    runner = office()
    wait = waiting(runner)
    assert {"cents": 5, "to": "kim"} == wait.arguments

    runner.decide(wait.id, Approve(arguments={"cents": 3, "to": "jo"}))
    outcome = runner.resume("r1")

    assert ["pay 3 jo"] == world.done()
    [said] = results(outcome)
    assert "The person who approved this call changed its arguments." in said
    assert '{"cents":3,"to":"jo"}' in said
    assert said.endswith("paid 3 to jo")
    asked = outcome.continuation.root.messages[2]["tool_calls"][0]
    assert '{"cents": 5}' == asked["function"]["arguments"]


@pytest.mark.parametrize(
    "edit",
    [{}, {"cents": "three"}, {"cents": 3, "more": 1}, {"to": "jo"}, [], "x", 5, {1: 2}],
)
def test_edits_that_the_schema_refuses_are_not_recorded(edit: Any) -> None:
    """R-C10: an explicit `{}` is a real edit, here one that does not fit."""
    runner = office()
    wait = waiting(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(arguments=edit))

    # Then the wait is open and takes the next one
    assert wait == runner.wait(wait.id)
    runner.decide(wait.id, Approve())


def test_an_empty_edit_is_an_edit(world: World) -> None:
    """R-C10: where every argument has a default."""

    @tool(approval=True)
    def pay(cents: int = 1) -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=str(cents))
        return "paid"

    runner = Runner(boss(PAY, pay), store=MemoryStore())
    runner.decide(waiting(runner).id, Approve(arguments={}))
    outcome = runner.resume("r1")

    assert ["pay 1"] == world.done()
    assert "changed its arguments" in results(outcome)[0]


def test_an_edit_that_the_tool_refuses_opens_a_new_wait(world: World) -> None:
    """R-C10: what a schema cannot say is checked on resume; nothing runs."""
    from typing import Annotated  # noqa: PLC0415 - only here

    from pydantic import AfterValidator  # noqa: PLC0415 - only here

    def even(number: int) -> int:
        if number % 2:
            raise ValueError("it is odd")
        return number

    @tool(approval=True)
    def pay(cents: Annotated[int, AfterValidator(even)]) -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=str(cents))
        return f"paid {cents}"

    script: Script = {"go": [[["pay", {"cents": 4}]], "end"]}
    runner = Runner(boss(script, pay), store=MemoryStore())
    wait = waiting(runner)

    # When an odd number passes the schema
    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    again = only(runner.resume("r1"))

    # Then nothing ran, and a new wait shows the original
    assert [] == world.effects()
    assert again.id != wait.id
    assert {"cents": 4} == again.arguments
    assert "odd" in str(again.note)

    # When that one is approved
    runner.decide(again.id, Approve(arguments={"cents": 6}))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 6"] == world.done()


def test_an_approval_takes_no_answer() -> None:
    """R-C5: a value is not a yes."""
    runner = office()
    wait = waiting(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Answer("approved"))
