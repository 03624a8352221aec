"""A value class behaves as a frozen dataclass with slots of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from continuations.value_class import dataclass, replace


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 2
    label: str = field(default="", compare=False)
    hidden: str = field(default="", repr=False)
    tags: list[str] = field(default_factory=list[str], compare=False)
    keys: dict[str, int] = field(
        default_factory=dict[str, int], init=False, compare=False, repr=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    """A point."""

    x: int
    y: int = 2
    label: str = field(default="", compare=False)
    hidden: str = field(default="", repr=False)
    tags: list[str] = field(default_factory=list[str], compare=False)
    keys: dict[str, int] = field(
        default_factory=dict[str, int], init=False, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A value with arguments by name."""

    second: int = 2
    first: int

    def __post_init__(self) -> None:
        if self.first < 0:
            msg = "first is negative"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Single:  # noqa: PLW1641 - the decorator adds __hash__
    """A value with methods of its own."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Single)

    def __repr__(self) -> str:
        return "<single>"


@dataclass(frozen=True, slots=True)
class Empty:
    """A value without fields."""


@dataclass(frozen=True, slots=True)
class Number:
    """A value with one field."""

    value: float


def test_signature_is_that_of_a_standard_dataclass() -> None:
    expected = inspect.signature(StandardPoint).parameters

    parameters = inspect.signature(Point).parameters

    assert [*parameters] == [*expected] == ["x", "y", "label", "hidden", "tags"]
    for name, parameter in parameters.items():
        assert parameter.kind is expected[name].kind
        assert parameter.annotation == expected[name].annotation
    assert parameters["y"].default == 2


def test_repr_and_equality_follow_the_fields() -> None:
    point = Point(1, label="a", hidden="b")

    assert repr(point) == repr(StandardPoint(1, label="a", hidden="b"))[8:]
    assert point == Point(1, 2, "another", "b")
    assert hash(point) == hash(Point(1, 2, "another", "b"))
    assert point != Point(1, 3, "a", "b")
    other: object = StandardPoint(1, label="a", hidden="b")
    assert point != other
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert Number(1) != Number(2)
    assert Number(1) == Number(1)
    assert hash(Number(1)) == hash(Number(1))


def test_methods_of_the_class_are_kept() -> None:
    assert repr(Single(1)) == "<single>"
    assert Single(1) == Single(2)
    assert hash(Single(1)) == hash(Single(1))


def test_each_value_has_its_own_default_list() -> None:
    first, second = Point(1), Point(1)

    first.tags.append("x")
    first.keys["x"] = 1

    assert second.tags == []
    assert second.keys == {}
    assert Point(1, tags=["y"]).tags == ["y"]


def test_fields_cannot_change_and_others_cannot_be_added() -> None:
    point: Any = Point(1)

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.z = 2
    assert not hasattr(point, "__dict__")


def test_arguments_by_name_are_in_any_order_and_checked() -> None:
    assert dataclasses.asdict(Named(first=1)) == {"second": 2, "first": 1}
    make: Any = Named
    with pytest.raises(TypeError):
        make(1, 2)
    with pytest.raises(TypeError, match="first"):
        make()
    with pytest.raises(ValueError, match="negative"):
        Named(first=-1)


def test_value_is_copied_replaced_pickled_and_matched() -> None:
    point = Point(1, tags=["a"])
    point.keys["k"] = 1

    for same in (
        copy.copy(point),
        copy.deepcopy(point),
        pickle.loads(pickle.dumps(point)),  # noqa: S301 - made here
    ):
        assert same == point
        assert (same.tags, same.keys) == (["a"], {"k": 1})
    assert dataclasses.replace(point, y=5) == Point(1, 5)
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_init_is_compiled_when_it_is_used_often() -> None:
    """A value that is made a few times takes less time than the compiler."""

    @dataclass(frozen=True, slots=True)
    class Late:
        value: int
        label: str = "x"

        def __post_init__(self) -> None:
            made.append(self.value)

    made: list[int] = []
    assert type(vars(Late)["__init__"]).__name__ == "_LazyInit"
    assert (Late(1).value, Late(1).label) == (1, "x")
    assert (Late(1, "y").label, Late(label="z", value=1).label) == ("y", "z")
    assert [1, 1, 1, 1] == made
    assert type(vars(Late)["__init__"]).__name__ == "_LazyInit"

    for _ in range(100):
        assert Late(2).value == 2

    assert inspect.isfunction(vars(Late)["__init__"])
    assert 104 == len(made)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), {}),
        ((1, "x", "z"), {}),
        ((1,), {"value": 1}),
        ((1,), {"other": 1}),
        ((), {"label": "y", "other": 1}),
    ],
)
def test_first_value_with_wrong_arguments_raises_the_usual_error(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    @dataclass(frozen=True, slots=True)
    class Late:
        value: int
        label: str = "x"

    @dataclasses.dataclass(frozen=True, slots=True)
    class Standard:
        value: int
        label: str = "x"

    Standard.__init__.__qualname__ = Late.__qualname__ + ".__init__"
    with pytest.raises(TypeError) as expected:
        Standard(*arguments, **named)
    with pytest.raises(TypeError) as raised:
        Late(*arguments, **named)

    assert str(expected.value) == str(raised.value)


def test_options_of_fields_count_from_the_first_value() -> None:
    @dataclass(frozen=True, slots=True)
    class Listed:
        tags: list[str] = field(default_factory=list[str])
        hidden: str = field(default="h", repr=False)

    first = Listed()
    first.tags.append("x")

    assert type(vars(Listed)["__init__"]).__name__ == "_LazyInit"
    assert (["x"], [], "h") == (first.tags, Listed().tags, first.hidden)
    assert repr(first).endswith("Listed(tags=['x'])")
    assert ["y"] == Listed(tags=["y"]).tags


def test_post_init_may_set_a_field_without_a_default() -> None:
    @dataclass(frozen=True, slots=True)
    class Doubled:
        value: int
        double: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.value)

    assert (2, 4) == (Doubled(1).double, replace(Doubled(1), value=2).double)


def test_base_class_with_fields_keeps_them() -> None:
    @dataclass(frozen=True, slots=True)
    class Labelled(Number):
        name: str = "x"

    assert ["value", "name"] == [field.name for field in dataclasses.fields(Labelled)]
    assert repr(Labelled(1)).endswith("Labelled(value=1, name='x')")
    assert (Labelled(1), Labelled(2)) == (Labelled(1, "x"), Labelled(value=2))
    assert Labelled(1) != Number(1)


def test_other_kinds_of_dataclass_are_refused() -> None:
    make: Any = dataclass
    for options in (
        {},
        {"frozen": True, "eq": False},
        {"frozen": True, "slots": False},
    ):
        with pytest.raises(TypeError, match="frozen or have eq=False"):
            make(**{"slots": True, **options})


@dataclass(slots=True, eq=False)
class Service:
    """A service: it may change, and is equal to nothing else."""

    store: str
    limit: int = 3
    names: list[str] = field(default_factory=list[str], kw_only=True)
    made: str = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Make the rest of its parts."""
        self.made = f"of {self.store}"


def test_service_may_change_and_equals_only_itself() -> None:
    """The first ones without a compiled `__init__`, and the later ones with it."""
    for number in range(40):
        service = Service("s", names=["x"]) if number % 2 else Service("s")
        service.count += 1
        assert ("of s", 1, 3) == (service.made, service.count, service.limit)
        assert (["x"] if number % 2 else []) == service.names
        assert service != Service("s")
        assert hash(service) == hash(service)
        with pytest.raises(AttributeError):
            service.other = 1  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
    make: Any = Service
    for arguments, named in ((("s", 1, ["x"]), {}), (("s",), {"made": "x"}), ((), {})):
        with pytest.raises(TypeError):
            make(*arguments, **named)


@pytest.mark.parametrize(
    ("arguments", "named"), [(("s", 1, ["x"]), {}), (("s",), {"made": "x"}), ((), {})]
)
def test_first_service_with_wrong_arguments_raises_the_usual_error(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    @dataclass(slots=True, eq=False)
    class Fresh:
        store: str
        limit: int = 3
        names: list[str] = field(default_factory=list[str], kw_only=True)
        made: str = field(init=False)

    make: Any = Fresh
    with pytest.raises(TypeError, match="argument"):
        make(*arguments, **named)


def test_replace_returns_the_same_as_the_standard_one() -> None:
    """The fields that are not named keep their values, without a look at each field."""
    point = Point(1, label="a", tags=["x"])
    all_changes: tuple[dict[str, Any], ...]
    all_changes = ({}, {"x": 3}, {"label": "b", "tags": ["y"]})
    for changes in all_changes:
        expected = dataclasses.replace(point, **changes)
        copied = replace(point, **changes)
        assert type(copied) is Point
        assert [getattr(copied, f.name) for f in dataclasses.fields(Point)] == [
            getattr(expected, f.name) for f in dataclasses.fields(Point)
        ]
    with pytest.raises(ValueError, match="negative"):
        replace(Named(first=1), first=-1)
    with pytest.raises(TypeError):
        replace(point, unknown=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    assert 7 == replace(Single(1), value=7).value


def test_method_of_a_subclass_stands_for_a_field() -> None:
    """From the first object on, and also after the `__init__` was compiled."""

    @dataclass(frozen=True, slots=True)
    class Base:
        act: object = None
        other: int = 0

    class WithMethod(Base):
        def act(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            return f"acts {self.other}"

    for number in range(40):
        assert f"acts {number}" == WithMethod(other=number).act()


def test_signature_of_a_class_that_was_not_used_yet() -> None:
    """Python 3.13 asks the method of a class with the class as the instance."""

    @dataclass(frozen=True, slots=True)
    class Unused:
        x: int
        y: int = 2

    method = inspect.getattr_static(Unused, "__init__").__get__(Unused)

    assert ["x", "y"] == [*inspect.signature(method).parameters]
    assert ["x", "y"] == [*inspect.signature(Unused).parameters]
