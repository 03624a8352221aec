"""The golden objects of model settings, costs and fallback models."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from continuations.core.run import Budget
from continuations.core.usage import UNITS, Usage
from continuations.wire.continuation import Continuation
from tests.core.rows import apply_events, new_state, reply_with_calls
from tests.core.thread_rows import new_thread

if TYPE_CHECKING:
    from continuations.core.state import RunState


def run_with_settings() -> RunState:
    """Return a run that has model settings."""
    state = new_state()
    settings = '{"stop":["\u20ac"],"temperature":0}'
    return replace(state, run=replace(state.run, settings_json=settings))


def run_with_cost() -> RunState:
    """Return a run that has cost a part of its budget in money."""
    state = new_state()
    run = replace(
        state.run,
        budget=Budget(tokens=100_000, cost=Decimal("2.50"), currency="EUR"),
        usage=Usage(
            requests=2,
            input_tokens=10,
            output_tokens=3,
            cost_units=UNITS + 25_000_000_001,
            priced=15,
            currency="EUR",
        ),
    )
    return replace(state, run=run)


def thread_with_cost() -> RunState:
    """Return a thread whose earlier replies have a cost."""
    state = new_thread()
    earlier = Usage(requests=1, input_tokens=5, cost_units=7, priced=6, currency="USD")
    return replace(
        state,
        run=replace(state.run, usage=earlier + earlier, earlier_usage=earlier),
    )


def run_with_fallback() -> RunState:
    """Return a run with a reply whose metadata names its model."""
    reply = reply_with_calls("transfer")
    facts = '{"failed":[{"model":"a","status":429}],"model":"\u20ac"}'
    return apply_events(
        new_state(), replace(reply, message=reply.message.with_metadata(facts))
    )


def model_objects() -> dict[str, tuple[bytes, object]]:
    """Return the objects by name: their bytes, and what they mean."""
    objects: dict[str, tuple[bytes, object]] = {}
    for make in (
        run_with_settings,
        run_with_cost,
        thread_with_cost,
        run_with_fallback,
    ):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = (continuation.to_bytes(), continuation)
    return objects
