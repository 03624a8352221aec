"""The ends of calls that failed: what the model reads, and what the log keeps."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.authoring.errors import ArgumentsInvalid, PolicyFailed
from continuations.core.call_events import CallInvalid, CallRaised
from continuations.engine.error_reports import describe_error

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.state import RunState

_log = logging.getLogger("continuations")


def rejection(call: CallRow, code: str, reason: str) -> CallInvalid:
    """Return the end of a call that was not executed."""
    content = f"ERROR: the call was not executed: {reason}"
    return CallInvalid(call_id=call.id, code=code, content=content)


def rejection_for_error(call: CallRow, error: BaseException) -> CallInvalid:
    """Return the end of a call whose validation or approval policy raised."""
    if isinstance(error, ArgumentsInvalid):
        reason = f"{error}\nCorrect the arguments and call the tool again."
        return rejection(call, "arguments", reason)
    if isinstance(error, PolicyFailed):
        return rejection(call, "policy", str(error))
    # The application's own validators may raise anything.
    reason = f"the validation of its arguments raised {type(error).__name__}"
    return rejection(call, "arguments", reason)


def log_error(
    state: RunState, call: CallRow, summary: str, error: BaseException
) -> None:
    """Log the failure of a tool's code, with the traceback and without texts."""
    # The text of an error may contain secrets, so only the debug log has it.
    what = describe_error(error)
    run = state.run.id
    _log.error("run %s: call %s of %s %s: %s", run, call.id, call.tool, summary, what)
    _log.debug("run %s: call %s", run, call.id, exc_info=error)


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as worse:  # noqa: BLE001 - its own __str__ fails
        return f"(its text raised {type(worse).__name__})"


def failure(
    call: CallRow, tool: ToolProtocol, error: BaseException, *, timed_out: bool
) -> CallRaised:
    """Return the end of a call whose tool raised, or took too long."""
    retried = tool.retries is not None and call.attempts > 1
    if timed_out:
        last = f" in the last of {call.attempts} attempts" if retried else ""
        text = (
            f"ERROR: the tool did not return within {tool.timeout} s{last}. It is not "
            "known whether it had an effect."
        )
        return CallRaised(call_id=call.id, code="timeout", content=text)
    after = f" after {call.attempts} attempts" if retried else ""
    text = (
        f"ERROR: the tool failed{after}: {type(error).__name__}: {_error_text(error)}"
    )
    return CallRaised(call_id=call.id, code="exception", content=text)
