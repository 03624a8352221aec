"""Which results are committed before the next step."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Finished, tool
from tests.engine import agent_builders
from tests.outcomes import expect
from tests.scripts import Script, call

SCRIPT: Script = {"go": [[call("look")], "end"]}


@pytest.mark.parametrize(
    ("declared", "versions"),
    [
        # The claim; the reply and the intent to run it; the end.
        ({"read_only": True}, 3),
        ({"idempotent": True}, 3),
        # Its result, which cannot be obtained again, before the model is asked.
        ({}, 4),
    ],
)
def test_only_an_unrepeatable_result_costs_a_version(
    declared: dict[str, Any], versions: int
) -> None:
    """The result of a repeatable call is committed together with the next step."""

    @tool(**declared)
    def look() -> str:
        """Look."""
        return "seen"

    outcome = expect(agent_builders.make_runner(SCRIPT, look).start("go"), Finished)

    assert versions == outcome.continuation.version
