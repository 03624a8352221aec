"""The wait that a run is suspended with."""

from __future__ import annotations

from typing import Any

from continuations import Outcome, Suspended, Wait


def only_wait(outcome: Outcome[Any]) -> Wait:
    """Return the only wait of a run that is suspended."""
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait
