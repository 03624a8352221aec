"""Warn an author about a declaration that works worse than its author expects."""

from __future__ import annotations

import inspect
import warnings

_OWN_PACKAGE = __name__.partition(".")[0] + "."


def warn_author(message: str) -> None:
    """Warn at the line of the application that declares an agent or a tool."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(_OWN_PACKAGE):
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level)
