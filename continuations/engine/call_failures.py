"""The ends of calls that failed: what the model reads, and what the log keeps.

`describe_error` describes an exception of an application's code without its text. The
text may contain secrets, arguments or messages, and the source line of a frame may
contain a literal secret. A log keeps neither. Files, lines, functions and the names of
exceptions belong to the code. An error number of the operating system, and a name that
stands in the code of the failing function, are safe too.
"""

from __future__ import annotations

import logging
import os
import traceback
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import continuations
from continuations.authoring import callables
from continuations.authoring.errors import (
    ArgumentsInvalid,
    PolicyFailed,
    WaitNotReturned,
)
from continuations.authoring.tool.tool_options import FailedCall
from continuations.core import jsontext
from continuations.core.changes import events
from continuations.errors import EffectUnknown
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from continuations.authoring.tool.call_gate import CallGate
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState
    from continuations.core.rows.wait_rules import WaitKind
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports

    OpenWait: TypeAlias = Callable[[RunState, CallRow, WaitKind, str], Wait]


_log = logging.getLogger("continuations")


def rejection(call: CallRow, code: str, reason: str) -> events.CallInvalid:
    """Return the end of a call that was not executed."""
    content = f"ERROR: the call was not executed: {reason}"
    return events.CallInvalid(call_id=call.id, code=code, content=content)


def rejection_for_error(call: CallRow, error: BaseException) -> events.CallInvalid:
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
) -> events.CallRaised:
    """Return the end of a call whose tool raised, or took too long."""
    retried = tool.retries is not None and call.attempts > 1
    if timed_out:
        last = f" in the last of {call.attempts} attempts" if retried else ""
        text = (
            f"ERROR: the tool did not return within {tool.timeout} s{last}. It is not "
            "known whether it had an effect."
        )
        return events.CallRaised(call_id=call.id, code="timeout", content=text)
    after = f" after {call.attempts} attempts" if retried else ""
    text = (
        f"ERROR: the tool failed{after}: {type(error).__name__}: {_error_text(error)}"
    )
    return events.CallRaised(call_id=call.id, code="exception", content=text)


# How long a request may take that a tool without a store gave up.
_ON_ITS_WAY = timedelta(seconds=30)
# `should_pause` is a function of the application, so it is polled.
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """Decides what follows after a tool raised, or did not return in time.

    Attributes:
        open_wait: Returns a new wait of a call, for its state, kind and note.
        ports: The clock, new ids, and the sleep between two attempts.
        claim_end: Returns when the claim ends unless it is renewed.
        context: The object of the application.
    """

    open_wait: OpenWait
    ports: Ports
    claim_end: Callable[[], datetime | None]
    context: Any

    async def event(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        error: BaseException,
        gate: CallGate,
    ) -> events.RepeatAllowed | events.OutcomeUnknown | events.CallRaised:
        """Return the event of a failed attempt, after the wait before the next one.

        A call that is tried again becomes ready. So its next start is recorded and
        checked like the first one, and another worker can make it.
        """
        log_error(state, call, "failed", error)
        late = gate.is_out_of_time
        if not call.repeatable and late and tool.on_timeout == "unknown":
            note = f"The tool did not return within {tool.timeout} s."
            # A plain function may still be running in its thread.
            return self._unknown(state, call, note, self.claim_end())
        if not call.repeatable and not late and isinstance(error, EffectUnknown):
            # Its request may still be on its way. And `verify` could let the call run
            # again and again without a pause.
            after = self.claim_end() or self.ports.clock.now() + _ON_ITS_WAY
            return self._unknown(state, call, _error_text(error), after)
        if await self._waited_for_retry(state, call, tool, error, gate):
            return events.RepeatAllowed(call_id=call.id)
        if not late and gate.has_begun and isinstance(error, Exception):
            text = await self._own_text(state, call, tool, error)
            if text is not None:
                return events.CallRaised(
                    call_id=call.id, code="exception", content=text
                )
        return failure(call, tool, error, timed_out=late)

    async def _own_text(
        self, state: RunState, call: CallRow, tool: ToolProtocol, error: Exception
    ) -> str | None:
        """Return the text of the application; `None`: the standard text."""
        if tool.on_error is None:
            return None
        failed = FailedCall(
            tool=call.tool,
            run_id=state.run.id,
            call_id=call.id,
            attempt=call.attempts,
            arguments=jsontext.parse(call.arguments or "{}"),
            context=self.context,
        )
        problem = "has no text of on_error"
        try:
            text: object = await callables.call(tool.on_error, error, failed)
        except BaseException as worse:
            if callables.is_task_cancellation(worse):
                raise
            log_error(state, call, problem, worse)
            return None
        if isinstance(text, str):
            return text
        problem += f", which returned {type(text).__name__}"
        log_error(state, call, problem, TypeError())
        return None

    async def _waited_for_retry(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        error: BaseException,
        gate: CallGate,
    ) -> bool:
        """Wait before the next attempt; return False after the last attempt.

        If the worker stops, the wait ends at once: another worker makes the attempt. If
        the call is cancelled, there is no further attempt.
        """
        retries = tool.retries
        # A call that was examined under earlier code may not be repeatable.
        if retries is None or not call.repeatable or not gate.has_begun:
            return False
        if not retries.covers(error, call.attempts):
            return False
        import random  # noqa: PLC0415 - rarely needed

        # Seeded, so that a test can replay it. No two calls wait equally long.
        seed = f"{state.run.run_nonce} {call.id} {call.attempts}"
        left = retries.delay(call.attempts, random.Random(seed).random())  # noqa: S311 - no secret
        while left > 0 and gate.may_be_repeated and not gate.is_closed:
            seconds = min(left, _POLL_SECONDS)
            await self.ports.sleep(seconds)
            left -= seconds
        return not gate.is_closed

    def _unknown(
        self,
        state: RunState,
        call: CallRow,
        note: str,
        approve_after: datetime | None,
    ) -> events.OutcomeUnknown:
        """Return the event of a call that may have had an effect, and is not over."""
        wait = self.open_wait(state, call, "unknown", note)
        wait = replace(wait, approve_after=approve_after)
        return events.OutcomeUnknown(call_id=call.id, wait=wait)


_MAX_FRAMES = 20
_MAX_ERRORS = 5
_OWN_FOLDER = str(Path(continuations.__file__).parent) + os.sep


def describe_error(error: BaseException) -> str:
    """Return the class of an exception, its traceback, and those of its causes."""
    lines: list[str] = []
    for index, each in enumerate(_with_causes(error)):
        label = "" if index == 0 else "caused by "
        lines += [f"{label}{_class_text(each)}", *_frame_lines(each)]
    return "\n".join(lines)


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and len(seen) < _MAX_ERRORS and id(error) not in seen:
        seen.add(id(error))
        yield error
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)


def _class_text(error: BaseException) -> str:
    name = type(error).__name__
    detail = _safe_detail(error)
    return f"{name} ({detail})" if detail else name


def _safe_detail(error: BaseException) -> str | None:
    if isinstance(error, WaitNotReturned):
        return str(error)
    if isinstance(error, OSError) and isinstance(error.errno, int):
        return os.strerror(error.errno)
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        inner = group.exceptions
        return ", ".join(type(each).__name__ for each in inner[:_MAX_ERRORS])
    if isinstance(error, AttributeError | NameError) and _is_in_code(error):
        owner = getattr(error, "obj", None)
        of = f" of {type(owner).__name__}" if isinstance(error, AttributeError) else ""
        return f"{error.name}{of}"
    return None


def _is_in_code(error: AttributeError | NameError) -> bool:
    """Return whether the missing name stands in the code that raised the error."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return False
    code = step.tb_frame.f_code
    return error.name in (*code.co_names, *code.co_varnames, *code.co_freevars)


def _frame_lines(error: BaseException) -> list[str]:
    summary = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    frames = [each for each in summary if not each.filename.startswith(_OWN_FOLDER)]
    return [
        f'  File "{each.filename}", line {each.lineno}, in {each.name}'
        for each in frames[-_MAX_FRAMES:]
    ]
