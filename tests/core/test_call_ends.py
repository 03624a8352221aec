"""The end of a call is a code; its tool message keeps it without a word of English."""

from __future__ import annotations

from dataclasses import replace

import pytest

from continuations.core.changes.tool_messages import (
    CALL_ENDS,
    end_in,
    end_of,
    result_message,
)
from continuations.core.rows.calls import CallState, Errored, Refused, Returned
from continuations.engine.turns.model_turn import returned_results
from tests.core.rows import reply_with_calls
from tests.core.test_tool_messages import call_row

BEGUN: dict[str, CallState] = {
    "returned": Returned("DENIED: says the tool itself"),
    "denied": Refused("denied", "no"),
    "expired": Refused("expired", "late"),
    "cancelled": Refused("cancelled", "stop"),
    "not_executed": Refused("not_executed", "it did not happen"),
    "error": Errored("exception", "it broke"),
}
NOT_BEGUN: dict[str, CallState] = {
    "answered": Returned("5"),
    "invalid": Errored("arguments", "wrong"),
}
ROWS = {
    **{end: replace(call_row(state), attempts=1) for end, state in BEGUN.items()},
    **{end: replace(call_row(state), attempts=0) for end, state in NOT_BEGUN.items()},
}


@pytest.mark.parametrize("end", CALL_ENDS)
def test_tool_message_keeps_the_end_of_its_call(end: str) -> None:
    """Only a call that returned has no metadata, so most messages have none."""
    message = result_message(ROWS[end])

    assert end == end_of(ROWS[end]) == end_in(message)
    assert (message.metadata_json is None) == (end == "returned")


@pytest.mark.parametrize("end", CALL_ENDS)
def test_only_the_result_of_a_call_that_returned_counts(end: str) -> None:
    """A tool may return a text that begins like a refusal."""
    reply = reply_with_calls("transfer").message
    [request] = reply.tool_calls
    message = result_message(replace(ROWS[end], tool_call_id=request.tool_call_id))

    found = returned_results([reply, message])

    assert ({"transfer": message.content} if end == "returned" else {}) == found
