"""Operations that are one call of the runner: read the fields, call, show the result.

Their rows in `continuations.serve.operations` say how they differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.serve.http import request_fields
from continuations.serve.http.request_context import HTTP
from continuations.serve.http.request_response import json_response
from continuations.serve.operation_calls import (
    FORMS,
    Sender,
    arguments_of,
    goes_on,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Response


async def answer(context: RequestContext) -> Response:
    """Answer a request for an operation that is one call of the runner."""
    operation = context.operation
    given = {**context.path_params, **_fields(context)}
    run_id: str = given["run_id"]
    sender = Sender(context.identity, HTTP)
    values, named = arguments_of(operation, given, sender)
    result = await getattr(context.runner, operation.call)(*values, **named)
    woken: dict[str, bool] = {}
    if operation.wakes:
        woken["woken"] = goes_on(result) and await context.wake(run_id)
    shown = await FORMS[operation.form](context, run_id, result)
    # A run shows its status itself.
    return json_response(shown if operation.form == "run" else {**shown, **woken})


def _fields(context: RequestContext) -> Mapping[str, Any]:
    if not context.operation.body:
        return request_fields.query(context) if context.operation.query else {}
    fields = request_fields.body(context)
    if "files" not in fields:
        return fields
    own = {name: fields[name] for name in fields if name != "files"}
    return {**own, "text": request_fields.text_with_files(fields, fields["text"])}
