"""Warn an author about a declaration that works worse than its author expects."""

from __future__ import annotations

import inspect
import warnings

# A list of tools is made in a cached property, which `functools` calls.
_SKIPPED = (__name__.partition(".")[0] + ".", "functools")


def warn_author(message: str) -> None:
    """Warn at the line of the application that declares an agent or a tool."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(_SKIPPED):
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level)
