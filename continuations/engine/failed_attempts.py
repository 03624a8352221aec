"""The event that follows from an attempt of a call whose tool raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.authoring.tool_options import FailedCall
from continuations.core import jsontext
from continuations.core.call_events import CallRaised, OutcomeUnknown, RepeatAllowed
from continuations.engine import call_failures
from continuations.engine.call_waits import new_wait
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations.authoring.call_gate import CallGate
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.state import RunState
    from continuations.engine.ports import Ports

# `should_pause` is a function of the application, so it is polled.
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """Decides what follows after a tool raised, or did not return in time.

    Attributes:
        ports: The clock, new ids, and the sleep between two attempts.
        claim_end: Returns when the claim ends unless it is renewed.
        context: The object of the application.
    """

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
    ) -> RepeatAllowed | OutcomeUnknown | CallRaised:
        """Return the event of a failed attempt, after the wait before the next one.

        A call that is tried again becomes ready. So its next start is recorded and
        checked like the first one, and another worker can make it.
        """
        call_failures.log_error(state, call, "failed", error)
        late = gate.is_out_of_time
        if late and not call.repeatable and tool.on_timeout == "unknown":
            return self._unknown_after_timeout(state, call, tool)
        if await self._waited_for_retry(state, call, tool, error, gate):
            return RepeatAllowed(call_id=call.id)
        if not late and gate.has_begun and isinstance(error, Exception):
            text = await self._own_text(state, call, tool, error)
            if text is not None:
                return CallRaised(call_id=call.id, code="exception", content=text)
        return call_failures.failure(call, tool, error, timed_out=late)

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
            call_failures.log_error(state, call, problem, worse)
            return None
        if isinstance(text, str):
            return text
        problem += f", which returned {type(text).__name__}"
        call_failures.log_error(state, call, problem, TypeError())
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

    def _unknown_after_timeout(
        self, state: RunState, call: CallRow, tool: ToolProtocol
    ) -> OutcomeUnknown:
        """Return the event of a call that took too long and may be running still."""
        now = self.ports.clock.now()
        wait = new_wait(
            state,
            call,
            tool,
            kind="unknown",
            now=now,
            ulid=self.ports.ids.new_ulid(now),
            note=f"The tool did not return within {tool.timeout} s.",
        )
        # A plain function may still be running in its thread.
        wait = replace(wait, approve_after=self.claim_end())
        return OutcomeUnknown(call_id=call.id, wait=wait)
