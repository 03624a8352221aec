"""Operations that are one call of the runner: read the fields, call, show the result.

Their rows in `continuations.serve.operations` say how they differ. The function of a
JSON form stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.present.json_forms import difference_json, rewind_json
from continuations.serve.http import request_fields
from continuations.serve.http.request_context import HTTP
from continuations.serve.http.request_response import json_response
from continuations.serve.run_responses import run_response
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations.core.run_past import RewindPlan, Rewound, RunDifference
    from continuations.core.signal_matching import UntakenSignal
    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Response
    from continuations.wire.continuation import Continuation

Render: TypeAlias = "Callable[[RequestContext, str, Any], Awaitable[dict[str, Any]]]"
"""Returns the JSON form of a result; the text is the id of the run."""


async def answer(context: RequestContext) -> Response:
    """Answer a request for an operation that is one call of the runner."""
    operation = context.operation
    given = {**context.path_params, **_fields(context)}
    run_id: str = given["run_id"]
    form = FORMS[operation.form]
    by_position = dict.fromkeys((*context.path_params, *operation.positional))
    named = {name: given[name] for name in given if name not in by_position}
    method = getattr(context.runner, operation.call)
    values = [given[name] for name in by_position]
    result = await method(*values, **named, **_sender(context))
    woken: dict[str, bool] = {}
    if operation.wakes:
        woken["woken"] = _goes_on(result) and await context.wake(run_id)
    shown = await form(context, run_id, result)
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


def _sender(context: RequestContext) -> dict[str, Any]:
    facts = {
        "by": ("by", context.identity_name),
        "identity": ("by", context.identity),
        "door": ("door", HTTP),
    }
    return dict(facts[each] for each in context.operation.sender)


def _goes_on(result: Any) -> bool:
    """Return whether a worker has something to do: a number of waits may be zero."""
    return getattr(result, "status", "suspended") == "suspended" and bool(result)


# Forms --------------------------------------------------------------------------


async def _run(context: RequestContext, run_id: str, run: Continuation) -> Any:
    detail = await context.detail(run_id)
    return await run_response(context.runner.store, context.clock, run, detail)


def _of_run(name: str) -> Render:
    """Return the form of a result that has only the id of its run beside it."""

    async def render(_: RequestContext, run_id: str, result: Any) -> dict[str, Any]:
        return {"run_id": run_id, name: to_json(result)}

    return render


async def _revoked(context: RequestContext, run_id: str, _: None) -> Any:
    grant = context.path_params["grant"]
    return {"run_id": run_id, "grant": grant, "revoked": True}


async def _signals(
    context: RequestContext, run_id: str, signals: Sequence[UntakenSignal]
) -> Any:
    """Show the signals; their data needs the right to read."""
    reads = await context.detail(run_id) == "transcript"
    shown = to_json(signals)
    if not reads:
        for each in shown:
            del each["data"]
    return {"run_id": run_id, "signals": shown}


async def _rewind(
    context: RequestContext, run_id: str, rewind: RewindPlan | Rewound
) -> Any:
    return rewind_json(rewind, await context.detail(run_id))


async def _difference(
    context: RequestContext, run_id: str, difference: RunDifference
) -> Any:
    return difference_json(difference, await context.detail(run_id))


FORMS: Mapping[str, Render] = {
    "audit": _of_run("lines"),
    "dropped_signals": _of_run("dropped"),
    "grant_list": _of_run("grants"),
    "revoked_grant": _revoked,
    "rewind_plan": _rewind,
    "rewound": _rewind,
    "run": _run,
    "run_difference": _difference,
    "sent_message": _of_run("number"),
    "sent_signal": _of_run("number"),
    "signal_list": _signals,
    "woken_waits": _of_run("waits"),
}
"""By the name of the form: the function that shows the result of an operation."""
