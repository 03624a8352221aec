"""Yes, but with these arguments (R-C10)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from continuations import (
    Answer,
    Approve,
    DecisionRefused,
    Finished,
    Runner,
    Suspended,
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


class Order(BaseModel):
    """What is paid."""

    cents: int
    target: str = "kim"


def test_what_a_tool_adds_to_an_edit_is_approved_first(world: World) -> None:
    """R-C1, R-C10: values that no edit said and no schema showed; they run never."""
    made = count(1)

    def account() -> str:
        return f"account {next(made)}"

    @tool(approval=True)
    def pay(
        order: Order,
        cents: int,
        account: Annotated[str, Field(default_factory=account)],
    ) -> str:
        """Pay."""
        what = f"{cents} {order.cents} {order.target} {account}"
        ledgers.add(ledgers.EFFECTS, tool="pay", what=what)
        return "paid"

    asked = {"order": {"cents": 1}, "cents": 5, "account": "mine"}
    script: Script = {"go": [[["pay", asked]], "end"]}
    runner = Runner(boss(script, pay), store=MemoryStore())
    wait = waiting(runner)
    whole = {"order": {"cents": 2, "target": "jo"}, "cents": 3, "account": "hers"}
    edits: list[dict[str, Any]] = [
        {key: value for key, value in whole.items() if key != "account"},
        {**whole, "order": {"cents": 2}},
        {**whole, "order": {"cents": 2, "target": "jo", "currency": "EUR"}},
    ]
    for edit in edits:
        # Given a yes to less, or to more, than the tool would make of it
        runner.decide(wait.id, Approve(arguments=edit))
        outcome = runner.resume("r1")

        # Then nothing runs, and a new wait says how the tool reads it
        assert isinstance(outcome, Suspended)
        assert [] == world.done()
        [again] = outcome.waits
        assert again.id != wait.id
        note = again.note or ""
        assert note.startswith("The edited arguments were not taken")
        assert note.endswith(
            "A plain yes runs the call as it is shown, as it was before the edit."
        )
        assert wait.arguments == again.arguments
        wait = again

    runner.decide(wait.id, Approve(arguments=whole))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 3 2 jo hers"] == world.done()


def test_defaults_that_the_wait_shows_are_part_of_the_edit(world: World) -> None:
    @tool(approval=True)
    def pay(cents: int, currency: str = "EUR") -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=f"{cents} {currency}")
        return "paid"

    script: Script = {"go": [[["pay", {"cents": 5, "currency": "USD"}]], "end"]}
    runner = Runner(boss(script, pay), store=MemoryStore())
    wait = waiting(runner)
    assert "EUR" == wait.schema["properties"]["currency"]["default"]

    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    outcome = runner.resume("r1")

    assert ["pay 3 EUR"] == world.done()
    assert '{"cents":3,"currency":"EUR"}' in results(outcome)[0]
