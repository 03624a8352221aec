"""Stored costs and budgets in money: exact texts, and nothing else is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from continuations import Budget
from continuations.core.rows.delta import diff
from continuations.errors import FormatError
from continuations.prices import Usage
from continuations.wire.rows import delta_fields, read_delta
from tests.core.rows import new_state

PRICED = Usage(requests=1, input_tokens=4, cost_units=5, priced=5, currency="USD")


def stored_run(**changes: Any) -> dict[str, Any]:
    """Return the stored fields of a run."""
    state = new_state()
    run = replace(state.run, **changes)
    return dict(delta_fields(diff(None, replace(state, run=run))))


def test_cost_is_stored_as_a_decimal_text() -> None:
    usage = stored_run(usage=PRICED)["run"]["usage"]
    assert ("0.000000000005", 5, "USD") == (
        usage["cost"],
        usage["priced"],
        usage["currency"],
    )


def test_usage_without_a_cost_is_stored_as_before() -> None:
    usage = stored_run(usage=Usage(requests=1, input_tokens=4))["run"]["usage"]
    assert {"requests": 1, "input_tokens": 4} == usage


def set_cost(run: dict[str, Any], value: object) -> None:
    run["usage"]["cost"] = value


def set_earlier(run: dict[str, Any], value: object) -> None:
    run["earlier_usage"] = value


def set_budget(run: dict[str, Any], value: object) -> None:
    run["budget"]["cost"] = value


FORGED: list[tuple[Callable[[dict[str, Any], object], None], object]] = [
    *((set_cost, value) for value in (5, -1, 0.5, "", "-1", "1.", "01", "1e9", "NaN")),
    *((set_cost, value) for value in ("0.0000000000001", "9" * 61, "0.50", "Infinity")),
    *((set_earlier, value) for value in ([-1], ["1"], [True])),
    (set_earlier, [1, 2, 3, 4, 5, 6, "0.5"]),
    (set_earlier, [1, 2, 3, 4, 5, 6, 0.5, "USD"]),
    (set_earlier, [1, 2, 3, 4, 5, 6, "0.5", "USD", 7]),
    *((set_budget, value) for value in (5, 0.5, "", "-1", "NaN", "1e9", "9" * 61)),
]


@pytest.mark.parametrize(("forge", "value"), FORGED)
def test_forged_cost_is_refused(
    forge: Callable[[dict[str, Any], object], None], value: object
) -> None:
    fields = stored_run(
        usage=PRICED, earlier_usage=PRICED, budget=Budget(cost=Decimal(1))
    )
    forge(fields["run"], value)

    with pytest.raises(FormatError, match=r"cost|usage"):
        read_delta(fields, "the version")
