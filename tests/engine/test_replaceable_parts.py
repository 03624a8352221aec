"""Stores, models and policies can be replaced alone; what exists at each moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Finished,
    Runner,
    Suspended,
)
from continuations.errors import ModelError
from continuations.models.interface import ModelReply, ModelRequest, PendingReply
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.versions import decode_header
from continuations_storage import MemoryStore
from tests.engine.agent_builders import text_tool
from tests.outcomes import expect


class RecordingStore:
    """An application's own store around another one; it records the created keys."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.created: list[str] = []

    async def create(self, key: str, body: bytes) -> datetime | None:
        store_time = await self.inner.create(key, body)
        self.created.append(key)
        return store_time

    async def read(self, key: str) -> bytes:
        return await self.inner.read(key)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return await self.inner.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        await self.inner.delete(key)

    async def probe(self) -> None:
        """Prove that creates are exclusive."""
        await self.inner.probe()


class RetryingModel:
    """A model with its own retries around another model; the loop does not see them."""

    name = "patient"

    def __init__(self, fails: int) -> None:
        self.inner = ScriptedModel([ToolCall("pay", {"cents": 5}), "Paid."])
        self.fails = fails
        self.asked = 0

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Ask until the model replies."""
        while True:
            self.asked += 1
            if self.asked > self.fails:
                return await self.inner.reply(request)


def is_more_than_a_cent(cents: int) -> bool:
    """Return whether an approval is needed."""
    return cents > 1


def make_payment_agent(model: Any, approval: Any = True) -> Agent:
    pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=approval)
    return Agent("payer", tools=[pay], model=model)


def test_store_retry_and_policy_are_replaced_alone() -> None:
    """Replacing one of them changes no other part."""
    # Given an application's own store, retries and policy
    store = RecordingStore()
    model = RetryingModel(fails=3)
    policy = ApprovalPolicy(when=is_more_than_a_cent, name="more than a cent")
    runner = Runner(make_payment_agent(model, policy), store=store)

    # When a run waits, is approved and resumed
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    assert "more than a cent" == outcome.waits[0].policy
    runner.decide(outcome.waits[0].id, Approve())
    end = runner.resume("r")

    # Then the failed attempts left nothing behind
    assert isinstance(end, Finished)
    assert "Paid." == end.output
    roles = [message["role"] for message in end.continuation.root.messages]
    assert ["user", "assistant", "tool", "assistant"] == roles
    assert 5 == model.asked


def test_first_version_exists_before_the_first_model_call() -> None:
    """A crash in the first model call leaves a run that can be resumed."""
    store = RecordingStore()
    seen: list[list[str]] = []

    def look(request: ModelRequest) -> str:
        seen.append([key for key in store.created if "/v/" in key])
        return f"Done with {len(request.messages)}."

    Runner(Agent("a", model=ScriptedModel(look)), store=store).start("go", run_id="r")

    assert [["runs/r/v/9999999998"]] == seen


async def test_version_header_names_format_run_number_and_base() -> None:
    """The header can be read without the rest."""
    store = RecordingStore()

    runner = AsyncRunner(make_payment_agent(RetryingModel(fails=0)), store=store)
    await runner.start("go", run_id="r")
    bodies = {key: await store.read(key) for key in store.created if "/v/" in key}
    headers = [decode_header(body, key) for key, body in bodies.items()]

    assert [1, 2] == [header.number for header in headers]
    assert ["running", "suspended"] == [header.status for header in headers]
    assert [0, 1] == [header.base for header in headers]
    assert {"r"} == {header.run_id for header in headers}
    assert all(body.startswith(b"CONT\x00\x01") for body in bodies.values())
    manifest = (await runner.look("r")).run_state.manifest
    assert '"meaning"' in manifest
    assert '"pay"' in manifest


def test_model_error_leaves_a_resumable_run() -> None:
    """The error has the status, and the run is suspended without a wait."""
    down = True

    def sometimes(_: ModelRequest) -> str:
        if down:
            msg = "the key is refused"
            raise ModelError(msg, status=401)
        return "Done."

    agent = Agent("a", model=ScriptedModel(sometimes))
    runner = Runner(agent, store="memory:", model_retry_time=0)
    with pytest.raises(ModelError) as caught:
        runner.start("go", run_id="r")

    error = caught.value
    assert (401, False, "r") == (error.status, error.retryable, error.run_id)
    assert "suspended" == runner.look("r").status
    down = False
    assert isinstance(runner.resume("r"), Finished)


def test_waiting_runs_need_no_runner(store: MemoryStore) -> None:
    """A new runner lists waits that it never opened."""
    runner = Runner(make_payment_agent(RetryingModel(fails=0)), store=store)
    for number in range(50):
        runner.start("go", run_id=f"r-{number}")

    # Then another runner lists them all
    waiting = list(Runner([], store=store).waiting())

    assert 50 == len(waiting)
    assert {"approval"} == {summary.kind for summary in waiting}
