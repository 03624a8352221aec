"""Functions that can be tools, their options, and how they are called."""

from __future__ import annotations

import datetime as dt
import functools
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from continuations.authoring.agent.agent import Agent
from continuations.authoring.tool.tool import Tool, tool
from continuations.errors import InvalidInput


def transfer(account: str, cents: int = 0) -> None:
    """Move money."""


class PlainClass:
    pass


def test_name_and_options_are_declared() -> None:
    @tool(name="pay", read_only=True, timeout=dt.timedelta(minutes=1), version="2")
    def function() -> None: ...

    options = (function.name, function.repeatable, function.timeout, function.version)
    assert ("pay", True, 60.0, "2") == options


@pytest.mark.parametrize(
    ("read_only", "idempotent", "expected"),
    [
        (False, False, False),
        (True, False, True),
        (False, True, True),
        (True, True, True),
    ],
)
def test_read_only_or_idempotent_tool_is_repeatable(
    *, read_only: bool, idempotent: bool, expected: bool
) -> None:
    def function() -> None: ...

    made = tool(function, read_only=read_only, idempotent=idempotent)
    assert expected == made.repeatable


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "10"])
def test_invalid_timeout_is_rejected(timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="tool transfer: timeout must be"):
        tool(transfer, timeout=timeout)


# Functions that cannot be tools -----------------------------------------------


def variadic(*names: str) -> None: ...
def keyword_variadic(**names: str) -> None: ...
def positional(name: str, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter"),
    [(variadic, "names"), (keyword_variadic, "names"), (positional, "name")],
)
def test_variadic_and_positional_parameters_are_rejected_at_declaration(
    function: Callable[..., None], parameter: str
) -> None:
    with pytest.raises(InvalidInput, match=f"parameter {parameter} "):
        tool(function)


def test_unannotated_parameter_is_rejected_at_declaration() -> None:
    def function(value: int) -> None: ...

    function.__annotations__ = {}
    with pytest.raises(InvalidInput, match="tool function: the parameter value has no"):
        tool(function)


@pytest.mark.parametrize(
    "thing", [functools.partial(transfer), PlainClass, 3, "transfer"]
)
def test_thing_that_is_not_a_function_is_rejected(thing: Any) -> None:
    with pytest.raises(InvalidInput, match="function"):
        tool(thing, name="thing")


@pytest.mark.parametrize("name", ["", "a b", "ä", "a" * 65, "a.b", "a\n"])
def test_invalid_tool_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput, match="a tool's name"):
        tool(transfer, name=name)


def test_lambda_is_rejected_with_its_remedy() -> None:
    with pytest.raises(InvalidInput, match=r"lambda has no name .* Write a function"):
        tool(lambda: None)


def test_tool_without_a_docstring_warns_where_it_is_declared() -> None:
    def undocumented(cents: int) -> int:
        return cents

    with pytest.warns(UserWarning, match="tool undocumented has no doc") as first:
        tool(undocumented)
    with pytest.warns(UserWarning, match="or pass description=") as second:
        Agent("clerk", tools=[undocumented])

    assert [__file__, __file__] == [first[0].filename, second[0].filename]


def test_tool_with_a_description_needs_no_docstring() -> None:
    def described(cents: int) -> int:
        return cents

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tool(described, description="Pay.")

    assert [] == caught


class Opaque:
    pass


@pytest.mark.parametrize("annotation", [Opaque, "Missing", "1 +", "list[Missing]"])
def test_unsupported_annotation_is_rejected_on_first_use(annotation: object) -> None:
    def function(value: object) -> None: ...

    function.__annotations__["value"] = annotation
    made = tool(function)

    with pytest.raises(InvalidInput, match="tool function: "):
        _ = made.parameters


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, None),
        (int, "5"),
        (float, float("inf")),
        (list[int], ["a"]),
        (str, object()),
        (Decimal, Decimal("nan")),
    ],
)
def test_default_of_another_type_is_rejected_on_first_use(
    annotation: object, default: object
) -> None:
    def function(required: int, value: object = default) -> None: ...

    function.__annotations__["value"] = annotation
    made = tool(function)

    with pytest.raises(InvalidInput, match=r"tool function: .*"):
        _ = made.parameters


def test_bound_method_is_a_tool() -> None:
    class Bank:
        def balance(self, account: str) -> str:
            """Return the balance."""
            return account

    made = tool(Bank().balance)

    assert ("balance", "Return the balance.") == (made.name, made.description)
    assert ["account"] == list(made.parameters["properties"])


def test_wrapped_function_is_read_through_its_wrapper() -> None:
    @functools.wraps(transfer)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert tool(transfer).parameters == tool(wrapper).parameters


def test_attributes_of_the_function_do_not_overwrite_the_options() -> None:
    def function() -> None: ...

    function.__dict__["name"] = "other"

    assert "function" == tool(function).name


def test_tool_can_be_called_as_a_function() -> None:
    @tool
    def double(value: int) -> int:
        """Double it."""
        return 2 * value

    assert isinstance(double, Tool)
    assert 4 == double(2)
    assert 4 == double(value=2)
    assert "Double it." == double.__doc__
