"""The golden objects of texts about which a guardrail asks a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.events import InputHeld, ModelReplied, TextAccepted
from continuations.core.judged_texts import with_digest
from continuations.core.messages import Message
from continuations.core.state import ROOT_FRAME_ID
from continuations.core.trips import Trip
from continuations.core.usage import Usage
from continuations.core.waits import Wait
from continuations.value_class import replace
from continuations.wire.continuation import Continuation
from continuations.wire.records import DECISION, WAIT
from tests.core.rows import (
    MOMENT,
    RUN,
    apply_events,
    make_decision,
    new_state,
    run_row,
)

if TYPE_CHECKING:
    from continuations.core.state import RunState
    from continuations.core.trips import GuardrailStage

ODD_TEXT = "caf\u00e9 \u2028 \x00 \u202e \ud800"
REPLY = Message.from_mapping({"role": "assistant", "content": "a fish"})


def _wait(stage: GuardrailStage) -> Wait:
    wait = Wait(
        id=f"{stage}-01kc4h9v8k5m7n2p3q4r5s6t7v@{RUN}",
        run_id=RUN,
        frame_id=ROOT_FRAME_ID,
        kind="input" if stage == "input" else "output",
        path=("hr",),
        tool="hr",
        arguments_json=f'{{"{stage}":"a fish"}}',
        schema_json='{"type":"object"}',
        digest="",
        created_at=MOMENT,
        deadline=MOMENT,
        note=ODD_TEXT,
        policy="fishy",
    )
    return with_digest(run_row(), wait)


def _trip(stage: GuardrailStage) -> Trip:
    return Trip(
        frame_id=ROOT_FRAME_ID,
        path=("hr",),
        guardrail="fishy",
        stage=stage,
        reason=ODD_TEXT,
    )


def held_input() -> RunState:
    """Return a suspended run whose input a person must accept."""
    held = InputHeld(wait=_wait("input"), usage=Usage(requests=1), trip=_trip("input"))
    return _suspended(apply_events(new_state(), held))


def accepted_input() -> RunState:
    """Return a run whose input a person accepted."""
    return apply_events(held_input(), TextAccepted(_wait("input").id))


def held_output() -> RunState:
    """Return a suspended run that holds a reply."""
    return _held(REPLY)


def held_output_with_facts() -> RunState:
    """Return a suspended run that holds a reply of a fallback model."""
    return _held(REPLY.with_metadata('{"model":"second"}'))


def _held(reply: Message) -> RunState:
    held = ModelReplied(
        frame_id=ROOT_FRAME_ID,
        message=reply,
        usage=Usage(requests=1),
        trip=_trip("output"),
        wait=_wait("output"),
    )
    return _suspended(apply_events(new_state(), held))


def _suspended(state: RunState) -> RunState:
    return replace(state, run=replace(state.run, status="suspended"))


def judged_objects() -> dict[str, tuple[bytes, object]]:
    """Return the bytes and the value of each object, by its name."""
    objects: dict[str, tuple[bytes, object]] = {}
    for make in (held_input, accepted_input, held_output, held_output_with_facts):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = (continuation.to_bytes(), continuation)
    wait = _wait("output")
    objects["wait-output"] = (WAIT.encode(wait), wait)
    decision = replace(make_decision("approve", wait.id), reason=None)
    objects["decision-output"] = (DECISION.encode(decision, RUN), decision)
    return objects
