"""Counts in the pages have the right number and separators of thousands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.ledger.index.run_listing import RunSummary
from continuations.prices import Usage
from continuations.serve.console.known_runs import KnownRun
from continuations.serve.console.runs_page import list_row
from continuations.serve.pages.run_states import status_pill
from continuations.serve.pages.run_view import usage_text
from tests.clocks import ManualClock


@pytest.mark.parametrize(
    ("requests", "tokens", "expected"),
    [
        (1, 1, "1 request, 1 token"),
        (2, 18_204, "2 requests, 18,204 tokens"),
        (0, 0, "0 requests"),
    ],
)
def test_usage_counts_in_words(requests: int, tokens: int, expected: str) -> None:
    usage = replace(Usage(), requests=requests, input_tokens=tokens)
    assert expected == usage_text(usage)


@pytest.mark.parametrize(
    ("count", "expected"), [(1, "1 message"), (1_234, "1,234 messages")]
)
def test_row_of_a_thread_counts_messages_in_words(count: int, expected: str) -> None:
    summary = RunSummary(
        run_id="r1", status="running", thread="k", messages=count, cursor="c"
    )
    run = KnownRun(
        summary=summary,
        state=status_pill("running"),
        changed=(0, "r1"),
        acted_ms=0,
        search_text="",
    )
    assert expected == list_row(run, ManualClock().now())["messages"]
