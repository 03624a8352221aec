"""The choices for later calls limit them, and a period counts by the store's time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from continuations import Agent, AsyncRunner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock, ShiftedClock
from tests.outcomes import single_wait
from tests.serve.console.console_client import ConsoleClient
from tests.serve.pages.html_forms import PageForms

YEAR = timedelta(days=365)


@tool(approval=True)
def pay(
    cents: int,
    kind: Literal["wage"] = "wage",
    share: Annotated[int, Field(gt=0, le=100)] = 100,
    note: str | None = None,
    sure: bool | None = None,
) -> str:
    """Pay."""
    del kind, share, note, sure
    return f"paid {cents}"


@tool(approval=True)
def close(kind: Literal["wage"] = "wage") -> str:
    """Close the books."""
    return f"closed {kind}"


async def start(
    name: str, arguments: dict[str, Any], clock: ManualClock | None = None
) -> tuple[AsyncRunner, str]:
    """Start a run with one call; return the runner and the path of its form."""
    call = ToolCall(name, arguments)
    model = ScriptedModel([call, call, "done"])
    agent = Agent("clerk", tools=[pay, close], model=model)
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    store = MemoryStore(clock.now if clock else None)
    runner = AsyncRunner(agent, store=store, **options)
    wait = single_wait(await runner.start("go", run_id="r"))
    return runner, f"/waits/{wait.id}/remember"


@pytest.mark.parametrize(
    ("name", "arguments", "condition"),
    [
        (
            "pay",
            {"cents": 5},
            {
                "properties": {
                    "cents": {"const": 5},
                    "share": {"const": 100},
                    "note": {"const": None},
                    "sure": {"const": None},
                },
                "required": ["cents", "note", "share", "sure"],
            },
        ),
        ("close", {}, None),
    ],
)
async def test_untouched_form_gives_a_grant(
    name: str, arguments: dict[str, Any], condition: Any
) -> None:
    """An argument with one value has no choice that would limit nothing."""
    runner, path = await start(name, arguments)
    client = ConsoleClient(runner)
    form = PageForms((await client.get(path)).text).forms["approve"]

    done = await client.post(path, form)

    assert "Recorded: Approved" in done.text
    [grant] = await runner.grants("r")
    assert condition == grant.arguments


@pytest.mark.parametrize(
    ("field", "choice"),
    [("rule:kind", "same"), ("rule:share", "most"), ("rule:note", "most")],
)
async def test_choice_that_limits_nothing_is_not_offered(
    field: str, choice: str
) -> None:
    """`share` is at its bound, so that "at most 100" is every value."""
    runner, path = await start("pay", {"cents": 5})
    client = ConsoleClient(runner)
    text = (await client.get(path)).text
    form = PageForms(text).forms["approve"]
    assert "at most 100" not in text
    assert "at least 100" in text

    refused = await client.post(path, {**form, field: choice})

    assert 400 == refused.status_code
    assert [] == await runner.grants("r")


@pytest.mark.parametrize("offset", [YEAR, -YEAR], ids=["ahead", "behind"])
async def test_grant_ends_by_the_time_of_the_store(offset: timedelta) -> None:
    """The clock of the console's machine is wrong by a year."""
    clock = ManualClock()
    runner, path = await start("close", {}, clock)
    wrong = ShiftedClock(clock, offset)
    machine = AsyncRunner([], store=runner.store, clock=wrong)
    client = ConsoleClient(machine, {"clock": wrong})
    form = PageForms((await client.get(path)).text).forms["approve"]

    done = await client.post(path, {**form, "until": "hour"})

    assert "Recorded: Approved" in done.text
    [grant] = await runner.grants("r")
    assert clock.now() + timedelta(hours=1) == grant.until
    # The page of a fast machine lists it too, so that a person can revoke it.
    assert grant.id in (await client.get("/grants")).text
