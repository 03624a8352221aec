"""Bugs of usage and costs: a reply is counted twice, or not at all."""

from __future__ import annotations

from typing import Any

from continuations.core.changes import run_events
from continuations.core.rows.run import budget_failure
from continuations.core.rows.state import Draft
from continuations.core.usage import Usage
from continuations.value_class import replace
from tests.simulation.families import BUDGETS, STREAMS
from tests.simulation.mutants.mutant import Original, Patches, mutant, patch, skip


@mutant("usage_is_what_the_models_charged", family=STREAMS)
def usage_is_counted_twice() -> Patches:
    """The usage of a reply is counted twice."""

    def add_usage(original: Original) -> None:
        original()
        original()

    yield patch(run_events.add_usage, add_usage)


@mutant("usage_is_what_the_models_charged", family=STREAMS)
def usage_is_that_of_the_last_reply() -> Patches:
    """The usage of a run is that of its last reply."""

    def add_usage(draft: Draft, usage: Usage) -> None:
        draft.put_run(replace(draft.run, usage=usage))

    yield patch(run_events.add_usage, add_usage)


@mutant("usage_is_what_the_models_charged", family=STREAMS)
def cost_is_not_added_up() -> Patches:
    """The cost is not added up; only its tokens are."""

    def add_usage(original: Original, draft: Draft) -> None:
        known = draft.run.usage.cost_units
        original()
        total = draft.run.usage
        draft.put_run(replace(draft.run, usage=replace(total, cost_units=known)))

    yield patch(run_events.add_usage, add_usage)


@mutant("a_money_budget_stops_a_run", family=BUDGETS)
def a_budget_is_not_kept() -> Patches:
    """A budget in money is not compared with the cost."""
    yield skip(budget_failure)


@mutant("a_money_budget_stops_a_run", family=BUDGETS)
def a_budget_ends_a_run_early() -> Patches:
    """A budget ends a run at half of its cost."""

    def failure(original: Original, usage: Usage) -> Any:
        return original(usage=replace(usage, cost_units=2 * usage.cost_units))

    yield patch(budget_failure, failure)
