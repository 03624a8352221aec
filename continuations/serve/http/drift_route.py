"""GET /drift: what the code of this server would do with the waiting runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.http import problems
from continuations.serve.http.page_size import page_size
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.list_page import read_page

if TYPE_CHECKING:
    from continuations.serve.http.request_context import RequestContext


async def drift(context: RequestContext) -> Response:
    """List the runs with what `resume` would do, one page at a time."""
    from continuations.present.json_forms import drift_row_json  # noqa: PLC0415 - rarely used

    limit = page_size(context.request)
    query = context.request.query
    if not query.keys() <= {"limit", "after"}:
        raise problems.malformed("The query may have limit, after.")
    cursors = context.cursors()
    page = await read_page(
        context.runner.drift(after=cursors.open(query.get("after", ""))),
        limit=limit,
        cursor_of=lambda row: row.run_id,
        is_shown=lambda row: context.may("view", row.run_id),
        seal=cursors.seal,
    )
    rows = [drift_row_json(row) for row in page.rows]
    return json_response({"runs": rows, "next": page.next})
