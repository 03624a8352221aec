"""A provider that charges for each reply, so that the sum tells which ones it has.

Reply number n costs 2 to the power of n tokens. So a bit of a sum stands for a reply.
"""

from __future__ import annotations

from continuations import Usage
from continuations.core import jsontext
from continuations.models.interface import Message, ModelReply
from tests.simulation.processes import current_process

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
