"""Waits about the input or the output of an agent, and the events that end them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.changes.events import TextAccepted, TextRefused
from continuations.core.changes.judged_texts import (
    REFUSED_INPUT,
    WITHHELD_REPLY,
    with_digest,
)
from continuations.core.rows.decisions import Decision, Deny
from continuations.core.rows.run import Trip, text_note
from continuations.core.rows.waits import Wait, consequence_of_deadline
from continuations.ledger import layout
from continuations.value_class import replace
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from continuations.authoring.approval import ApprovalPolicy
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports


def new_text_wait(
    state: RunState,
    frame: FrameRow,
    policy: ApprovalPolicy | None,
    trip: Trip,
    text: str,
    ports: Ports,
) -> Wait:
    """Return the wait of a guardrail that lets a person accept a text."""
    now, run, stage = ports.clock.now(), state.run, trip.stage
    schema = {
        "type": "object",
        "properties": {stage: {"type": "string"}},
        "required": [stage],
    }
    plain = Wait(
        id=layout.build_wait_id(stage, ports.ids.new_ulid(now), run.id),
        run_id=run.id,
        frame_id=frame.id,
        kind="input" if stage == "input" else "output",
        path=trip.path,
        tool=frame.agent,
        arguments_json=jsontext.canonical({stage: text}),
        schema_json=jsontext.canonical(schema),
        digest="",
        created_at=now,
        note=text_note(trip),
        policy=trip.guardrail,
    )
    wait = with_digest(run, plain)
    if policy is None:
        return wait
    timeout, quorum = policy.decision_timeout, policy.quorum
    return replace(
        wait,
        deadline=None if timeout is None else whole_milliseconds(now + timeout),
        quorum=quorum and quorum.of_run(run),
        on_deadline_json=policy.deadline_action_json,
        remind_after=policy.reminder_seconds,
    )


def event_of_decision(wait: Wait, decision: Decision) -> TextAccepted | TextRefused:
    """Return what a decision means for a text: only `Approve` accepts it."""
    if decision.kind == "approve":
        return TextAccepted(wait.id)
    is_denied = decision.kind == "deny"
    ended_by = "a person refused" if is_denied else "no person accepted"
    given = decision.reason
    if decision.kind == "expire":
        action = consequence_of_deadline(wait)
        given = action.reason if isinstance(action, Deny) else given
    reason = f": {given}" if given else ""
    in_time = " in time" if decision.kind == "expire" else ""
    text = f"{ended_by} the {wait.kind}{in_time}{reason}. {wait.note or ''}"
    is_input = wait.rules.judges == "input"
    message = REFUSED_INPUT if is_input else WITHHELD_REPLY
    return TextRefused(wait_id=wait.id, content=text.rstrip(), message=message)
