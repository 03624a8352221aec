"""Agents as classes: the body of a subclass of `Agent` has the options as names.

A name in the body must have the effect that it seems to have, so the body is checked.
"""

from __future__ import annotations

import difflib
import inspect
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.authoring.agent.agent_options import OPTIONS
from continuations.authoring.callables import OfClass
from continuations.authoring.keyword_options import FOREIGN_OPTIONS
from continuations.authoring.tool.tool import MethodTool, bound
from continuations.authoring.tool.tool_protocol import is_tool
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    check_lost_tools(agent.__class__, names, listed)
    return [
        getattr(agent, name)
        for name, value in names.items()
        if isinstance(value, MethodTool)
    ]


def _subclasses(agent: Any, base: type[Any]) -> Sequence[type[Any]]:
    """Return the classes of an agent below `base`, the oldest first."""
    classes = type(agent).__mro__
    return classes[: classes.index(base)][::-1]


# Attributes of the objects of `Agent` that its class does not show.
_RESERVED = frozenset(
    {"suspend_conditions", "_policy", "_made_by_methods", "_declared_agent"}
)
# A helper method may resemble an option, such as `approve`; a value rarely does.
_SIMILAR_VALUE, _SIMILAR_FUNCTION = 0.8, 0.9


@dataclass(frozen=True)
class BodyChecks:
    """Checks the body of a class.

    Attributes:
        cls: The class of an application.
        base: The class `Agent`.
        options: The names of its options.
    """

    cls: type[Any]
    base: type[Any]
    options: tuple[str, ...]

    @property
    def _label(self) -> str:
        return f"class {self.cls.__name__}"

    def check(self) -> None:
        """Raise `InvalidInput` for a name that would mislead the reader."""
        for name, value in vars(self.cls).items():
            if not (name.startswith("__") and name.endswith("__")):
                self._check_name(name, value)
                _check_override(self.cls, name, value)
        self._check_order()
        _check_ambiguous(self.cls)

    def _check_name(self, name: str, value: object) -> None:
        if name in (*self.options, "name"):
            if isinstance(value, OfClass):
                kind = value.kind
                msg = (
                    f"{self._label}: the {kind} {name} cannot have the name of an "
                    "option of Agent. Give the method another name"
                )
                hint = f', and pass @tool(name="{name}")' if kind == "tool" else ""
                raise InvalidInput(f"{msg}{hint}.")
            if isinstance(value, property | cached_property):
                raise InvalidInput(
                    f"{self._label}: the option {name} cannot be a property, because "
                    f"Agent sets it once. Pass it in __init__: "
                    f"super().__init__({name}=...)."
                )
            return
        if name in _RESERVED or self._is_of_agents(name):
            raise InvalidInput(
                f"{self._label}: {name} is an attribute of every Agent and cannot "
                "be replaced. Choose another name."
            )
        is_nested = isinstance(value, type) and value.__name__ == name
        if name.startswith("_") or isinstance(value, OfClass) or is_nested:
            return
        similarity = _SIMILAR_FUNCTION if inspect.isroutine(value) else _SIMILAR_VALUE
        foreign = FOREIGN_OPTIONS.get(name)
        if foreign is not None and not inspect.isroutine(value):
            raise InvalidInput(f"{self._label}: there is no option {name!r}. {foreign}")
        close = difflib.get_close_matches(
            name, (*self.options, "name"), n=1, cutoff=similarity
        )
        if close and not any(name in vars(each) for each in self.cls.__mro__[1:]):
            raise InvalidInput(
                f"{self._label}: {name} is not an option of Agent, so it has no "
                f"effect. Write {close[0]}; or _{name} for an attribute of your own."
            )

    def _is_of_agents(self, name: str) -> bool:
        """Return whether `Agent` has the name; `Generic` has names of its own."""
        own = (each for each in self.base.__mro__ if each.__module__ != "typing")
        return any(name in vars(each) for each in own)

    def _check_order(self) -> None:
        """Raise `InvalidInput` if a class behind `Agent` declares a hidden name."""
        classes = self.cls.__mro__
        for each in classes[classes.index(self.base) + 1 :]:
            if each in self.base.__mro__:
                continue
            for name, value in vars(each).items():
                if isinstance(value, OfClass) or name in self.options:
                    raise InvalidInput(
                        f"{self._label}: {name} of {each.__name__} has no effect, "
                        "because Agent comes first. Write "
                        f"{self._label}({each.__name__}, Agent)."
                    )


def _check_override(cls: type[Any], name: str, value: object) -> None:
    """Raise `InvalidInput` for a name that hides an inherited tool; `None` may."""
    parents = [each for each in cls.__mro__[1:] if name in vars(each)]
    if not parents or value is None or is_tool(_function_of(value)):
        return
    inherited = vars(parents[0])[name]
    if isinstance(inherited, OfClass) and type(value) is not type(inherited):
        kind = inherited.kind
        raise InvalidInput(
            f"class {cls.__name__}: {name} replaces the {kind} {name} of "
            f"{parents[0].__name__} without @{kind}, so the agent would not have it. "
            f"Put @{kind} above it, or write {name} = None to remove the {kind}."
        )


def _check_ambiguous(cls: type[Any]) -> None:
    """Raise `InvalidInput` if two parents have one tool, and no body chooses."""
    for each in cls.__mro__[1:]:
        for name, value in vars(each).items():
            if not isinstance(value, OfClass):
                continue
            first = next(c for c in cls.__mro__ if name in vars(c))
            if not issubclass(first, each):
                raise InvalidInput(
                    f"class {cls.__name__}: {first.__name__} and {each.__name__} both "
                    f"have {name}. Choose one in the body: "
                    f"{name} = {first.__name__}.{name}."
                )


def _function_of(value: object) -> object:
    """Return the value inside a `staticmethod` or `classmethod`."""
    return getattr(value, "__func__", value)


def check_lost_tools(
    cls: type[Any], names: Mapping[str, object], listed: Sequence[Any]
) -> None:
    """Raise `InvalidInput` for a tool of a body that is no method and is not listed."""
    for name, value in names.items():
        lost = _function_of(value)
        if isinstance(lost, OfClass) or not is_tool(lost):
            continue
        if not any(each is lost for each in listed):
            raise InvalidInput(
                f"class {cls.__name__}: the tool {name} does not take self, so the "
                f"agent would not have it. Declare def {name}(self, ...), or add it to "
                f"the list: tools = [{name}]."
            )
