"""What is kept before the next step, and what need not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from continuations import Finished, tool
from tests.engine import offices

if TYPE_CHECKING:
    from tests.engine.scripts import Script

SCRIPT: Script = {"go": [[["look", {}]], "end"]}


@pytest.mark.parametrize(
    ("declared", "versions"),
    [
        # The claim; the reply and the intent to run it; the end.
        ({"read_only": True}, 3),
        ({"idempotent": True}, 3),
        # Its result, which nobody could get again, before the model is asked.
        ({}, 4),
    ],
)
def test_only_a_result_that_could_be_lost_costs_a_version(
    declared: dict[str, Any], versions: int
) -> None:
    """Section 5 "Turn": what can be done again is kept with what comes next."""

    @tool(**declared)
    def look() -> str:
        """Look."""
        return "seen"

    outcome = offices.runner(SCRIPT, look).start("go")

    assert isinstance(outcome, Finished)
    assert versions == outcome.continuation.version
