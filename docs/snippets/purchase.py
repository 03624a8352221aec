import asyncio
import time
from datetime import timedelta

from continuations import (
    Agent,
    Answer,
    Flow,
    Runner,
    ask,
    sleep,
    tool,
    workflow,
)
from continuations.models.scripted import ScriptedModel


@tool(idempotent=True)
def reserve(item: str) -> int:
    """Reserve an item; return its price in cents."""
    time.sleep(3)  # the warehouse is slow
    return 100 * len(item)


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay an amount."""
    return f"receipt for {cents} cents"


writer = Agent("writer", model=ScriptedModel(["Your laptop is on its way."]))


@workflow(tools=[reserve, pay], agents=[writer])
async def purchase(flow: Flow, item: str) -> str:
    """Buy an item for a new colleague."""
    grey = Answer("grey")
    color = await ask("Which color?", within=timedelta(days=2), on_deadline=grey)
    async with asyncio.TaskGroup() as group:
        price = group.create_task(flow.call(reserve, f"{color} {item}"))
        mail = group.create_task(flow.call(writer, f"Announce a {color} {item}."))
    receipt = await flow.call(pay, price.result())
    await sleep(timedelta(days=7))
    return f"{mail.result()} {receipt}"


runner = Runner(purchase, store="sqlite:runs.db", lease=5)
