"""The count of denied calls in the row of a frame."""

from __future__ import annotations

from continuations.core.rows.calls import CallRow, CallState, Errored, Refused, Returned
from continuations.core.rows.frames import (
    DenialCount,
    denials_after_turn,
    denied_too_often,
)

DENIED = Refused("denied", "DENIED")


def closed(tool: str, state: CallState, *, arguments: str = "{}") -> CallRow:
    return CallRow(
        id="c1",
        frame_id="f1",
        tool=tool,
        tool_call_id="p1",
        raw_arguments=arguments,
        arguments=arguments,
        state=state,
    )


def counted(*turns: list[CallRow]) -> list[tuple[str, int]]:
    """Return the tools and their counts after some turns."""
    counts: tuple[DenialCount, ...] = ()
    for rows in turns:
        counts = denials_after_turn(counts, rows)
    return [(each.tool, each.count) for each in counts]


def test_denials_and_expiries_count_and_cancelled_calls_do_not() -> None:
    pay = [closed("pay", DENIED)]
    expired = [closed("pay", Refused("expired", "EXPIRED"))]
    cancelled = [closed("pay", Refused("cancelled", "CANCELLED"))]
    failed = [closed("pay", Errored("exception", "ERROR"))]

    assert [("pay", 2)] == counted(pay, cancelled, failed, expired)
    assert [] == counted(cancelled, failed)


def test_sub_agent_that_ended_after_denials_counts_as_denied() -> None:
    end = [closed("clerk", Errored("max_denials", "ERROR"))]

    assert [("clerk", 2)] == counted(end, end)


def test_result_of_a_call_ends_its_count_only() -> None:
    both = [closed("pay", DENIED), closed("send", DENIED)]
    paid = [closed("pay", Returned("paid"))]

    assert [("send", 1)] == counted(both, paid)
    assert [("send", 1), ("pay", 1)] == counted(both, paid, [closed("pay", DENIED)])


def test_edited_call_is_the_call_that_the_model_made() -> None:
    """A person denies the repeat of a call whose first edit was refused by the tool."""
    row = closed("pay", DENIED, arguments='{"cents":1}')
    edited = CallRow(
        id="c2",
        frame_id="f1",
        tool="pay",
        tool_call_id="p2",
        raw_arguments='{"cents":1}',
        arguments='{"cents":2}',
        original_arguments='{"cents":1}',
        state=DENIED,
    )

    assert [("pay", 2)] == counted([row], [edited])


def test_newest_denied_calls_are_counted() -> None:
    turns = [[closed(f"tool{n}", DENIED)] for n in range(40)]

    assert [(f"tool{n}", 1) for n in range(8, 40)] == counted(*turns)


def test_limit_is_reached_by_one_call() -> None:
    counts = (DenialCount("a", "1", 2), DenialCount("b", "2", 3))

    assert counts[1] == denied_too_often(counts, 3)
    assert denied_too_often(counts, 4) is None
    assert denied_too_often(counts, None) is None
