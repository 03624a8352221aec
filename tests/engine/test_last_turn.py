"""Messages and a cancel request that arrive while the model thinks about its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from continuations import Agent, AsyncRunner, Failed, Finished, InvalidInput
from continuations.core.messages import Message
from continuations.core.run import Budget
from continuations.models.interface import ModelReply
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, on, refused
from tests.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations import Outcome
    from continuations.models.interface import ModelRequest
    from continuations_storage import Store

    Interference = Callable[[AsyncRunner], Awaitable[object]]


class Thinker:
    """A model that gives a final reply; before its first one, something happens."""

    name = "thinker"

    def __init__(self, interference: Interference, other: AsyncRunner) -> None:
        self.requests: list[ModelRequest] = []
        self._interference, self._other = interference, other

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Let the other process act once, and reply."""
        self.requests.append(request)
        if len(self.requests) == 1:
            await self._interference(self._other)
        text = f"reply {len(self.requests)}"
        message = Message.from_mapping({"role": "assistant", "content": text})
        return ModelReply(message=message)


async def run_with(
    interference: Interference,
    *,
    store: Store | None = None,
    max_turns: int = 100,
    budget: Budget | None = None,
) -> tuple[Outcome, Thinker, MemoryStore]:
    """Run an agent while another process interferes with its only turn."""
    inner, clock = MemoryStore(), ManualClock()
    model = Thinker(interference, AsyncRunner([], store=inner, clock=clock))
    runner = AsyncRunner(
        Agent("boss", model=model, max_turns=max_turns),
        store=store or inner,
        clock=clock,
    )
    outcome = await runner.start("go", run_id="r1", budget=budget)
    return outcome, model, inner


def test_run_reads_a_message_before_it_finishes() -> None:
    """The run accepted the message, so the model reads it."""

    async def send_two(other: AsyncRunner) -> None:
        assert 1 == await other.send("r1", "Wait!")
        assert 2 == await other.send("r1", "One more thing.")

    outcome, model, store = asyncio.run(run_with(send_two))

    assert isinstance(outcome, Finished)
    assert "reply 2" == outcome.output
    contents = [m["content"] for m in outcome.continuation.root.messages]
    assert ["go", "reply 1", "Wait!", "One more thing.", "reply 2"] == contents
    assert 2 == len(model.requests)
    assert [] == asyncio.run(store.keys("markers/"))


def test_message_after_the_end_is_refused() -> None:
    """Its sender gets an error: no model will read it."""

    async def scenario() -> None:
        async def nothing(other: AsyncRunner) -> None:
            del other

        _, _, store = await run_with(nothing)
        with pytest.raises(InvalidInput, match="finished and does not accept"):
            await AsyncRunner([], store=store).send("r1", "Hello?")

    asyncio.run(scenario())


def test_cancellation_in_the_last_turn_is_honoured() -> None:
    """A run that was cancelled before its end does not finish."""

    async def cancel(other: AsyncRunner) -> None:
        assert "running" == (await other.cancel("r1", reason="Enough.")).status

    outcome, model, store = asyncio.run(run_with(cancel))

    assert isinstance(outcome, Failed)
    assert ("cancelled", "Enough.") == (outcome.error.code, outcome.error.message)
    assert 1 == len(model.requests)
    # The reply was paid for, so it is kept.
    assert "reply 1" == outcome.continuation.root.messages[-1]["content"]
    assert [] == asyncio.run(store.keys("markers/"))


@pytest.mark.parametrize(
    ("max_turns", "budget"), [(1, None), (100, Budget(requests=1))]
)
def test_run_without_another_turn_finishes_with_its_reply(
    max_turns: int, budget: Budget | None
) -> None:
    """A message cannot turn a good reply into a failure."""

    async def send(other: AsyncRunner) -> None:
        await other.send("r1", "Wait!")

    outcome, model, _ = asyncio.run(run_with(send, max_turns=max_turns, budget=budget))

    assert isinstance(outcome, Finished)
    assert "reply 1" == outcome.output
    assert 1 == len(model.requests)


def test_last_look_is_repeated_while_the_claim_lasts() -> None:
    """The reply is paid for, and a short outage does not lose it."""

    async def nothing(other: AsyncRunner) -> None:
        del other

    failing = FaultyStore(
        MemoryStore(), on("keys", refused(), prefix="runs/", skip=1, times=3)
    )

    outcome, model, _ = asyncio.run(run_with(nothing, store=failing))

    assert isinstance(outcome, Finished)
    assert 1 == len(model.requests)
