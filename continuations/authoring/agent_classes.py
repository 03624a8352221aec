"""Agents as classes: the body of a subclass of `Agent` has the options as names."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from continuations.authoring import agent_body
from continuations.authoring.agent_declaration import OPTIONS
from continuations.authoring.tool import MethodTool, bound

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def declared_name(agent: Any) -> str:
    """Return the name of an agent of a class: `SupportDesk` is `support_desk`."""
    return agent.name or _WORD_START.sub("_", type(agent).__name__).lower()


def declared_options(agent: Any, base: type[Any]) -> dict[str, Any]:
    """Return the options that the class of an agent declares, and its parents.

    A function that takes `self` is a method. The docstring is the instructions. An
    attribute that `__init__` set before `super().__init__()` wins over the body.
    """
    options: dict[str, Any] = {}
    for each in _subclasses(agent, base):
        names = vars(each)
        options |= {o: bound(names[o], agent) for o in OPTIONS if o in names}
        if "instructions" not in names and names.get("__doc__"):
            options["instructions"] = inspect.cleandoc(names["__doc__"])
    return options | {o: vars(agent)[o] for o in OPTIONS if o in vars(agent)}


def method_tools(agent: Any, base: type[Any], listed: Sequence[Any]) -> list[Any]:
    """Return the tools that the class of an agent declares as methods, in order."""
    names: dict[str, object] = {}
    for each in _subclasses(agent, base):
        names |= vars(each)
    agent_body.check_lost_tools(agent.__class__, names, listed)
    return [
        getattr(agent, name)
        for name, value in names.items()
        if isinstance(value, MethodTool)
    ]


def _subclasses(agent: Any, base: type[Any]) -> Sequence[type[Any]]:
    """Return the classes of an agent below `base`, the oldest first."""
    classes = type(agent).__mro__
    return classes[: classes.index(base)][::-1]
