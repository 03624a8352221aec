"""The number of rows of a page, from the query of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.http import problems

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Request

MAX_PAGE_SIZE = 1000
DEFAULT_PAGE_SIZE = 100


def page_size(request: Request) -> int:
    """Return `limit` of a query, 100 by default; raises a problem if it is invalid."""
    text = request.query.get("limit", str(DEFAULT_PAGE_SIZE))
    is_number = (
        text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PAGE_SIZE))
    )
    if not is_number or not 1 <= int(text) <= MAX_PAGE_SIZE:
        msg = f'"limit" must be a number from 1 to {MAX_PAGE_SIZE}.'
        raise problems.malformed(msg)
    return int(text)
