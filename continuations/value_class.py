"""`dataclass` for values, cheap to declare: a cold process declares more than 100.

`dataclasses.dataclass` looks at each field of a class and compiles up to six methods
for it at import, which took a third of a cold resume. Here, classes share their other
methods, `__init__` is compiled when it is used often, and the attributes for the module
`dataclasses` are made when they are asked for. Type checkers see
`dataclasses.dataclass`; `dataclasses.fields`, `replace` and `is_dataclass` work.
`replace` of this module takes a third of the time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

__all__ = ["NamedOnly", "dataclass", "replace"]

# `attrgetter` returns a tuple for at least two names.
_MIN_TUPLE = 2
_FIELD: type = Field
# About as many calls of `_LazyInit` take the time to compile an `__init__`.
_CALLS_UNTIL_COMPILED = 32
# The attributes that `dataclasses` and `match` read.
_STANDARD_NAMES = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")


def _value_class(
    *,
    slots: Literal[True],
    frozen: bool = False,
    eq: bool = True,
    kw_only: bool = False,
) -> Callable[[type[Any]], type[Any]]:
    """Return the decorator of a dataclass with slots: of a value, or of a service.

    A value is frozen. Two services are never equal.
    """
    if not slots or frozen != eq:
        raise TypeError(
            "value_class.dataclass() makes classes with slots only, and they are "
            "frozen or have eq=False."
        )

    def decorate(declared: type[Any]) -> type[Any]:
        names = [
            name
            for name, annotation in declared.__annotations__.items()
            if not str(annotation).startswith("ClassVar")
        ]
        own = dict(vars(declared))
        defaults = {name: own.pop(name) for name in names if name in own}
        if frozen:
            # A class that defines __eq__ alone has None as __hash__.
            own["__hash__"] = own.get("__hash__") or _hash_of
        standard = {
            name: _Standard(declared, kw_only=kw_only) for name in _STANDARD_NAMES
        }
        made = _class_like(
            declared,
            {
                "__slots__": tuple(names),
                "__init__": _LazyInit(names, defaults, kw_only=kw_only),
                **standard,
                **(_VALUE_METHODS if frozen else _SERVICE_METHODS),
                **own,
            },
        )
        if declared.__bases__ == (object,):
            _declared[made] = {name: defaults.get(name) for name in names}
        return made

    return decorate


# The fields of the classes without another base, with their defaults: the list of
# `dataclasses.fields` takes a fifth of a millisecond to make.
_declared: dict[type[Any], dict[str, Any]] = {}


def _names_of(cls: Any, option: Literal["init", "compare"]) -> list[str]:
    """Return the names of the fields with an option."""
    if cls not in _declared:
        return [each.name for each in dataclasses.fields(cls) if getattr(each, option)]
    return [
        name
        for name, default in _declared[cls].items()
        if type(default) is not _FIELD or getattr(default, option)
    ]


def _class_like(declared: type[Any], attributes: dict[str, Any]) -> type[Any]:
    """Return a new class with the name and the bases of another one."""
    for name in ("__dict__", "__weakref__"):
        attributes.pop(name, None)
    attributes["__qualname__"] = declared.__qualname__
    make_class: Any = type(declared)
    made: type[Any] = make_class(declared.__name__, declared.__bases__, attributes)
    return made


def _replace(value: Any, /, **changes: Any) -> Any:
    """Return a copy of a value with other values of some fields."""
    cls: Any = value.__class__
    read = _readers.get(cls)
    if read is None:
        read = _readers[cls] = _named_reader(_names_of(cls, "init"))
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


class _Standard:
    """An attribute of a standard dataclass, which is made on first use."""

    def __init__(self, declared: type[Any], *, kw_only: bool) -> None:
        self._declared = declared
        self._kw_only = kw_only

    def __set_name__(self, owner: type, name: str) -> None:
        self._cls, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # A copy, because `dataclasses` removes the defaults of a class, and several
        # threads may be here. It makes a missing text from a signature, slowly.
        copy = _class_like(self._declared, {**vars(self._declared), "__doc__": "-"})
        standard = dataclasses.dataclass(
            init=False, repr=False, eq=False, kw_only=self._kw_only
        )(copy)
        attributes: dict[str, Any] = {
            name: vars(standard)[name] for name in _STANDARD_NAMES
        }
        for name, value in attributes.items():
            setattr(self._cls, name, value)
        return attributes[self._name]


class _InitSignature:
    """The signature of a class is that of its `__init__`."""

    def __get__(self, _value: object, owner: type) -> object:
        from inspect import signature  # noqa: PLC0415 - for tools that show code

        init = signature(getattr(owner, "__init__"))  # noqa: B009 - of the class itself
        return init.replace(parameters=list(init.parameters.values())[1:])


class NamedOnly:
    """A value of an application whose arguments have names, with an error that helps.

    `Deny("kim")` does not say whether `"kim"` is the person or the reason.
    """

    __slots__ = ()

    if not TYPE_CHECKING:
        __signature__ = _InitSignature()

        def __new__(cls, *unnamed: object, **_named: object) -> Self:
            """Name the remedy; type checkers see the mistake by themselves."""
            if unnamed:
                name = cls.__name__
                raise TypeError(
                    f"{name}() takes arguments by name only, got {len(unnamed)} "
                    "without a name. "
                    f'Write {name}(by="kim", reason="...").'
                )
            return object.__new__(cls)


def _is_named_only(options: dict[str, Any], name: str, kw_only: bool) -> bool:
    """Return whether a field of a class is given by name only."""
    own = options[name].kw_only if name in options else MISSING
    return kw_only if own is MISSING else bool(own)


class _LazyInit:
    """The `__init__` of a class, which compiles itself when it is used often."""

    def __init__(
        self, names: list[str], defaults: dict[str, Any], *, kw_only: bool
    ) -> None:
        self._names = names
        self._defaults = defaults
        self._with_options = {
            name for name, default in defaults.items() if isinstance(default, Field)
        }
        options = {name: defaults[name] for name in self._with_options}
        self._unnamed = {name for name, each in options.items() if not each.init}
        self._positional = [
            name
            for name in names
            if name not in self._unnamed and not _is_named_only(options, name, kw_only)
        ]
        self._calls_left = _CALLS_UNTIL_COMPILED

    def __set_name__(self, owner: type, _name: str) -> None:
        self._cls = owner
        if owner.__bases__ != (object,):
            self._calls_left = 0

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self._calls_left -= 1
        # `inspect` of Python 3.13 passes the class as the instance.
        if self._calls_left < 0 or instance is None or isinstance(instance, type):
            return self._compiled().__get__(instance, owner)
        return partial(self._initialize, instance)

    def _initialize(self, instance: Any, /, *arguments: Any, **named: Any) -> None:
        """Do what the compiled method does."""
        given = {**dict(zip(self._positional, arguments, strict=False)), **named}
        is_each_given_once = len(given) == len(arguments) + len(named)
        values: dict[str, Any] = {}
        missing: list[str] = []
        for name in self._names:
            if name in given and name not in self._unnamed:
                values[name] = given.pop(name)
            elif (value := self._default(name)) is not MISSING:
                values[name] = value
            elif name not in self._unnamed:  # `__post_init__` sets the others
                missing.append(name)
        if missing or given or not is_each_given_once:
            self._compiled()(instance, *arguments, **named)  # raises TypeError
        # By the slots: a subclass may have a method with the name of a field.
        slots = vars(self._cls)
        for name, value in values.items():
            slots[name].__set__(instance, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()

    def _default(self, name: str) -> Any:
        default = self._defaults.get(name, MISSING)
        if name not in self._with_options:
            return default
        make = default.default_factory
        return default.default if make is MISSING else make()

    def _compiled(self) -> Any:
        method = _compiled_init(self._cls)
        self._cls.__init__ = method  # type: ignore[misc]
        return method


def _compiled_init(cls: type) -> Any:
    known: dict[str, Any] = {"_missing": MISSING}
    positional = ["self"]
    named: list[str] = []
    body = ["pass"]
    fields = dataclasses.fields(cls)
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
        elif f"_make_{name}" in known:
            value = f"_make_{name}()"
        elif f"_default_{name}" in known:
            value = f"_default_{name}"
        else:
            continue  # `__post_init__` sets it
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


def _set_attribute(_: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete_attribute(_: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(value: Any) -> list[object]:
    return [getattr(value, field.name) for field in dataclasses.fields(value)]


def _set_state(value: Any, state: list[object]) -> None:
    for field, field_value in zip(dataclasses.fields(value), state, strict=True):
        object.__setattr__(value, field.name, field_value)


def _represent(value: Any) -> str:
    shown = [field.name for field in dataclasses.fields(value) if field.repr]
    items = ", ".join(f"{name}={getattr(value, name)!r}" for name in shown)
    return f"{type(value).__qualname__}({items})"


def _is_equal(value: object, other: object) -> object:
    if type(other) is not type(value):
        return NotImplemented
    read = _compared[type(value)]
    return read(value) == read(other)


def _hash_of(value: object) -> int:
    return hash(_compared[type(value)](value))


class _ComparedFields(dict[type, "Callable[[object], object]"]):
    """How to read the fields of a class that count for equality, by class."""

    def __missing__(self, cls: Any) -> Callable[[object], object]:
        names = _names_of(cls, "compare")
        read = self[cls] = attrgetter(*names) if names else lambda _: ()
        return read


_compared = _ComparedFields()
_SERVICE_METHODS = {"__repr__": _represent}
_VALUE_METHODS = {
    **_SERVICE_METHODS,
    "__setattr__": _set_attribute,
    "__delattr__": _delete_attribute,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
    "__eq__": _is_equal,
    "__replace__": _replace,
}
