"""`dataclass` for values, cheap to declare: a cold process declares more than 100.

`dataclasses.dataclass` compiles up to six methods for each class at import, which took
a third of a cold resume. Here `__init__` is compiled on first use, and the other
methods are closures. Type checkers see `dataclasses.dataclass`; `dataclasses.fields`,
`replace` and `is_dataclass` work. `replace` of this module takes a third of the time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["dataclass", "replace"]

# `attrgetter` returns a tuple for at least two names.
_MIN_TUPLE = 2
_Fields: TypeAlias = tuple[Field[Any], ...]


def _value_class(
    *, frozen: Literal[True], slots: Literal[True], kw_only: bool = False
) -> Callable[[type[Any]], type[Any]]:
    """Return the decorator of a frozen dataclass with slots."""
    if not (frozen and slots):
        msg = "value_class.dataclass() makes frozen classes with slots only."
        raise TypeError(msg)

    def decorate(declared: type[Any]) -> type[Any]:
        # Without one, `dataclasses` makes it from a signature, in a millisecond.
        declared.__doc__ = declared.__doc__ or declared.__name__
        cls: type[Any] = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=True, kw_only=kw_only
        )(declared)
        fields = dataclasses.fields(cls)
        methods = {
            "__init__": _LazyInit(cls, fields),
            **_frozen_methods(fields),
            **_value_methods(fields),
        }
        for name, method in methods.items():
            # A class that defines __eq__ alone has None as __hash__.
            if vars(cls).get(name) is None:
                setattr(cls, name, method)
        return cls

    return decorate


def _replace(value: Any, /, **changes: Any) -> Any:
    """Return a copy of a value with other values of some fields."""
    cls: Any = value.__class__
    read = _readers.get(cls)
    if read is None:
        names = [field.name for field in dataclasses.fields(value) if field.init]
        read = _readers[cls] = _named_reader(names)
    return cls(**{**read(value), **changes})


# How to read the fields of a class by name; `dataclasses.replace` looks at each field.
_readers: dict[type[Any], Callable[[object], dict[str, Any]]] = {}


def _named_reader(names: list[str]) -> Callable[[object], dict[str, Any]]:
    """Return a function that returns the values of some fields by name."""
    if len(names) < _MIN_TUPLE:
        return lambda value: {name: getattr(value, name) for name in names}
    read = attrgetter(*names)
    return lambda value: dict(zip(names, read(value), strict=True))


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    dataclass, replace = _value_class, _replace


class _LazyInit:
    """The `__init__` of a class, which replaces itself on first use."""

    def __init__(self, cls: type, fields: _Fields) -> None:
        self._cls = cls
        self._fields = fields

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = _compiled_init(self._cls, self._fields)
        self._cls.__init__ = method  # type: ignore[misc]
        return method.__get__(instance, owner)


def _compiled_init(cls: type, fields: _Fields) -> Any:
    known: dict[str, Any] = {"_missing": MISSING}
    positional = ["self"]
    named: list[str] = []
    body = ["pass"]
    for field in fields:
        name = field.name
        parameter = value = name
        if field.default is not MISSING:
            known[f"_default_{name}"] = field.default
            parameter += f"=_default_{name}"
        elif field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameter += "=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        if field.init:
            (named if field.kw_only else positional).append(parameter)
        else:
            value = value.partition(" if ")[0] if value != name else f"_default_{name}"
        # The setter of the slot takes half of the time of `object.__setattr__`.
        known[f"_set_{name}"] = getattr(cls, name).__set__
        body.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *named] if named else [])])
    made: dict[str, Any] = {}
    # As in `dataclasses`: the source has only names of fields.
    exec(f"def __init__({parameters}):\n " + "\n ".join(body), known, made)  # noqa: S102
    method = made["__init__"]
    method.__module__ = cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__annotations__ = {each.name: each.type for each in fields if each.init}
    return method


def _frozen_methods(fields: _Fields) -> dict[str, Any]:
    names = tuple(field.name for field in fields)

    def set_attribute(_: object, name: str, _value: object) -> None:
        msg = f"cannot assign to field {name!r}"
        raise FrozenInstanceError(msg)

    def delete_attribute(_: object, name: str) -> None:
        msg = f"cannot delete field {name!r}"
        raise FrozenInstanceError(msg)

    def get_state(value: object) -> list[object]:
        return [getattr(value, name) for name in names]

    def set_state(value: object, state: list[object]) -> None:
        for name, field_value in zip(names, state, strict=True):
            object.__setattr__(value, name, field_value)

    return {
        "__setattr__": set_attribute,
        "__delattr__": delete_attribute,
        "__getstate__": get_state,
        "__setstate__": set_state,
    }


def _value_methods(fields: _Fields) -> dict[str, Any]:
    shown = [field.name for field in fields if field.repr]
    compared = _reader([field.name for field in fields if field.compare])

    def represent(value: object) -> str:
        items = ", ".join(f"{name}={getattr(value, name)!r}" for name in shown)
        return f"{type(value).__qualname__}({items})"

    def is_equal(value: object, other: object) -> object:
        if type(other) is not type(value):
            return NotImplemented
        return compared(value) == compared(other)

    def hash_of(value: object) -> int:
        return hash(compared(value))

    return {"__repr__": represent, "__eq__": is_equal, "__hash__": hash_of}


def _reader(names: list[str]) -> Callable[[object], object]:
    """Return a function that returns the values of some fields together."""
    return attrgetter(*names) if names else lambda _: ()
