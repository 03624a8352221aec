"""Whether two messages or requests have one sender."""

from __future__ import annotations


def is_by_same(by: str | None, other: str | None) -> bool:
    """Return whether two senders are one person, or both are unknown.

    Names that look the same are one person. An earlier release stored other forms.
    """
    if by == other:
        return True
    from continuations.core.identity import is_same_person  # noqa: PLC0415 - few runs need it

    return is_same_person(by, other)
