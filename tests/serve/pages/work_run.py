"""Runs with many calls: they wait, fail and end, and each reply of the model costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Price, Prices, Usage
from continuations_storage import MemoryStore
from tests import scripts
from tests.clocks import ManualClock

# A reply with 1,000 tokens in and 100 out costs 0.004 USD.
PRICES = Prices({"counted": Price(input="3", output="10")})


class CountedModel(ScriptedModel):
    """A scripted model that takes a second for each reply and counts its tokens."""

    def __init__(self, script: Any, clock: ManualClock) -> None:
        super().__init__(script, "counted")
        self._clock = clock

    async def reply(self, request: Any) -> Any:
        """Return the reply of the script with 1,100 tokens."""
        reply = await super().reply(request)
        self._clock.seconds += 1.25
        usage = Usage(requests=1, input_tokens=1000, output_tokens=100)
        return replace(reply, usage=usage)


class WorkRun:
    """A run `work`: an agent ships orders one by one, then asks for a payment.

    Attributes:
        clock: The clock of all processes.
        store: The store.
        runner: A runner of the agent.
    """

    def __init__(self, orders: int, *, at_once: int = 1, fails: bool = False) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        clock = self.clock

        @tool
        async def ship(order: str) -> str:
            """Ship an order."""
            clock.seconds += 0.4
            return f"{order} is on its way"

        @tool
        async def audit() -> str:
            """Fail, if the run is to fail."""
            if fails:
                msg = "the ledger is closed"
                raise RuntimeError(msg)
            return "audited"

        @tool(approval=True, summary="Send {cents:money/100 EUR} to {to}")
        async def transfer(to: str, cents: int) -> str:
            """Send money."""
            return f"sent {cents} to {to}"

        def reply(request: Any) -> Any:
            turn = scripts.turn_count([each.data for each in request.messages])
            first = turn * at_once
            if first < orders:
                numbers = range(first, min(first + at_once, orders))
                return [ToolCall("ship", {"order": f"A-{n}"}) for n in numbers]
            calls = {
                -(-orders // at_once): ToolCall("audit"),
                -(-orders // at_once) + 1: ToolCall(
                    "transfer", {"to": "Kim", "cents": 1250}
                ),
            }
            return calls.get(turn, "All is shipped and paid.")

        agent = Agent(
            "shipper",
            tools=[ship, audit, transfer],
            model=CountedModel(reply, clock),
            max_turns=None,
        )
        self.runner = Runner(agent, store=self.store, clock=clock, prices=PRICES)

    def start(self) -> None:
        """Start the run; it waits for the approval of its payment."""
        self.runner.start("Ship everything", run_id="work", title="Ship everything")
        self.clock.seconds += 13 * 3600
