"""The names that applications import: those at the top, and those of public modules."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

import continuations
from continuations import errors

# `continuations.aio` has other functions under the names of the top.
MODULES = tuple(
    import_module(f"continuations.{name}")
    for name in (
        "attachments",
        "events",
        "guardrails",
        "hooks",
        "past",
        "prices",
        "results",
        "retention",
        "streams",
        "threads",
        "tools",
    )
)
MAX_AT_THE_TOP = 45


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module."""
    names: list[str] = module.__all__
    return [name for name in names if not name.startswith("_")]


def public_values() -> dict[str, Any]:
    """Return every public name with its value."""
    values = {
        name: getattr(module, name)
        for module in (continuations, *MODULES)
        for name in names_of(module)
    }
    return {**error_classes(), **values}


def error_classes() -> dict[str, type[BaseException]]:
    """Return every public error."""
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value)
        and issubclass(value, BaseException)
        and not name.startswith("_")
        and value.__module__ == errors.__name__
    }
