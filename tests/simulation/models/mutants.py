"""Bugs of models that are limited or reply later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations.authoring.tool.tool_protocol import AgentProtocol
from continuations.core.changes import run_events
from continuations.core.changes.events import Event, ModelDelayed, ModelFailed
from continuations.core.model_protocol import ModelRequest
from continuations.core.rows.frames import FrameRow
from continuations.core.rows.state import Draft
from continuations.core.rows.waits import Wait
from continuations.engine import deadlines, model_delays
from continuations.engine.model_delays import ModelDelays
from continuations.engine.model_registry import ModelRegistry
from continuations.engine.worker.run_loop import RunLoop
from continuations.errors import ModelError
from continuations.ledger import markers
from tests.simulation.families import MODELS
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch

mutant = mutants_of(MODELS)

# Replies that come later ------------------------------------------------------------


@mutant("pending_turn_is_asked_once")
def a_pending_reply_is_forgotten() -> Patches:
    """The id of a pending reply is not stored."""

    def go_without_reply(original: Original, event: ModelFailed | ModelDelayed) -> None:
        if isinstance(event, ModelDelayed):
            event = replace(event, pending_reply=None)
        original(event=event)

    yield patch(run_events.go_without_reply, go_without_reply)


@mutant("pending_turn_is_asked_once")
def a_poll_asks_the_model() -> Patches:
    """A model whose reply is pending is asked instead of polled."""

    async def request_once(original: Original) -> Any:
        return await original(pending_reply=None)

    yield patch(ModelRegistry._request_once, request_once)


@mutant("committed_reply_is_polled")
def the_first_reply_is_polled_for_ever() -> Patches:
    """A model is polled for the first reply that it ever announced."""
    first: dict[str, str] = {}

    async def request_once(
        original: Original,
        self: ModelRegistry,
        agent: AgentProtocol,
        request: ModelRequest,
        pending_reply: str | None,
    ) -> Any:
        if pending_reply is not None:
            key = f"{id(self)}/{request.run_id}/{agent.name}"
            pending_reply = first.setdefault(key, pending_reply)
        return await original(pending_reply=pending_reply)

    yield patch(ModelRegistry._request_once, request_once)


@mutant("no_run_stranded")
def a_lost_reply_stays_pending() -> Patches:
    """A reply that is lost stays pending."""

    def after_loss(original: Original, frame: FrameRow) -> Any:
        event = original()
        return replace(event, pending_reply=frame.pending_reply)

    yield patch(ModelDelays.after_loss, after_loss)


@mutant("reply_follows_what_was_sent")
def a_message_is_added_before_a_pending_reply() -> Patches:
    """A message is added while a reply is pending."""

    def reads_messages(self: FrameRow) -> bool:
        return not self.open_call_ids

    yield patch(FrameRow.reads_messages, reads_messages)


# Limits and outages -----------------------------------------------------------------


@mutant("attempts_back_off")
def attempts_do_not_back_off() -> Patches:
    """Each delay is as long as the first."""

    def retry_delay(original: Original) -> Any:
        return original(failed_requests=1)

    yield patch(model_delays.retry_delay, retry_delay)


@mutant("attempts_back_off")
def failures_are_forgotten() -> Patches:
    """The end of a wait forgets the failures before it."""

    def after_error(original: Original, frame: FrameRow) -> Any:
        return original(frame=replace(frame, failed_requests=0))

    yield patch(ModelDelays.after_error, after_error)


@mutant("suspended_frame_asks_no_model")
def a_suspended_frame_stays_in_the_plan() -> Patches:
    """A frame that waits for its model stays in the plan."""

    def put_wait(original: Original, self: Draft, row: Wait) -> None:
        original()
        if row.frame_id:
            self._set_runnable(row.frame_id, runnable=True)

    yield patch(Draft.put_wait, put_wait)


@mutant("timers_end_in_time")
def each_resume_asks_a_limited_model() -> Patches:
    """A frame whose model is limited may be asked by the next worker."""

    def is_past_deadline(original: Original, wait: Wait) -> Any:
        return wait.rules.may_wake or original()

    yield patch(deadlines.is_past_deadline, is_past_deadline)


@mutant("no_run_stranded")
def a_wait_for_a_model_has_no_marker() -> Patches:
    """A wait for a model has no marker."""

    def deadline_marker(original: Original, wait: Wait) -> Any:
        return None if wait.rules.may_wake else original()

    yield patch(markers.deadline_marker, deadline_marker)


@mutant("siblings_of_a_suspended_frame_go_on")
def a_limited_model_stops_its_siblings() -> Patches:
    """One limited model stops all frames of its run."""

    def apply(original: Original, self: RunLoop, event: Event) -> None:
        original()
        if isinstance(event, ModelDelayed):
            self.model_error = ModelError("simulated stop")

    yield patch(RunLoop._apply, apply)
