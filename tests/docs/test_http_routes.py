"""The page about HTTP names every route, with the right that it needs."""

from __future__ import annotations

import re
from pathlib import Path

from continuations.serve.operations import OPERATIONS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "http.md"
_ROW = re.compile(r"\| `([A-Z]+) (/[^`?]*)` \|.*\| ([^|]*) \|")


def rows() -> dict[tuple[str, str], str]:
    """Return the column *right* of each route of the page."""
    found = map(_ROW.fullmatch, PAGE.read_text("utf-8").splitlines())
    return {(row[1], row[2]): row[3] for row in found if row is not None}


def test_page_names_exactly_the_routes_of_the_api() -> None:
    assert {(each.method, each.path) for each in OPERATIONS} == rows().keys()


def test_page_names_the_right_of_each_route() -> None:
    texts = rows()
    for each in OPERATIONS:
        text = texts[each.method, each.path]
        if each.right is not None:
            assert text.startswith(f"`{each.right}`"), each.id
        elif each.is_public:
            secrets = ("none", "the link", "the token", "the signature")
            assert text in secrets, each.id
        else:
            assert text in ("none", "`view`, for each row"), each.id
