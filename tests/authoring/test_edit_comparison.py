"""How the text of an edit is compared with the values that a tool would run with."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from continuations.authoring.arguments import arguments
from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.tool.tool import Tool, tool
from continuations.core import jsontext


def tool_with_parameter(annotation: object) -> Tool[..., None]:
    """Return a tool with one parameter, `x`."""

    def act(x: Any) -> None:
        """Act."""

    act.__annotations__ = {"x": annotation, "return": None}
    return tool(act)


@pytest.mark.parametrize(
    "digits", ["90071992547409.93123", "12345678901234567890.5", "1e-400"]
)
@pytest.mark.parametrize("annotation", [Decimal, float, list[Decimal]])
def test_number_that_a_float_rounds_is_refused(annotation: object, digits: str) -> None:
    """The tool would run with other digits than those that the person wrote."""
    value = f"[{digits}]" if annotation == list[Decimal] else digits
    made = tool_with_parameter(annotation)

    with pytest.raises(ArgumentsInvalid, match="write it as a string"):
        made.find_edit_difference(f'{{"x":{value}}}')


def test_schema_tool_refuses_such_a_number_too() -> None:
    made = Tool.from_schema("act", {"type": "object"}, print)

    with pytest.raises(ArgumentsInvalid, match="write it as a string"):
        made.find_edit_difference('{"x":90071992547409.93123}')


def test_decimal_with_many_digits_is_taken_as_a_string() -> None:
    made = tool_with_parameter(Decimal)
    edit = '{"x":"90071992547409.93123"}'

    assert made.find_edit_difference(edit) is None
    assert edit == made.effective_arguments(edit)


@pytest.mark.parametrize(
    ("annotation", "respelled", "difference"),
    [(set[float], 2000, None), (set[Decimal], 100, None), (set[Decimal], 101, "x")],
)
def test_comparison_of_a_large_set_has_a_limit(
    monkeypatch: pytest.MonkeyPatch,
    annotation: object,
    respelled: int,
    difference: str | None,
) -> None:
    """2,000 members, of which some are numbers where the tool has another text."""
    compared = 0

    def is_same_leaf(*values: Any) -> bool:
        nonlocal compared
        compared += 1
        return bool(original(*values))

    module: Any = arguments
    original = module._is_same_leaf
    monkeypatch.setattr(arguments, "_is_same_leaf", is_same_leaf)
    members: list[Any] = list(range(respelled))
    members += [str(number) for number in range(respelled, 2000)]
    edit = jsontext.dump({"x": members})

    found = tool_with_parameter(annotation).find_edit_difference(edit)

    assert difference == found
    assert compared <= 100 * 100
