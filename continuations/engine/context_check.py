"""Check the application's object, `context=`, before any work.

A tool that finds another object raises an error. By then an approval is used up, or a
call is started. So the object is checked before a run is claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.run import ENDED_STATUSES
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.prices import Prices
    from continuations.core.run import RunRow


def check_run_prices(run: RunRow, prices: Prices | None, root: AgentProtocol) -> None:
    """Raise `PriceUnknown` if a run has a budget in money, and a price is missing."""
    if run.budget is None or run.budget.cost is None or run.status in ENDED_STATUSES:
        return
    from continuations.engine import money_budgets  # noqa: PLC0415 - few runs have one

    money_budgets.check_prices(run.budget, prices, root, run.id)


def check_context(
    context: object,
    agent: AgentProtocol,
    runner_type: Any = None,
    run_id: str | None = None,
) -> None:
    """Raise `InvalidInput` unless a runner, an agent and its sub-agents take an object.

    Args:
        context: The object.
        agent: A root agent.
        runner_type: The `context_type` of the runner; `None`: any.
        run_id: The run that would continue, for the error.
    """
    required = [("the runner", runner_type)] if runner_type is not None else []
    required += [(f"agent {name}", type_) for name, type_ in agent.context_types]
    for owner, type_ in required:
        if isinstance(context, type_):
            continue
        run = f"run {run_id} did not continue: " if run_id is not None else ""
        name = getattr(type_, "__name__", str(type_))
        msg = (
            f"{run}context must be of type {name}, as {owner} declares, got "
            f"{type(context).__name__}. Nothing ran, and no approval was used up. Pass "
            f"context=, of type {name}."
        )
        raise InvalidInput(msg, run_id=run_id)
