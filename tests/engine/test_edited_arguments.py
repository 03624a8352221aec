"""Approvals with edited arguments."""

from __future__ import annotations

from itertools import count
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from continuations import Approve, Finished, Runner, Suspended, tool
from continuations.errors import DecisionRefused
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_payment_runner,
    single_wait,
    start_and_get_wait,
)
from tests.scripts import Script, call


def test_edited_arguments_run_and_are_reported_to_the_model() -> None:
    """The original arguments stay in the call and in the assistant's message."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)
    assert {"cents": 5, "to": "kim"} == wait.arguments

    runner.decide(wait.id, Approve(arguments={"cents": 3, "to": "jo"}))
    outcome = runner.resume("r1")

    assert ["pay 3 jo"] == effect_log.names()
    [said] = root_tool_results(outcome)
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
    """An explicit `{}` is an edit too, here an invalid one."""
    runner = make_payment_runner()
    wait = start_and_get_wait(runner)

    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(arguments=edit))

    # Then the wait is still open and accepts the next decision
    assert wait == runner.wait(wait.id)
    runner.decide(wait.id, Approve())


def test_an_empty_edit_is_an_edit() -> None:
    """`{}` is a valid edit if every argument has a default."""

    @tool(approval=True)
    def pay(cents: int = 1) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        return "paid"

    runner = Runner(make_boss(PAY_SCRIPT, pay), store=MemoryStore())
    runner.decide(start_and_get_wait(runner).id, Approve(arguments={}))
    outcome = runner.resume("r1")

    assert ["pay 1"] == effect_log.names()
    assert "changed its arguments" in root_tool_results(outcome)[0]


def test_an_edit_that_the_tool_refuses_opens_a_new_wait() -> None:
    """A rule that no schema can express is checked on resume; nothing runs."""
    from pydantic import AfterValidator  # noqa: PLC0415 - only here

    def even(number: int) -> int:
        if number % 2:
            raise ValueError("it is odd")
        return number

    @tool(approval=True)
    def pay(cents: Annotated[int, AfterValidator(even)]) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        return f"paid {cents}"

    script: Script = {"go": [[call("pay", cents=4)], "end"]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    wait = start_and_get_wait(runner)

    # When an odd number passes the schema
    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    again = single_wait(runner.resume("r1"))

    # Then nothing ran, and a new wait shows the original
    assert [] == effect_log.effects()
    assert again.id != wait.id
    assert {"cents": 4} == again.arguments
    assert "odd" in str(again.note)

    # When that one is approved
    runner.decide(again.id, Approve(arguments={"cents": 6}))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 6"] == effect_log.names()


class Order(BaseModel):
    """The order that is paid."""

    cents: int
    target: str = "kim"


def test_values_that_the_tool_adds_to_an_edit_open_a_new_wait() -> None:
    """Values that neither the edit nor the schema showed never run."""
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
        effect_log.append_effect("pay", what)
        return "paid"

    asked = {"order": {"cents": 1}, "cents": 5, "account": "mine"}
    script: Script = {"go": [[["pay", asked]], "end"]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    wait = start_and_get_wait(runner)
    whole = {"order": {"cents": 2, "target": "jo"}, "cents": 3, "account": "hers"}
    edits: list[dict[str, Any]] = [
        {key: value for key, value in whole.items() if key != "account"},
        {**whole, "order": {"cents": 2, "target": "jo", "currency": "EUR"}},
    ]
    for edit in edits:
        # Given an approval of less, or of more, than the tool would run with
        runner.decide(wait.id, Approve(arguments=edit))
        outcome = runner.resume("r1")

        # Then nothing runs, and a new wait shows what the tool would run with
        assert isinstance(outcome, Suspended)
        assert [] == effect_log.names()
        [again] = outcome.waits
        assert again.id != wait.id
        note = again.note or ""
        assert note.startswith("The edited arguments were not used")
        assert note.endswith(
            "An approval without edits runs the call with the arguments shown here."
        )
        assert wait.arguments == again.arguments
        wait = again

    runner.decide(wait.id, Approve(arguments=whole))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 3 2 jo hers"] == effect_log.names()


def test_defaults_that_the_wait_shows_are_part_of_the_edit() -> None:
    """Defaults in the schema were shown to the person who edits."""

    @tool(approval=True)
    def pay(cents: int, currency: str = "EUR") -> str:
        """Pay."""
        effect_log.append_effect("pay", f"{cents} {currency}")
        return "paid"

    script: Script = {"go": [[call("pay", cents=5, currency="USD")], "end"]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    wait = start_and_get_wait(runner)
    assert "EUR" == wait.schema["properties"]["currency"]["default"]

    runner.decide(wait.id, Approve(arguments={"cents": 3}))
    outcome = runner.resume("r1")

    assert ["pay 3 EUR"] == effect_log.names()
    assert '{"cents":3,"currency":"EUR"}' in root_tool_results(outcome)[0]
