"""Budgets in money: they need the price of every model that the run may ask."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from continuations.authoring.agent.agent import every_agent
from continuations.core.prices import Prices, check_amount, check_currency
from continuations.errors import InvalidInput, PriceUnknown

if TYPE_CHECKING:
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.rows.run import Budget


def checked_money(budget: Budget, prices: Prices | None, root: AgentProtocol) -> Budget:
    """Return a budget in money in its stored form.

    Raises `InvalidInput` for an invalid amount, and `PriceUnknown` if a price is
    missing.
    """
    assert budget.cost is not None  # noqa: S101 - the caller has looked
    cost = check_amount("budget.cost", budget.cost)
    if not cost:
        msg = "budget.cost must be more than 0. Pass for example Budget(cost='2.50')."
        raise InvalidInput(msg)
    currency = budget.currency
    if currency:
        check_currency(currency)
    elif prices is not None:
        currency = prices.currency
    stored = replace(budget, cost=cost, currency=currency)
    check_prices(stored, prices, root, None)
    return stored


def check_prices(
    budget: Budget, prices: Prices | None, root: AgentProtocol, run_id: str | None
) -> None:
    """Raise `PriceUnknown` if a budget in money cannot be kept in this process."""
    run = f"run {run_id} did not continue: " if run_id is not None else ""
    if prices is None:
        msg = (
            f"{run}the budget of {budget.cost} {budget.currency} needs prices. Pass "
            "prices=Prices({...}) to the runner."
        )
        raise PriceUnknown(msg.replace("  ", " "), run_id=run_id)
    if prices.currency != budget.currency:
        msg = (
            f"{run}the budget is in {budget.currency}, and the prices are in "
            f"{prices.currency}. Pass prices in {budget.currency}."
        )
        raise PriceUnknown(msg, run_id=run_id)
    models = [model for each in every_agent(root) for model in _models_of(each)]
    names = sorted({name for model in models for name in _priced_names(model)})
    unknown = [name for name in names if name not in prices]
    if unknown:
        msg = (
            f"{run}the budget of {budget.cost} {budget.currency} needs the price of "
            f"each model, and {', '.join(map(repr, unknown))} has none. Add it to "
            "prices=."
        )
        raise PriceUnknown(msg, run_id=run_id)


def _models_of(agent: AgentProtocol) -> list[Any]:
    """Return the models that may be asked for an agent, also for its summaries."""
    writer = agent.compaction and agent.compaction.summary_agent
    models = [agent.model, writer.model if writer else None]
    if agent.guardrails is not None:
        checks = (
            *agent.guardrails.of_stage("input"),
            *agent.guardrails.of_stage("output"),
        )
        models += [each.agent.model for each in checks if each.agent is not None]
    # Without a model, the first turn raises an error.
    return [model for model in models if model is not None]


def _priced_names(model: Any) -> tuple[str, ...]:
    """Return the names under which the replies of a model are priced."""
    if isinstance(model, str):
        return (model,)
    names: tuple[str, ...] = getattr(model, "priced_names", (model.name,))
    return names
