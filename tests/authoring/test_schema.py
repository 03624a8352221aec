"""From a signature and a docstring to what the model is told."""

from __future__ import annotations

import datetime as dt
import enum
import functools
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants it before Python 3.12

from continuations.authoring.context import ToolContext
from continuations.authoring.tool import Tool, tool
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    import continuations.authoring.context as elsewhere


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """A thing with a price."""

    title: str
    description: str = ""
    price: float


@dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    fast: bool


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Node(BaseModel):
    children: list[Node] = []


def schema_of(annotation: object) -> dict[str, Any]:
    """Return the schema of one required parameter."""

    def function(value: object) -> None: ...

    function.__annotations__["value"] = annotation
    found: dict[str, Any] = tool(function).parameters["properties"]["value"]
    return found


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (
            set[str],
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ),
        (
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Annotated[int, Field(gt=0)], {"type": "integer", "exclusiveMinimum": 0}),
        (
            Annotated[str, Field(max_length=3, description="short")],
            {"type": "string", "maxLength": 3, "description": "short"},
        ),
    ],
)
def test_types_become_json_schema(annotation: object, expected: dict[str, Any]) -> None:
    assert expected == schema_of(annotation)


@pytest.mark.parametrize("annotation", [Colour, Item, Point, Options])
def test_own_types_are_definitions(annotation: type) -> None:
    assert {"$ref": f"#/$defs/{annotation.__name__}"} == schema_of(annotation)


def test_an_enum_lists_its_values() -> None:
    @tool
    def paint(colour: Colour) -> None: ...

    definition = paint.parameters["$defs"]["Colour"]

    assert ["red", "blue"] == definition["enum"]


def test_a_discriminated_union_names_its_discriminator() -> None:
    pet = Annotated[Cat | Dog, Field(discriminator="kind")]

    schema = schema_of(pet)

    assert "kind" == schema["discriminator"]["propertyName"]
    assert 2 == len(schema["oneOf"])


def test_a_type_may_contain_itself() -> None:
    @tool
    def grow(tree: Node) -> None: ...

    assert {"$ref": "#/$defs/Node"} == grow.parameters["properties"]["tree"]


def test_a_parameter_with_a_default_is_not_required() -> None:
    @tool
    def search(
        words: str, limit: int = 5, colour: Colour = Colour.RED, near: str | None = None
    ) -> None: ...

    properties = search.parameters["properties"]

    assert ["words"] == search.parameters["required"]
    assert 5 == properties["limit"]["default"]
    assert "red" == properties["colour"]["default"]
    assert properties["near"]["default"] is None


def test_no_other_properties_are_allowed() -> None:
    @tool
    def nothing() -> None: ...

    empty: dict[str, Any] = {}
    expected = {"type": "object", "properties": empty, "additionalProperties": False}
    assert expected == nothing.parameters


def test_parameters_may_have_names_that_pydantic_keeps_for_itself() -> None:
    @tool
    def odd(
        copy: int, schema: int, model_config: int, _hidden: int, self_: int
    ) -> None: ...

    expected = ["copy", "schema", "model_config", "_hidden", "self_"]
    assert expected == list(odd.parameters["properties"])


def test_a_field_as_default_is_understood() -> None:
    @tool
    def buy(count: int = Field(gt=0, description="how many")) -> None: ...

    expected = {"type": "integer", "exclusiveMinimum": 0, "description": "how many"}
    assert expected == buy.parameters["properties"]["count"]


def test_an_alias_is_what_the_model_reads() -> None:
    @tool
    def send(from_: Annotated[str, Field(alias="from")]) -> None:
        """Send.

        Args:
            from_: who sends
        """

    expected = {"from": {"type": "string", "description": "who sends"}}
    assert expected == send.parameters["properties"]


def test_local_types_are_found_under_postponed_annotations() -> None:
    class Local(BaseModel):
        value: int

    @tool
    def plain(given: Local) -> int:
        return given.value

    @tool(name="called")
    def second(given: Local) -> int:
        return given.value

    assert '{"given":{"value":1}}' == plain.bind('{"given":{"value":1}}')
    assert '{"given":{"value":1}}' == second.bind('{"given":{"value":1}}')


# The context ------------------------------------------------------------------


def plain_context(a: int, ctx: ToolContext) -> None: ...
def other_name(a: int, c: ToolContext) -> None: ...
def optional_context(a: int, ctx: ToolContext | None = None) -> None: ...
def old_optional(a: int, ctx: Optional[ToolContext] = None) -> None: ...  # noqa: UP045
def annotated_context(a: int, ctx: Annotated[ToolContext, "mine"]) -> None: ...
def dotted_context(a: int, ctx: elsewhere.ToolContext) -> None: ...
def dotted_optional(a: int, ctx: elsewhere.ToolContext | None = None) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        plain_context,
        other_name,
        optional_context,
        old_optional,
        annotated_context,
        dotted_context,
        dotted_optional,
    ],
)
def test_the_context_is_not_the_models_to_give(function: Callable[..., None]) -> None:
    assert ["a"] == list(tool(function).parameters["properties"])


def test_a_context_is_found_without_postponed_annotations() -> None:
    def function(a: int, ctx: object) -> None: ...

    function.__annotations__ = {"a": int, "ctx": ToolContext, "return": None}

    assert ["a"] == list(tool(function).parameters["properties"])


# Docstrings -------------------------------------------------------------------


def google(account: str, cents: int = 0) -> None:
    """Move money.

    At once, and for good.

    Args:
        account: where to
        cents: how much,
            in cents

    Returns:
        A receipt.

    Raises:
        ValueError: never
    """


def numpy(account: str, cents: int = 0) -> None:
    """Move money.

    At once, and for good.

    Parameters
    ----------
    account : str
        where to
    cents : int
        how much,
        in cents

    Returns
    -------
    str
        A receipt.
    """


def rest(account: str, cents: int = 0) -> None:
    """Move money.

    At once, and for good.

    :param account: where to
    :param cents: how much,
        in cents
    :returns: A receipt.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_docstrings_describe_tools_and_parameters(
    function: Callable[..., None],
) -> None:
    made = tool(function)
    properties = made.parameters["properties"]

    expected = "Move money.\n\nAt once, and for good.\n\nReturns: A receipt."
    assert expected == made.description
    assert "where to" == properties["account"]["description"]
    assert "how much,\nin cents" == properties["cents"]["description"]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (None, ""),
        ("", ""),
        ("Do it.", "Do it."),
        (
            "Do it.\n\n    Note: at 10:30.\n    :colon first",
            "Do it.\n\nNote: at 10:30.\n:colon first",
        ),
        (
            "Do it.\n\n    Returns:\n        A receipt.",
            "Do it.\n\nReturns:\n    A receipt.",
        ),
        ("Ask\n    @kim about it.", "Ask\n@kim about it."),
    ],
)
def test_a_docstring_without_parameters_is_told_as_it_is(
    docstring: str | None, expected: str
) -> None:
    def function() -> None: ...

    function.__doc__ = docstring

    assert expected == tool(function).description


def test_a_declared_description_wins() -> None:
    @tool(description="Mine.")
    def function(a: Annotated[int, Field(description="declared")]) -> None:
        """Of the docstring.

        Args:
            a: of the docstring
        """

    assert "Mine." == function.description
    assert "declared" == function.parameters["properties"]["a"]["description"]


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
def test_repeatable(*, read_only: bool, idempotent: bool, expected: bool) -> None:
    def function() -> None: ...

    made = tool(function, read_only=read_only, idempotent=idempotent)
    assert expected == made.repeatable


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "10"])
def test_a_timeout_is_a_length_of_time(timeout: Any) -> None:
    with pytest.raises(InvalidInput):
        tool(google, timeout=timeout)


# What cannot be a tool --------------------------------------------------------


def star(*names: str) -> None: ...
def stars(**names: str) -> None: ...
def positional(name: str, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "named"),
    [(star, "names"), (stars, "names"), (positional, "name")],
)
def test_parameters_without_names_are_refused_where_they_are_written(
    function: Callable[..., None], named: str
) -> None:
    with pytest.raises(InvalidInput, match=f"parameter {named} "):
        tool(function)


def test_an_unannotated_parameter_is_refused_where_it_is_written() -> None:
    def function(value: int) -> None: ...

    function.__annotations__ = {}
    with pytest.raises(InvalidInput, match="tool function: the parameter value has no"):
        tool(function)


@pytest.mark.parametrize("thing", [functools.partial(google), Point, 3, "google"])
def test_only_functions_are_tools(thing: Any) -> None:
    with pytest.raises(InvalidInput, match="function"):
        tool(thing, name="thing")


@pytest.mark.parametrize("name", ["", "a b", "ä", "a" * 65, "a.b", "a\n"])
def test_names_are_what_providers_take(name: str) -> None:
    with pytest.raises(InvalidInput, match="a tool's name"):
        tool(google, name=name)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidInput, match="<lambda>"):
        tool(lambda: None)


class Opaque:
    pass


@pytest.mark.parametrize("annotation", [Opaque, "Missing", "1 +", "list[Missing]"])
def test_unknown_types_are_refused_on_first_use(annotation: object) -> None:
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
def test_a_default_that_is_no_argument_is_refused(
    annotation: object, default: object
) -> None:
    def function(required: int, value: object = default) -> None: ...

    function.__annotations__["value"] = annotation
    made = tool(function)

    with pytest.raises(InvalidInput, match=r"tool function: .*"):
        _ = made.parameters


def test_a_method_of_an_object_is_a_tool() -> None:
    class Bank:
        def balance(self, account: str) -> str:
            """Tell the balance."""
            return account

    made = tool(Bank().balance)

    assert ("balance", "Tell the balance.") == (made.name, made.description)
    assert ["account"] == list(made.parameters["properties"])


def test_a_method_in_a_class_is_told_what_to_do() -> None:
    def method(self: object, account: str) -> None: ...

    del method.__annotations__["self"]
    with pytest.raises(InvalidInput, match=r"tool\(thing\.method\)"):
        tool(method)


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    @functools.wraps(google)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert tool(google).parameters == tool(wrapper).parameters


def test_a_functions_attributes_do_not_overwrite_the_tools() -> None:
    def function() -> None: ...

    function.__dict__["name"] = "other"

    assert "function" == tool(function).name


def test_a_tool_is_still_the_function() -> None:
    @tool
    def double(value: int) -> int:
        """Double it."""
        return 2 * value

    assert isinstance(double, Tool)
    assert 4 == double(2)
    assert 4 == double(value=2)
    assert "Double it." == double.__doc__
