"""The page about HTTP names every route, with the right that it needs."""

from __future__ import annotations

import re
from pathlib import Path

from continuations.serve.http.route_rights import RIGHTS
from continuations.serve.http.routes import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "http.md"
_ROW = re.compile(r"\| `([A-Z]+) (/[^`?]*)` \|.*\| ([^|]*) \|")


def rows() -> dict[tuple[str, str], str]:
    """Return the column *right* of each route of the page."""
    found = map(_ROW.fullmatch, PAGE.read_text("utf-8").splitlines())
    return {(row[1], row[2]): row[3] for row in found if row is not None}


def test_page_names_exactly_the_routes_of_the_api() -> None:
    routes = {(method, each.path) for each in ROUTES for method in each.handlers}

    assert routes == rows().keys()


def test_page_names_the_right_of_each_route() -> None:
    for route, text in rows().items():
        if route in RIGHTS:
            right = RIGHTS[route]
            rows_only = text in ("none", "`view`, for each row")
            assert rows_only if right is None else text.startswith(f"`{right.act}`")
        else:
            assert text in ("none", "the link", "the token", "the signature"), route
