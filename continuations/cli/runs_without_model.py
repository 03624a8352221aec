"""The line of `inbox` and `waiting` about runs that wait for their models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.cli.places import with_places
from continuations.engine import portal
from continuations.ledger.objects import Objects
from continuations.ledger.rows_only_waits import find_runs_awaiting_models
from continuations.present.wait_words import awaiting_models_line

if TYPE_CHECKING:
    from continuations import Runner


def awaiting_models(runner: Runner) -> str:
    """Return how many runs of the store wait for their models; empty for none."""
    found = portal.run_until_complete(find_runs_awaiting_models(Objects(runner.store)))
    return with_places(awaiting_models_line(found))
