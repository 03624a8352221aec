"""Find the readings in the types of a tool's parameters.

A reading may stand at a parameter, at a field of a pydantic model, dataclass or typed
dictionary, and at the items of a list or mapping, at any depth.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable as _Iterable
from collections.abc import Mapping as _Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Union,
    get_args,
    get_origin,
)
from typing import get_type_hints as hints_of

from continuations.authoring.readings import Money, Secret
from continuations.core.secret_arguments import ANY_ITEM, path_of
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations.authoring.readings import Reading

_Steps = tuple[str, ...]


def readings_of(types_by_name: Mapping[str, Any]) -> dict[str, Reading]:
    """Return the readings in types, by their paths; raises `InvalidInput`."""
    found: dict[str, Reading] = {}
    for name, type_ in types_by_name.items():
        for steps, reading in _Search().find(type_, (name,)):
            found[path_of(steps)] = reading
    return found


def without_readings(type_: Any) -> tuple[Any, Reading | None]:
    """Return an annotated type without its reading, and the reading.

    Any other annotation is returned as it is.
    """
    if get_origin(type_) is Annotated:
        inner, *metadata = get_args(type_)
        if len(metadata) == 1 and isinstance(metadata[0], Money | Secret):
            return inner, metadata[0]
    return type_, None


def bare_type(type_: Any) -> Any:
    """Return a type without its annotations."""
    return get_args(type_)[0] if get_origin(type_) is Annotated else type_


def is_secret(type_: Any) -> bool:
    """Return whether a type is annotated with `Secret()`, or contains such a type."""
    found = readings_of({"value": type_})
    return any(isinstance(each, Secret) for each in found.values())


def fields_of(type_: Any) -> dict[str, Any] | None:
    """Return the fields of a model, dataclass or typed dictionary by their JSON names.

    Returns `None` for another type, and if its annotations cannot be read yet.
    """
    try:
        return _fields(type_)
    except Exception:  # noqa: BLE001 - an annotation may raise anything
        return None


def _fields(type_: Any) -> dict[str, Any] | None:
    if not isinstance(type_, type):
        return None
    cls: Any = type_
    model_fields: dict[str, Any] | None = getattr(cls, "model_fields", None)
    if model_fields is not None:
        return {
            info.serialization_alias or info.alias or name: _annotated(info)
            for name, info in model_fields.items()
        }
    if dataclasses.is_dataclass(cls):
        hints = hints_of(cls, include_extras=True)
        return {each.name: hints[each.name] for each in dataclasses.fields(cls)}
    if hasattr(cls, "__required_keys__"):  # a typed dictionary
        return hints_of(cls, include_extras=True)
    return None


def _annotated(info: Any) -> Any:
    """Return the annotation of a pydantic field, with its metadata."""
    if not info.metadata:
        return info.annotation
    return Annotated[(info.annotation, *info.metadata)]


class _Search:
    """One walk through a type; it ends at a class that contains itself."""

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._recursive: set[Any] = set()

    def find(self, type_: Any, steps: _Steps) -> Iterator[tuple[_Steps, Reading]]:
        """Yield the readings of a type with the steps that lead to them."""
        type_ = getattr(type_, "__value__", type_)  # an alias made with `type`
        type_ = getattr(type_, "__supertype__", type_)  # a NewType
        origin = get_origin(type_)
        if origin is Annotated:
            inner, *metadata = get_args(type_)
            found = list(self._of_metadata(metadata, steps))
            yield from found
            if not any(isinstance(each, Secret) for _, each in found):
                yield from self.find(inner, steps)
        elif origin in {Union, types.UnionType}:
            for option in get_args(type_):
                yield from self.find(option, steps)
        elif origin is not None:
            yield from self._of_generic(type_, origin, steps)
        else:
            yield from self._of_class(type_, steps)

    def _of_metadata(
        self, metadata: list[Any], steps: _Steps
    ) -> Iterator[tuple[_Steps, Reading]]:
        for each in metadata:
            if isinstance(each, Money | Secret):
                yield steps, each
            elif each is Secret or each is Money:
                name = each.__name__
                msg = (
                    f"the parameter {steps[0]} is annotated with the class {name}. "
                    f"Write {name}{'()' if each is Secret else '(...)'}."
                )
                raise InvalidInput(msg)

    def _of_generic(
        self, type_: Any, origin: Any, steps: _Steps
    ) -> Iterator[tuple[_Steps, Reading]]:
        if not isinstance(origin, type):
            # Required[...], Literal[...] and the like
            for inner in get_args(type_):
                yield from self.find(inner, steps)
        elif issubclass(origin, _Mapping):
            yield from self.find(get_args(type_)[-1], (*steps, ANY_ITEM))
        elif issubclass(origin, _Iterable):
            for inner in get_args(type_):
                yield from self.find(inner, (*steps, ANY_ITEM))
        else:
            yield from self._of_class(origin, steps)

    def _of_class(self, type_: Any, steps: _Steps) -> Iterator[tuple[_Steps, Reading]]:
        if type_ in self._open:
            self._recursive.add(type_)
            return
        fields = fields_of(type_) if isinstance(type_, type) else None
        if fields is None:
            return
        self._open.append(type_)
        found = [
            each
            for name, inner in fields.items()
            for each in self.find(inner, (*steps, name))
        ]
        self._open.pop()
        if found and type_ in self._recursive:
            # The places in a type that contains itself have no end.
            msg = (
                f"the parameter {steps[0]} has readings in {type_.__name__}, which "
                "contains itself. Annotate the whole parameter with Secret()."
            )
            raise InvalidInput(msg)
        yield from found
