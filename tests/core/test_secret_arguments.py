"""Secret arguments: masked everywhere, kept by edits, never moved to another place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from continuations.core.words.secret_arguments import (
    MASK,
    SecretLost,
    kept_places,
    masked,
    path_of,
    restored_json,
    scrubbed,
)

PATHS = (
    "by_name/*/key",
    "card",
    "card/number",
    "cards/*/code",
    "cards/*/number",
    "pin",
)
ARGUMENTS: dict[str, Any] = {
    "to": "Kim",
    "pin": "9876",
    "card": {"owner": "Kim", "number": 41111111},
    "cards": [
        {"owner": "A", "number": "n-1", "code": 1},
        {"owner": "B", "number": "n-2"},
    ],
    "by_name": {"x": {"key": ["k-1", "k-2"]}, "y": {"key": None}},
}
SHOWN: dict[str, Any] = {
    "to": "Kim",
    "pin": MASK,
    "card": MASK,
    "cards": [
        {"owner": "A", "number": MASK, "code": MASK},
        {"owner": "B", "number": MASK},
    ],
    "by_name": {"x": {"key": MASK}, "y": {"key": None}},
}


def restored(edited: Any) -> Any:
    """Return an edit of `SHOWN` with its secret values."""
    whole = json.dumps({**SHOWN, **edited})
    return json.loads(restored_json(whole, json.dumps(ARGUMENTS), PATHS))


def test_secret_values_are_masked_at_every_depth() -> None:
    assert SHOWN == masked(ARGUMENTS, PATHS)
    assert SHOWN == masked(masked(ARGUMENTS, PATHS), PATHS)


def test_absent_and_misplaced_paths_mask_nothing_else() -> None:
    arguments = {"to": "Kim", "cards": "none"}

    assert arguments == masked(arguments, PATHS)


def test_list_in_place_of_an_object_is_masked_too() -> None:
    """More is masked rather than less if a value has another shape than its type."""
    paths = ["card/number"]

    assert {"card": [{"number": MASK}]} == masked({"card": [{"number": 5}]}, paths)


def test_edit_of_other_arguments_keeps_every_secret() -> None:
    assert {**ARGUMENTS, "to": "Lee"} == restored({"to": "Lee"})


@pytest.mark.parametrize(
    "edited",
    [
        {"pin": "1234"},
        {"pin": ""},
        {"card": {"owner": "Kim", "number": 5}},
        {"cards": [*reversed(SHOWN["cards"])]},
        {"cards": [{"owner": "A2", "number": MASK}, SHOWN["cards"][1]]},
        {"cards": [*SHOWN["cards"], SHOWN["cards"][0]]},
        {"by_name": {"y": {"key": MASK}}},
        {"by_name": {"z": {"key": MASK}}},
    ],
    ids=str,
)
def test_edit_that_changes_or_moves_a_secret_is_refused(edited: Any) -> None:
    """The value of A never becomes that of B, and no decision contains a secret."""
    with pytest.raises(SecretLost):
        restored(edited)


def test_edit_may_remove_items_from_the_end_and_clear_a_secret() -> None:
    kept = restored({"cards": [SHOWN["cards"][0]], "pin": None})

    assert [ARGUMENTS["cards"][0]] == kept["cards"]
    assert kept["pin"] is None


def test_places_of_masks_are_paths_of_json_values() -> None:
    places = set(kept_places(SHOWN, PATHS))

    assert {
        ("pin",),
        ("card",),
        ("cards", 0, "code"),
        ("cards", 0, "number"),
        ("cards", 1, "number"),
        ("by_name", "x", "key"),
    } == places


def test_other_texts_lose_the_secrets_that_they_repeat() -> None:
    text = 'paid with 9876, 41111111 and "k-1"; not with n-1 of 98'

    clean = scrubbed(text, json.dumps(ARGUMENTS), PATHS)

    # Values of fewer than four characters may stand there by chance.
    assert f'paid with {MASK}, {MASK} and "k-1"; not with n-1 of 98' == clean


@pytest.mark.parametrize("name", ["a/b", "a~b", "~1", "*x", ""])
def test_names_with_special_characters_are_paths(name: str) -> None:
    assert {name: {"n": MASK}} == masked({name: {"n": 1}}, [path_of((name, "n"))])
