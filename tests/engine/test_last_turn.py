"""Messages and a cancel request that arrive while the model thinks about its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from continuations import Agent, AsyncRunner, Failed, Finished, Outcome
from continuations.core.messages import Message
from continuations.core.rows.run import Budget
from continuations.errors import Corrupt, InvalidInput, StoreError
from continuations.ledger import layout
from continuations.models.interface import ModelReply, ModelRequest
from continuations_storage import MemoryStore, Store
from continuations_storage.errors import Damaged, Denied, StorageError
from continuations_storage.faults import FaultyStore, on, refused
from tests.clocks import ManualClock
from tests.outcomes import expect

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


async def nothing(other: AsyncRunner) -> None:
    """Do nothing during the last turn."""
    del other


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


async def test_message_after_the_end_is_refused() -> None:
    """Its sender gets an error: no model will read it."""
    _, _, store = await run_with(nothing)
    with pytest.raises(InvalidInput, match="finished and does not accept"):
        await AsyncRunner([], store=store).send("r1", "Hello?")


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
    failing = FaultyStore(
        MemoryStore(), on("keys", refused(), prefix="runs/", skip=1, times=3)
    )

    outcome, model, _ = asyncio.run(run_with(nothing, store=failing))

    assert isinstance(outcome, Finished)
    assert 1 == len(model.requests)


class LastLook(FaultyStore):
    """A store whose look before the end of the run fails, or does not end.

    Attributes:
        began: Whether the look began.
    """

    def __init__(self, inner: MemoryStore, error: type[StorageError] | None) -> None:
        super().__init__(inner)
        self.began = asyncio.Event()
        self._error = error

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List keys; the look lists what follows the last message that was read."""
        if (
            after == layout.numbered_key(layout.MESSAGE, "r1", 0)
            and not self.began.is_set()
        ):
            self.began.set()
            if self._error is not None:
                raise self._error(prefix)
            await asyncio.Event().wait()
        return await super().keys(prefix, after, limit)


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("error", [Denied, Damaged, None], ids=str)
async def test_reply_is_kept_if_the_last_look_fails(
    error: type[StorageError] | None, *, sends: bool
) -> None:
    """It is paid for. The next worker looks again, and asks only after a message."""
    inner = MemoryStore()
    other = AsyncRunner([], store=inner)
    model = Thinker(nothing, other)
    boss = Agent("boss", model=model)
    looking = LastLook(inner, error)
    starting = asyncio.create_task(
        AsyncRunner(boss, store=looking).start("go", run_id="r1")
    )
    await looking.began.wait()
    if error is None:
        starting.cancel()
    with pytest.raises((StoreError, Corrupt, asyncio.CancelledError)):
        await starting
    stored = await other.look("r1")
    assert ("suspended", 1) == (stored.status, stored.usage.requests)
    assert "reply 1" == stored.root.messages[-1]["content"]

    if sends:
        await other.send("r1", "Wait!")
    outcome = expect(await AsyncRunner(boss, store=inner).resume("r1"), Finished)

    contents = [m["content"] for m in outcome.continuation.root.messages]
    more = ["Wait!", "reply 2"] if sends else []
    assert ["go", "reply 1", *more] == contents
    assert contents[-1] == outcome.output
    assert len(model.requests) == outcome.usage.requests == 1 + sends
    assert [] == await inner.keys("markers/")


async def test_reply_is_kept_if_an_unread_message_is_damaged() -> None:
    """No worker goes on before the message can be read, and none asks again."""

    async def damage(other: AsyncRunner) -> None:
        await other.send("r1", "Wait!")
        [key] = await inner.keys("runs/r1/in/m-")
        body = await inner.read(key)
        await inner.delete(key)
        await inner.create(key, body[:-1])

    inner = MemoryStore()
    model = Thinker(damage, AsyncRunner([], store=inner))
    runner = AsyncRunner(Agent("boss", model=model), store=inner)
    with pytest.raises(Corrupt):
        await runner.start("go", run_id="r1")
    with pytest.raises(Corrupt):
        await runner.resume("r1")

    stored = await runner.look("r1")
    assert ("suspended", 1) == (stored.status, stored.usage.requests)
    assert "reply 1" == stored.root.messages[-1]["content"]
    assert 1 == len(model.requests)


async def test_input_that_ends_with_an_assistant_message_is_no_reply() -> None:
    """A worker dies before the first turn: the next one asks the model."""
    inner, clock = MemoryStore(), ManualClock()
    model = Thinker(nothing, AsyncRunner([], store=inner))
    runner = AsyncRunner(Agent("boss", model=model), store=inner, clock=clock)
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "Sure:"},
    ]
    await runner.start(history, run_id="r1", work=False)

    outcome = expect(await runner.resume("r1"), Finished)

    assert "reply 1" == outcome.output
