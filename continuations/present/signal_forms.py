"""The JSON form of signals that no wait has taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.present.json_forms import utc_text

if TYPE_CHECKING:
    from continuations.core.untaken_signals import UntakenSignal


def untaken_signal_json(signal: UntakenSignal, *, with_data: bool) -> dict[str, Any]:
    """Return a signal as JSON values (`untaken_signal`)."""
    form: dict[str, Any] = {
        "number": signal.number,
        "name": signal.name,
        "at": utc_text(signal.at),
        "by": signal.by,
    }
    return {**form, "data": signal.data} if with_data else form
