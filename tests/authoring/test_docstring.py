"""A docstring describes a tool and its parameters to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import pytest
from pydantic import Field

from continuations.authoring.tool.tool import tool


def google_style(account: str, cents: int = 0) -> None:
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


def numpy_style(account: str, cents: int = 0) -> None:
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


def rest_style(account: str, cents: int = 0) -> None:
    """Move money.

    At once, and for good.

    :param account: where to
    :param cents: how much,
        in cents
    :returns: A receipt.
    """


@pytest.mark.parametrize("function", [google_style, numpy_style, rest_style])
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
def test_docstring_without_parameters_is_the_description(
    docstring: str | None, expected: str
) -> None:
    def function() -> None: ...

    function.__doc__ = docstring

    assert expected == tool(function).description


def test_declared_description_wins() -> None:
    @tool(description="Mine.")
    def function(a: Annotated[int, Field(description="declared")]) -> None:
        """From the docstring.

        Args:
            a: from the docstring
        """

    assert "Mine." == function.description
    assert "declared" == function.parameters["properties"]["a"]["description"]
