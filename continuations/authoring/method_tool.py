"""Tools that are methods: `@tool` in the body of a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from continuations.authoring import callables
from continuations.authoring.waiting_tool import WaitingTool, enclosing_locals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType


F = TypeVar("F", bound="Callable[..., Any]")


def bound(value: Any, instance: object) -> Any:
    """Return a value of a class body as it is seen from an object."""
    return value.__get__(instance) if callables.is_method(value) else value


def made_for(instance: object) -> dict[Any, Any]:
    """Return what descriptors made for an object; a copy begins with nothing."""
    own: dict[str, Any] = vars(instance) if hasattr(instance, "__dict__") else {}
    owner, made = own.get("_made_by_methods", (None, None))
    if owner is not instance:
        made = dict[Any, Any]()
        own["_made_by_methods"] = (instance, made)
    return cast("dict[Any, Any]", made)


class MethodTool(callables.OfClass):
    """A tool that is declared as a method; each object of the class has its own.

    `thing.method` is the `Tool` of the object. Options that are functions of the class
    body, such as `verify`, are methods too if they take `self`.
    """

    kind = "tool"

    def __init__(
        self,
        function: Callable[..., Any],
        tool_type: Callable[..., WaitingTool],
        options: Mapping[str, Any],
        frame: FrameType | None,
    ) -> None:
        self._function = function
        self._tool_type = tool_type
        self._options = {**options, "scope": class_scope(function, frame)}
        self._on_answer: Callable[..., Any] | None = None
        self._on_cancel: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__

    def __repr__(self) -> str:
        return f"<tool method {self.__qualname__}>"

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        made_here = made_for(instance)
        if self not in made_here:
            made_here[self] = self._tool_of(instance)
        return made_here[self]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method of the class, as an override does: `Parent.method(self)`."""
        return self._function(*args, **kwargs)

    def on_answer(self, function: F) -> F:
        """Declare the method that gets the answer; see `Tool.on_answer`."""
        self._on_answer = function
        return function

    def on_cancel(self, function: F) -> F:
        """Declare the method that stops a job; see `Tool.on_cancel`."""
        self._on_cancel = function
        return function

    def _tool_of(self, instance: object) -> WaitingTool:
        options = {k: bound(v, instance) for k, v in self._options.items()}
        tool = self._tool_type(bound(self._function, instance), **options)
        if self._on_answer is not None:
            tool.on_answer(bound(self._on_answer, instance))
        if self._on_cancel is not None:
            tool.on_cancel(bound(self._on_cancel, instance))
        return tool


def class_scope(
    function: Callable[..., Any], frame: FrameType | None
) -> Mapping[str, Any] | None:
    """Return the local names of the body of a class, and of the function around it."""
    names = enclosing_locals(function, frame)
    if names is None or frame is None:
        return None
    return {**(enclosing_locals(function, frame.f_back) or {}), **names}
