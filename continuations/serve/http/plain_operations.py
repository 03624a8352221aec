"""Operations that are one call of the runner: read the fields, call, show the result.

Their rows in `continuations.serve.operations` say how they differ. The function of a
JSON form stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.present import json_forms
from continuations.present.json_forms import (
    difference_json,
    kept_grant_json,
    rewind_plan_json,
    rewound_json,
    untaken_signal_json,
)
from continuations.serve.http import decision_bodies, request_fields
from continuations.serve.http.request_context import HTTP
from continuations.serve.http.request_response import json_response
from continuations.serve.run_responses import run_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations.core.audit import AuditLine
    from continuations.core.grants import KeptGrant
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
    return {**own, "text": decision_bodies.text_with_files(fields, fields["text"])}


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


async def _audit(_: RequestContext, run_id: str, lines: Sequence[AuditLine]) -> Any:
    return {"run_id": run_id, "lines": [*map(json_forms.audit_line_json, lines)]}


async def _grants(_: RequestContext, run_id: str, grants: Sequence[KeptGrant]) -> Any:
    return {"run_id": run_id, "grants": [*map(kept_grant_json, grants)]}


async def _revoked(context: RequestContext, run_id: str, _: None) -> Any:
    grant = context.path_params["grant"]
    return {"run_id": run_id, "grant": grant, "revoked": True}


async def _signals(
    context: RequestContext, run_id: str, signals: Sequence[UntakenSignal]
) -> Any:
    """Show the signals; their data needs the right to read."""
    reads = await context.detail(run_id) == "transcript"
    shown = [untaken_signal_json(each, with_data=reads) for each in signals]
    return {"run_id": run_id, "signals": shown}


async def _rewind_plan(context: RequestContext, run_id: str, plan: RewindPlan) -> Any:
    return rewind_plan_json(plan, await context.detail(run_id))


async def _rewound(context: RequestContext, run_id: str, rewound: Rewound) -> Any:
    return rewound_json(rewound, await context.detail(run_id))


async def _difference(
    context: RequestContext, run_id: str, difference: RunDifference
) -> Any:
    return difference_json(difference, await context.detail(run_id))


def _count(name: str) -> Render:
    async def render(_: RequestContext, run_id: str, count: int) -> dict[str, Any]:
        return {"run_id": run_id, name: count}

    return render


FORMS: Mapping[str, Render] = {
    "audit": _audit,
    "dropped_signals": _count("dropped"),
    "grant_list": _grants,
    "revoked_grant": _revoked,
    "rewind_plan": _rewind_plan,
    "rewound": _rewound,
    "run": _run,
    "run_difference": _difference,
    "sent_message": _count("number"),
    "sent_signal": _count("number"),
    "signal_list": _signals,
    "woken_waits": _count("waits"),
}
"""By the name of the form: the function that shows the result of an operation."""
