"""Warn an author about a declaration that works worse than its author expects."""

from __future__ import annotations

import inspect
import sys
import warnings

_OPTIMIZE_WITHOUT_DOCSTRINGS = 2
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


def warn_without_docstring(name: str, function: object) -> None:
    """Warn about a tool whose function has no docstring; the model reads it."""
    # `python -OO` removes docstrings.
    if sys.flags.optimize >= _OPTIMIZE_WITHOUT_DOCSTRINGS or function.__doc__:
        return
    warn_author(
        f"tool {name} has no docstring, so the model reads only its name."
        " Write a docstring, or pass description=."
    )
