"""Counts in words have the singular for one, and separators of thousands."""

from __future__ import annotations

from continuations.present.times import counted


def test_one_is_singular_and_thousands_are_separated() -> None:
    assert ["0 runs", "1 run", "2 runs", "12,400 open waits"] == [
        counted(0, "run"),
        counted(1, "run"),
        counted(2, "run"),
        counted(12400, "open wait"),
    ]
