"""Rows of a state in the order in which events tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.frames import FrameRow


def shown_arguments(row: CallRow) -> str | None:
    """Return the arguments of a call with secret values masked."""
    if row.arguments is None or not row.secrets:
        return row.arguments
    from continuations.core.words.secret_arguments import masked_json  # noqa: PLC0415 - few tools have secrets

    return masked_json(row.arguments, row.secrets)


def by_frame(rows: Iterable[CallRow]) -> dict[str, list[CallRow]]:
    """Return calls by the ids of their frames."""
    found: dict[str, list[CallRow]] = {}
    for row in rows:
        found.setdefault(row.frame_id, []).append(row)
    return found


def by_depth(rows: Iterable[FrameRow]) -> list[FrameRow]:
    """Return frames, the highest first."""
    return sorted(rows, key=lambda row: (row.depth, int(row.id[1:])))
