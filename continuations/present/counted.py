"""Counts in words: `1 run`, `2 runs`, `12,400 tokens`."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
