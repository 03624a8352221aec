"""The stored form of what people read: complete, and strict about other shapes."""

from __future__ import annotations

from typing import Any

import pytest

from continuations.core.words.call_display import CallDisplay
from continuations.errors import FormatError
from continuations.wire.records import display_row
from tests.wire.golden.runs import full_display


@pytest.mark.parametrize(
    "display",
    [full_display(), CallDisplay(), CallDisplay(reversible=True, secrets=("pin",))],
)
def test_display_is_read_as_it_was_written(display: CallDisplay) -> None:
    assert display == display_row().read(display_row().write(display), "here")


@pytest.mark.parametrize(
    "changed",
    [
        {"title": 5},
        {"template": "{"},
        {"template": "line\nbreak"},
        {"money": [["cents", "EUR"]]},
        {"money": [["cents", "EURO", 100]]},
        {"money": [["cents", "EUR", 7]]},
        {"money": [["cents", "EUR", True]]},
        {"money": {"cents": 1}},
        {"secrets": "pin"},
        {"secrets": [5]},
        {"reversible": True},
        {"reversible": "maybe"},
        {"evidence": [["find", "text", -1, False]]},
        {"evidence": [["find", "text", True, False]]},
        {"evidence": [["find", "text", 5]]},
        {"agent_words": []},
        {"requester": 5},
        {"unknown": 5},
    ],
    ids=str,
)
def test_display_of_another_shape_is_refused(changed: Any) -> None:
    fields = {**display_row().write(full_display()), **changed}

    with pytest.raises(FormatError, match="here"):
        display_row().read(fields, "here")


@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_display_must_be_a_mapping(value: Any) -> None:
    with pytest.raises(FormatError):
        display_row().read(value, "here")
