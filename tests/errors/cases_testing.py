"""The testing package: harness, crash points, recorded models."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

_HARNESS = """
    script = [ToolCall("pay", {"cents": 500}), "done"]
    harness = testing.AgentHarness(clerk(script=script))
    harness.run_to_pause("Pay Jane")
"""

TESTING = Area(
    "Tests of an application",
    (
        Case(
            "testing-check",
            AssertionError,
            'harness.assert_waits("refund")',
            'harness.assert_waits("pay")',
            setup=_HARNESS,
            names=("pay", "refund"),
            is_list=True,
        ),
        Case(
            "testing-clock-start",
            InvalidInput,
            "testing.FrozenClock(datetime(2026, 1, 1))",
            "testing.FrozenClock(datetime(2026, 1, 1, tzinfo=UTC))",
            names=("start", "tzinfo"),
        ),
    ),
)
