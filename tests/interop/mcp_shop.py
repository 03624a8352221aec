"""A server of MCP with a shop that asks, in a process of its own.

python -m tests.interop.mcp_shop PORT STORE EFFECTS HOURS_AHEAD
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn

from continuations import Agent, AsyncRunner, ask, open_store, tool
from continuations.interop.mcp import mcp_server
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.clocks import OffsetClock
from tests.stores import StoreWithoutTime

SECRET = "a secret of the shop, for its tests only"


def shop(effects: Path) -> Agent[str]:
    """Return an agent whose tool orders once, then asks, then ends."""

    @tool
    def order(item: str) -> Any:
        """Order an item."""
        with effects.open("a") as file:
            file.write(f"order {item}\n")
        return ask("At what time?", str)

    @order.on_answer
    def deliver(answer: str) -> str:
        return f"delivered at {answer}"

    script: Sequence[ToolCall | str] = [ToolCall("order", {"item": "tea"}), "done"]
    return Agent("shop", model=ScriptedModel(script), tools=[order])


def main() -> None:
    """Serve until the process is stopped."""
    port, store, effects, hours = sys.argv[1:]
    clock = OffsetClock(float(hours) * 3600)
    # The time of files is the real one, so this store does not tell it.
    timeless = StoreWithoutTime(open_store(store))
    # The process may be killed right after it claimed the run.
    runner = AsyncRunner(shop(Path(effects)), store=timeless, clock=clock, lease=3.0)
    server = mcp_server(runner, secret=SECRET, verify=lambda _: "kim")
    uvicorn.run(server.app(), port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
