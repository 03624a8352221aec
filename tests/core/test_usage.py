"""Usage is summed field by field."""

from __future__ import annotations

from continuations.core.usage import Usage


def test_sum_of_usage_is_taken_field_by_field() -> None:
    one = Usage(
        requests=1,
        input_tokens=10,
        output_tokens=2,
        cached_tokens=3,
        reasoning_tokens=4,
    )

    expected = Usage(
        requests=2,
        input_tokens=20,
        output_tokens=4,
        cached_tokens=6,
        reasoning_tokens=8,
    )
    assert expected == one + one
    assert one == one + Usage()
    assert 24 == expected.total_tokens
