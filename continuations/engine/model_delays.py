"""Suspend a frame whose model fails for long, or gives its reply later."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.changes.events import ModelDelayed, ModelFailed
from continuations.core.changes.plan import Action, AskModel, CheckCall
from continuations.core.rows.run import Failure
from continuations.core.rows.state import RunState, frame_wait
from continuations.core.usage import Usage
from continuations.errors import ModelError
from continuations.ledger import layout
from continuations.value_class import dataclass, replace
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.model_protocol import LostReply, PendingReply
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports

# The model is asked again after this time, then after twice as long each time.
FIRST_DELAY = timedelta(minutes=1)
MAX_DELAY = timedelta(hours=1)
# A provider may ask for a longer time, up to this one.
MAX_RETRY_AFTER = timedelta(days=1)
# A part of the delay is added that differs from wait to wait: else all runs that met
# one outage would ask again at the same moment.
_SPREAD = 0.25
# Each poll comes later than the one before, so a reply of a day is polled 40 times.
_POLL_GROWTH = 1.25
_MIN_POLL_DELAY = timedelta(seconds=1)
_MAX_NOTE_CHARS = 1000
_MAX_DOUBLINGS = 10
_MAX_GROWTHS = 100


class ModelGaveUp(ModelError):
    """A model failed too often, so the run fails with `failure`."""

    def __init__(self, failure: Failure, *, run_id: str, usage: Usage) -> None:
        super().__init__(failure.message, run_id=run_id, usage=usage)
        self.failure = failure


class ReplyLost(ModelError):
    """A pending reply is lost, and the model is not asked again by itself."""


def may_be_first(state: RunState, frame: FrameRow) -> bool:
    """Return whether no model of this run has replied or failed before."""
    return not (
        frame.failed_requests
        or frame.pending_reply
        or state.run.usage.requests
        or any(each.turns for each in state.frames.values())
    )


def refused_turn(action: Action, error: ModelError) -> ModelFailed:
    """Return the event of a request whose error ends the work of this worker."""
    assert isinstance(action, AskModel | CheckCall)  # noqa: S101 - no other action raises it
    return ModelFailed(
        frame_id=action.frame_id,
        error=None if isinstance(error, ModelGaveUp) else _shortened(str(error)),
        usage=_usage_of(error),
        loses_reply=isinstance(error, ReplyLost),
    )


def _usage_of(error: ModelError) -> Usage:
    return error.usage if isinstance(error.usage, Usage) else Usage()


def retry_delay(
    failed_requests: int, retry_after: float | None, *, spread: float = 0.0
) -> timedelta:
    """Return the time until a model is asked again.

    Args:
        failed_requests: How many requests of the turn failed in a row, from 1.
        retry_after: The seconds that the provider asks for, or `None`.
        spread: Which part of the longest spread is added, 0 to 1.
    """
    doublings: int = 2 ** min(failed_requests - 1, _MAX_DOUBLINGS)
    delay = min(FIRST_DELAY * doublings, MAX_DELAY)
    return max(delay, _asked_delay(retry_after)) * (1 + _SPREAD * spread)


def _asked_delay(retry_after: float | None) -> timedelta:
    asked = min(max(retry_after or 0.0, 0.0), MAX_RETRY_AFTER.total_seconds())
    return timedelta(seconds=asked)


def poll_delay(polls: int, poll_after: timedelta) -> timedelta:
    """Return the time until a pending reply is polled; it was polled `polls` times."""
    first = min(max(poll_after, _MIN_POLL_DELAY), MAX_RETRY_AFTER)
    # A float: the power may be larger than any timedelta.
    seconds = first.total_seconds() * _POLL_GROWTH ** min(polls, _MAX_GROWTHS)
    longest = max(first, MAX_DELAY)
    return timedelta(seconds=min(seconds, longest.total_seconds()))


@dataclass(frozen=True, slots=True)
class ModelDelays:
    """Makes the events of a frame whose model gives no reply now.

    Attributes:
        ports: The clock and the ids.
        max_failures: How many requests of a turn may fail in a row before the run
            fails, or `None` for no limit.
    """

    ports: Ports
    max_failures: int | None

    def after_interruption(
        self, state: RunState, frame: FrameRow, error: ModelError
    ) -> ModelDelayed:
        """Return the event of a failed request that no retry could follow.

        The failure does not count: the worker had to stop.
        """
        failed = frame.failed_requests
        wait = self._wait(
            state,
            frame,
            f"The worker stopped while requests failed: {_shortened(str(error))}",
            lambda spread: retry_delay(
                max(1, failed), error.retry_after, spread=spread
            ),
        )
        return ModelDelayed(
            wait=wait,
            usage=_usage_of(error),
            pending_reply=frame.pending_reply,
            failed_requests=failed,
        )

    def after_error(
        self, state: RunState, frame: FrameRow, error: ModelError
    ) -> ModelDelayed:
        """Return the event of a failed request; a pending reply stays pending.

        Raises `ModelGaveUp`.
        """
        return self._after_failure(
            state,
            frame,
            str(error),
            _usage_of(error),
            retry_after=error.retry_after,
            pending_reply=frame.pending_reply,
        )

    def after_loss(
        self, state: RunState, frame: FrameRow, lost: LostReply
    ) -> ModelDelayed:
        """Return the event of a pending reply that is lost.

        Raises `ModelGaveUp`, and `ReplyLost` if the model is not asked again.
        """
        if not lost.retryable:
            msg = (
                f"run {state.run.id}: the pending reply of agent {frame.agent!r} is "
                f"lost: {lost.reason.rstrip('.')}. Correct the cause, then resume the "
                "run: the model is asked again."
            )
            raise ReplyLost(msg, run_id=state.run.id, usage=lost.usage)
        text = f"the pending reply is lost: {lost.reason}"
        return self._after_failure(state, frame, text, lost.usage)

    def until_reply(
        self, state: RunState, frame: FrameRow, pending: PendingReply
    ) -> ModelDelayed:
        """Return the event of a reply that is not ready."""
        polls = 0 if frame.pending_reply is None else frame.polls + 1
        wait = self._wait(
            state,
            frame,
            f"The provider computes the reply {pending.id}.",
            lambda _: poll_delay(polls, pending.poll_after),
        )
        return ModelDelayed(
            wait=wait, usage=pending.usage, pending_reply=pending.id, failed_requests=0
        )

    def _after_failure(
        self,
        state: RunState,
        frame: FrameRow,
        text: str,
        usage: Usage,
        *,
        retry_after: float | None = None,
        pending_reply: str | None = None,
    ) -> ModelDelayed:
        now = self.ports.clock.now()
        period = (frame.woken_until or now) - now
        if period > timedelta():
            # `wake` made this attempt. It counts as none, and the next one comes when
            # the clock would have made it.
            wait = self._wait(
                state,
                frame,
                f"The attempt that was made early failed: {_shortened(text)}",
                lambda _: max(period, _asked_delay(retry_after)),
            )
            return ModelDelayed(
                wait=wait,
                usage=usage,
                pending_reply=pending_reply,
                failed_requests=frame.failed_requests,
                was_early=True,
            )
        failed = frame.failed_requests + 1
        if self.max_failures is not None and failed >= self.max_failures:
            failure = Failure(
                code="model",
                message=f"the model of agent {frame.agent!r} failed {failed} times in "
                f"a row, the last time: {_shortened(text)} Start a new run.",
            )
            raise ModelGaveUp(failure, run_id=state.run.id, usage=usage)
        wait = self._wait(
            state,
            frame,
            f"Attempt {failed} failed: {_shortened(text)}",
            lambda spread: retry_delay(failed, retry_after, spread=spread),
        )
        return ModelDelayed(
            wait=wait, usage=usage, pending_reply=pending_reply, failed_requests=failed
        )

    def _wait(
        self,
        state: RunState,
        frame: FrameRow,
        note: str,
        delay: Callable[[float], timedelta],
    ) -> Wait:
        now = self.ports.clock.now()
        run = state.run
        wait_id = layout.build_wait_id("model", self.ports.ids.new_ulid(now), run.id)
        wait = frame_wait(state, "model", wait_id, now, frame.id)
        spread = int(wait.digest[:4], 16) / 0xFFFF
        deadline = whole_milliseconds(now + delay(spread))
        return replace(wait, deadline=deadline, note=note)


def _shortened(text: str) -> str:
    short = text if len(text) <= _MAX_NOTE_CHARS else f"{text[:_MAX_NOTE_CHARS]}…"
    return short if short.endswith((".", "…")) else f"{short}."
