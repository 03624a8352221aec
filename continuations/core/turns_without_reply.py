"""Turns of a model that gave no reply: it failed, or its reply comes later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import run_events
from continuations.core.events import ModelFailed, SuspensionBegan

if TYPE_CHECKING:
    from continuations.core.draft import Draft
    from continuations.core.events import ModelDelayed
    from continuations.core.usage import Usage


def apply(draft: Draft, event: ModelFailed | ModelDelayed) -> None:
    """Record the cost of a turn, and suspend a frame whose reply comes later."""
    add_usage(draft, event.usage)
    if isinstance(event, ModelFailed):
        failed = draft.frames.get(event.frame_id)
        if failed is not None and event.error is not None:
            draft.put_frame(replace(failed, model_error=event.error))
        return
    frame = draft.frame(event.wait.frame_id)
    polls = 0 if frame.pending_reply is None else frame.polls + 1
    delayed = replace(
        frame,
        failed_requests=event.failed_requests,
        pending_reply=event.pending_reply,
        polls=polls if event.pending_reply is not None else 0,
        model_error=None,
    )
    draft.put_frame(delayed)
    if event.added:
        draft.append(frame.id, *event.added)
    run_events.apply(draft, SuspensionBegan(wait=event.wait))


def add_usage(draft: Draft, usage: Usage) -> None:
    """Add the cost of requests to the run."""
    draft.put_run(replace(draft.run, usage=draft.run.usage + usage))
