"""The event of a tool's `verify` function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.call_events import Answered, Approved, Denied, Unverified
from continuations.core.calls import Unknown
from continuations.core.decisions import Answer, Approve, Decision, Deny
from continuations.engine.call_waits import approval_digest, approved_contract_digest

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.decisions import Verdict
    from continuations.core.events import Event
    from continuations.core.state import RunState
    from continuations.engine.ports import Ports


def _is_over(ports: Ports, state: RunState, unknown: Unknown) -> bool:
    """Return whether a call of unknown outcome cannot be running any more."""
    over = state.waits[unknown.wait_id].approve_after
    return over is None or ports.clock.now() > over


def verification_event(
    ports: Ports,
    state: RunState,
    call: CallRow,
    tool: ToolProtocol,
    verdict: Verdict | None,
) -> Event:
    """Return the event of the verdict of a tool's `verify` function."""
    assert isinstance(call.state, Unknown)  # noqa: S101 - only such calls are verified
    match verdict:
        case Answer(value=str(text)):
            return Answered(call_id=call.id, content=text)
        case Answer(value=value):
            try:
                return Answered(call_id=call.id, content=jsontext.canonical(value))
            except jsontext.NotJson:
                return Unverified(call_id=call.id)
        case Approve(arguments=None) if _is_over(ports, state, call.state):
            contract = approved_contract_digest(tool)
            digest = approval_digest(state, call, call.arguments or "{}", contract)
            return Approved(call_id=call.id, digest=digest)
        case Deny(reason=reason):
            now = ports.clock.now()
            wait = state.waits[call.state.wait_id]
            decision = Decision(
                id=ports.ids.new_ulid(now),
                wait_id=wait.id,
                kind="deny",
                at=now,
                digest=wait.digest,
                by="verify",
                reason=reason,
            )
            return Denied(call_id=call.id, decision=decision)
        case _:
            return Unverified(call_id=call.id)
