"""The context that a tool gets for one call."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.authoring.context import ToolContext
from continuations.core import jsontext
from continuations.ledger import layout
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.authoring.arguments.typed_values import CallState, StateSpec
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports


def idempotency_key(run: RunRow, call: CallRow) -> str:
    """Return the key that names one stage of a call and nothing else."""
    key = f"{run.run_nonce}-{call.id}"
    return f"{key}-{call.stage}" if call.stage else key


def make_tool_context(
    run: RunRow,
    call: CallRow,
    tool: ToolProtocol,
    ports: Ports,
    *,
    fence: int,
    context: Any,
    call_state: CallState | None = None,
) -> ToolContext:
    """Return the context of a call.

    Args:
        run: The run.
        call: The call.
        tool: The tool of the call.
        ports: The clock, and the URLs of callbacks.
        fence: The number of the last version.
        context: The object of the application.
        call_state: The state of the agent, if it has one.
    """
    deadline = None
    if tool.timeout is not None:
        deadline = ports.clock.now() + timedelta(seconds=tool.timeout)
    make_wait_id = partial(layout.known_wait_id, run, call)
    policy, form = tool.approval, call.form
    made = ToolContext(
        run_id=run.id,
        call_id=call.id,
        idempotency_key=idempotency_key(run, call),
        fence=fence,
        attempt=max(call.attempts, 1),
        deadline=deadline,
        make_wait_id=make_wait_id,
        context=context,
        call_state=call_state,
        stage=call.stage,
        memo=None if call.memo is None else jsontext.parse(call.memo),
        make_trace_context=partial(dict[str, str], run.trace_context),
    )
    if policy is not None and form is not None:
        made = replace(made, make_form=partial(policy.typed_form, form))
    url_of = ports.callback_url
    if url_of is None:
        return made
    return replace(made, make_callback_url=lambda: url_of(make_wait_id()))


def call_state_of(
    spec: StateSpec, state: RunState, call: CallRow, tool: ToolProtocol
) -> CallState:
    """Return the state of the agent that made a call, as the call reads it."""
    from continuations.authoring.arguments.typed_values import CallState  # noqa: PLC0415 - few agents have a state
    from continuations.core.rows import frames  # noqa: PLC0415

    seen = frames.state_seen_by(call, state.frames[call.frame_id], state.calls)
    return CallState(spec, tool.name, seen, may_write=tool.writes_state)
