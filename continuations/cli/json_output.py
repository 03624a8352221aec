"""Print results as JSON, in the forms of `docs/schemas/continuations.schema.json`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from continuations.cli.wait_status import recorded_decisions
from continuations.present import json_forms

if TYPE_CHECKING:
    from continuations import Continuation, Outcome
    from continuations.core.messages import Detail
    from continuations_storage import Store


def write_json(value: object) -> None:
    """Write one line of JSON in ASCII: every invisible character is a JSON escape."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True) + "\n")


def detail_of(*, transcript: bool) -> Detail:
    """Return which texts a command prints, by its option `--transcript`."""
    return "transcript" if transcript else "texts"


def run_form(
    store: Store,
    run: Continuation,
    *,
    with_stack: bool = False,
    detail: Detail = "texts",
) -> dict[str, Any]:
    """Return a run as JSON values (`run`)."""
    return json_forms.run_json(
        run,
        decided=recorded_decisions(store, run),
        now=datetime.now(UTC),
        with_stack=with_stack,
        detail=detail,
    )


def outcome_form(store: Store, outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a start or resume as JSON values (`outcome`)."""
    decided = recorded_decisions(store, outcome.continuation)
    return json_forms.outcome_json(
        outcome, decided=decided, now=datetime.now(UTC), detail="texts"
    )
