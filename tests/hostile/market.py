"""Runs that wait for an approval and for a price, on a store that a test edits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from continuations import Agent, Runner, Suspended, Wait, tool, wait_for
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from tests.hostile.editable_store import EditableStore


class Market:
    """Started runs, and the payments that ran.

    Attributes:
        ran: The amounts that were paid.
        store: The store.
    """

    def __init__(self, *run_ids: str, labels: Mapping[str, str] | None = None) -> None:
        self.ran: list[int] = []
        self.store = EditableStore()
        for run_id in run_ids:
            outcome = self.runner().start("go", run_id=run_id, labels=labels)
            assert isinstance(outcome, Suspended)

    def runner(self) -> Runner:
        """Return a runner as another process has it."""

        @tool(approval=True)
        def pay(cents: int) -> str:
            """Pay an amount."""
            self.ran.append(cents)
            return "paid"

        @tool
        def price(article: str) -> ToolWait[int]:
            """Wait for a price."""
            return wait_for("price", int, key=article)

        calls = [ToolCall("pay", {"cents": 5}), ToolCall("price", {"article": "tea"})]
        agent = Agent("boss", tools=[pay, price], model=ScriptedModel([calls, "end"]))
        return Runner(agent, store=self.store)

    def wait(self, kind: str, run_id: str = "r1") -> Wait:
        """Return the open wait of a kind."""
        waits = Runner([], store=self.store).look(run_id).waits
        [found] = [wait for wait in waits if wait.kind == kind]
        return found

    def put(self, key: str, body: bytes = b"") -> None:
        """Create an object."""
        asyncio.run(self.store.create(key, body))

    def keys(self, *prefixes: str) -> list[str]:
        return sorted(key for key in self.store.bodies if key.startswith(prefixes))
