"""Vercel's emails with a cancel hook, as a subscription: charge each month until then.

    python examples/ported/subscription.py         # all steps, in memory

    python examples/ported/subscription.py FOLDER start ada
    python examples/ported/subscription.py FOLDER cancel ada

    python examples/ported/subscription.py FOLDER sweep

With a folder, each step is a process. Run `sweep` once a day.
"""

import asyncio
import sys
from datetime import timedelta

from pydantic import BaseModel

from continuations import (
    Flow,
    Outcome,
    Runner,
    Suspended,
    sleep,
    tool,
    wait_for,
    workflow,
)
from continuations.testing import FrozenClock, memory_store

# The ported program -------------------------------------------------------------------

MONTH = timedelta(days=30)


class Ended(BaseModel):
    """The end of a subscription."""

    status: str
    months: int


@tool
def send_email(customer: str, template: str) -> None:
    """Send an email to a customer."""
    print(f"email to {customer}: {template}")


@tool
def charge(customer: str, month: int) -> None:
    """Charge a customer for a month."""
    print(f"charged {customer} for month {month}")


@workflow(tools=[send_email, charge])
async def subscription(flow: Flow, customer: str) -> Ended:
    """Charge a customer each month, until the customer cancels."""
    await flow.call(send_email, customer, "welcome")
    # One wait stays open over all months. A new wait for each month could miss an
    # event that arrives between the end of a month and the next sweep.
    cancelled = asyncio.create_task(wait_for("cancel", key=customer))
    month = 1
    while True:
        await flow.call(charge, customer, month)
        renewal = asyncio.create_task(sleep(MONTH))
        await asyncio.wait({renewal, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        if cancelled.done():
            await flow.call(send_email, customer, "goodbye")
            return Ended(status="cancelled", months=month)
        month += 1


def cancel(runner: Runner, customer: str, reason: str) -> None:
    """Cancel the subscription of a customer."""
    runner.publish("cancel", {"reason": reason}, key=customer, id=f"cancel-{customer}")


# The steps ----------------------------------------------------------------------------


def print_outcome(outcome: Outcome) -> None:
    """Print the result, or that the subscription goes on."""
    if isinstance(outcome, Suspended):
        print(f"{outcome.run_id}: subscribed")
    else:
        print(f"{outcome.run_id}: {outcome.result()!r}")


def run_step(runner: Runner, step: list[str]) -> None:
    """Run one step."""
    match step:
        case ["start", customer]:
            bound = subscription.bind(customer)
            print_outcome(runner.start(bound, run_id=customer))
        case ["cancel", customer]:
            cancel(runner, customer, "too expensive")
        case ["sweep"]:
            for outcome in runner.sweep().resumed:
                print_outcome(outcome)
        case _:
            sys.exit(__doc__)


def run_all_steps() -> None:
    """Move a clock by two months, and cancel then."""
    clock = FrozenClock()
    runner = Runner(subscription, store=memory_store(clock), clock=clock)
    run_step(runner, ["start", "ada"])
    for _ in range(2):
        clock.advance(days=30, hours=12)
        run_step(runner, ["sweep"])
    run_step(runner, ["cancel", "ada"])
    run_step(runner, ["sweep"])


def main() -> None:
    """Run one step in a folder, or all steps in memory."""
    match sys.argv[1:]:
        case []:
            run_all_steps()
        case [folder, *step]:
            run_step(Runner(subscription, store=f"sqlite:{folder}/runs.db"), step)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
