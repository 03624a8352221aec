"""Laws of usage and costs: each reply is paid for once, and a budget is kept."""

from __future__ import annotations

from tests.simulation.costs.charging import CHARGE_FIELD, PRICE_UNITS
from tests.simulation.evidence import Evidence, RunHistory


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
                    if message.metadata and CHARGE_FIELD in message.metadata
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


def a_money_budget_stops_a_run(evidence: Evidence) -> str | None:
    """A process that stored a cost of at least the budget asks no model after it.

    So a run costs at most one turn of each frame more. A run ends because of its budget
    only if its cost has reached it.
    """
    environment = evidence.environment
    for run_id, limit in environment.budgets.items():
        history = evidence.runs.get(run_id)
        if history is None:
            continue
        for turn in environment.model_turns:
            if turn.run_id != run_id:
                continue
            # A process whose claim has ended may know less than the store.
            spent = [
                version.state.run.usage.cost_units
                for version in history.versions
                if version.process == turn.process and version.at < turn.began_at
            ]
            if spent and spent[-1] >= limit:
                return f"{turn} began after its budget was used up"
        if not history.versions or budget_is_used_up(evidence, history):
            continue
        failure = history.newest_state.run.failure
        if failure is not None and failure.code == "budget":
            return f"{run_id} ended before its budget was used up"
    return None


def budget_is_used_up(evidence: Evidence, history: RunHistory) -> bool:
    """Return whether a run has cost as much as its budget allows."""
    limit = evidence.environment.budgets.get(history.run_id)
    return limit is not None and history.newest_state.run.usage.cost_units >= limit
