"""The law of usage and costs: a run has paid for each reply once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.charging import CHARGE_FIELD, PRICE_UNITS

if TYPE_CHECKING:
    from tests.simulation.evidence import Evidence


def usage_is_what_the_models_charged(evidence: Evidence) -> str | None:
    """Usage and cost never go down, and have each stored reply once, and no other."""
    charges = evidence.environment.charges
    if charges is None:
        return None
    for run_id, history in evidence.runs.items():
        before = 0
        for version in history.versions:
            usage = version.state.run.usage
            made = sum(1 << n for n, at in enumerate(charges) if at < version.at)
            stored = sum(
                {
                    1 << message.metadata[CHARGE_FIELD]
                    for log in version.state.logs.values()
                    for message in log.messages
                    if message.metadata is not None
                }
            )
            problem = None
            if before & ~usage.input_tokens:
                problem = "went down"
            elif usage.input_tokens & ~made:
                problem = "has a reply that no model made"
            elif stored & ~usage.input_tokens:
                problem = "lacks a stored reply"
            elif usage.input_tokens.bit_count() != usage.requests:
                problem = "has a reply twice"
            elif usage.cost_units != PRICE_UNITS * usage.input_tokens:
                problem = "has another cost than its tokens"
            if problem is not None:
                return f"{run_id}, version {version.number}: the usage {problem}"
            before = usage.input_tokens
    return None
