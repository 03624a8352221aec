"""Check the body of an agent class: a name in it must have the effect it seems to."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from continuations.authoring.callables import OfClass
from continuations.authoring.keyword_options import FOREIGN_OPTIONS
from continuations.authoring.tool_protocol import is_tool
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Attributes of the objects of `Agent` that its class does not show.
_RESERVED = frozenset({"suspend_conditions", "_policy", "_made_by_methods"})
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
                msg = (
                    f"{self._label}: the option {name} cannot be a property, because "
                    f"Agent sets it once. Pass it in __init__: "
                    f"super().__init__({name}=...)."
                )
                raise InvalidInput(msg)
            return
        if name in _RESERVED or self._is_of_agents(name):
            msg = (
                f"{self._label}: {name} is an attribute of every Agent and cannot "
                "be replaced. Choose another name."
            )
            raise InvalidInput(msg)
        is_nested = isinstance(value, type) and value.__name__ == name
        if name.startswith("_") or isinstance(value, OfClass) or is_nested:
            return
        similarity = _SIMILAR_FUNCTION if inspect.isroutine(value) else _SIMILAR_VALUE
        foreign = FOREIGN_OPTIONS.get(name)
        if foreign is not None and not inspect.isroutine(value):
            msg = f"{self._label}: there is no option {name!r}. {foreign}"
            raise InvalidInput(msg)
        close = difflib.get_close_matches(
            name, (*self.options, "name"), n=1, cutoff=similarity
        )
        if close and not any(name in vars(each) for each in self.cls.__mro__[1:]):
            msg = (
                f"{self._label}: {name} is not an option of Agent, so it has no "
                f"effect. Write {close[0]}; or _{name} for an attribute of your own."
            )
            raise InvalidInput(msg)

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
                    msg = (
                        f"{self._label}: {name} of {each.__name__} has no effect, "
                        "because Agent comes first. Write "
                        f"{self._label}({each.__name__}, Agent)."
                    )
                    raise InvalidInput(msg)


def _check_override(cls: type[Any], name: str, value: object) -> None:
    """Raise `InvalidInput` for a name that hides an inherited tool; `None` may."""
    parents = [each for each in cls.__mro__[1:] if name in vars(each)]
    if not parents or value is None or is_tool(_function_of(value)):
        return
    inherited = vars(parents[0])[name]
    if isinstance(inherited, OfClass) and type(value) is not type(inherited):
        kind = inherited.kind
        msg = (
            f"class {cls.__name__}: {name} replaces the {kind} {name} of "
            f"{parents[0].__name__} without @{kind}, so the agent would not have it. "
            f"Put @{kind} above it, or write {name} = None to remove the {kind}."
        )
        raise InvalidInput(msg)


def _check_ambiguous(cls: type[Any]) -> None:
    """Raise `InvalidInput` if two parents have one tool, and no body chooses."""
    for each in cls.__mro__[1:]:
        for name, value in vars(each).items():
            if not isinstance(value, OfClass):
                continue
            first = next(c for c in cls.__mro__ if name in vars(c))
            if not issubclass(first, each):
                msg = (
                    f"class {cls.__name__}: {first.__name__} and {each.__name__} both "
                    f"have {name}. Choose one in the body: "
                    f"{name} = {first.__name__}.{name}."
                )
                raise InvalidInput(msg)


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
            msg = (
                f"class {cls.__name__}: the tool {name} does not take self, so the "
                f"agent would not have it. Declare def {name}(self, ...), or add it to "
                f"the list: tools = [{name}]."
            )
            raise InvalidInput(msg)
