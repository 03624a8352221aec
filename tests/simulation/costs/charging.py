"""A provider that charges for each reply, so that the sum tells which ones it has.

Reply number n costs 2 to the power of n tokens. So a bit of a sum stands for a reply.
Some schedules limit the cost of run `r0`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations import Budget
from continuations.core import jsontext
from continuations.core.usage import units_text
from continuations.models.interface import Message, ModelReply
from continuations.prices import Prices, Usage
from tests.simulation.processes import current_process

if TYPE_CHECKING:
    import random

    from tests.simulation.families import Role
    from tests.simulation.sim_environment import SimEnvironment

# The price of a token, and the field of metadata that has the number of its reply.
PRICE_UNITS = 3
CHARGE_FIELD = "charge"


def charged(message: Message) -> ModelReply:
    """Return a reply that costs something, if the schedule has charges."""
    environment = current_process().environment
    if environment.charges is None:
        return ModelReply(message=message)
    number = len(environment.charges)
    environment.charges.append(environment.next_timestamp)
    tokens = 1 << number
    usage = Usage(
        requests=1,
        input_tokens=tokens,
        cost_units=PRICE_UNITS * tokens,
        priced=tokens + 1,
        currency="USD",
    )
    marked = message.with_metadata(jsontext.canonical({CHARGE_FIELD: number}))
    return ModelReply(message=marked, usage=usage)


# Budgets in money -------------------------------------------------------------------

BUDGET_TREES = ("turns", "one", "deep", "wide")
# A budget needs a price. The model brings the cost of its replies itself.
PRICES = Prices({"simulated": {"input": "1", "output": "1"}})


def draw_budgets(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw a budget that reply 0 to 6 of the schedule uses up, or none that can."""
    environment.charges = []
    environment.budgets["r0"] = PRICE_UNITS << rng.choice((0, 1, 2, 3, 4, 5, 6, 40))
    return []


def budget_of(environment: SimEnvironment, run_id: str) -> Budget | None:
    units = environment.budgets.get(run_id)
    return None if units is None else Budget(cost=units_text(units))
