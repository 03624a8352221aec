"""Bugs of texts that people judge, and of calls that an agent judges."""

from __future__ import annotations

from typing import Any

from continuations.core import jsontext
from continuations.core.changes import judged_texts
from continuations.core.changes.events import ModelReplied, TextAccepted, TextRefused
from continuations.core.changes.plan import CheckCall
from continuations.core.rows.calls import CallRow
from continuations.core.rows.frames import FrameRow
from continuations.core.rows.run import RunRow
from continuations.core.rows.state import Draft
from continuations.core.rows.waits import Wait
from continuations.engine.calls.call_examination import CallChecks, CallExaminer
from continuations.engine.guards import guarded_turn
from tests.simulation.families import JUDGES
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch

mutant = mutants_of(JUDGES)


@mutant("no_input_is_read_unasked", "no_output_is_used_unasked")
def a_denied_text_is_used() -> Patches:
    """Any decision lets an agent use its input or output."""

    def event_of_decision(wait: Wait) -> TextAccepted | TextRefused:
        return TextAccepted(wait.id)

    yield patch(guarded_turn.event_of_decision, event_of_decision)


@mutant("no_output_is_used_unasked")
def a_held_reply_is_a_message() -> Patches:
    """A held reply is a message of its frame at once."""

    def hold_reply(
        original: Original, draft: Draft, frame: FrameRow, event: ModelReplied
    ) -> None:
        original()
        draft.append(frame.id, event.message)

    yield patch(judged_texts.hold_reply, hold_reply)


@mutant("no_input_is_read_unasked")
def an_accepted_input_covers_other_texts() -> Patches:
    """An accepted input covers every later text of its frame."""

    def input_digest(run: RunRow, frame_id: str) -> str:
        return jsontext.digest(run.run_nonce, frame_id)

    yield patch(judged_texts.input_digest, input_digest)


@mutant("refused_by_an_agent_never_runs")
def the_second_check_of_a_call_is_ignored() -> Patches:
    """A check before the start of a call has no consequence."""

    def take_result(original: Original, check: CheckCall) -> Any:
        event = original()
        return None if check.before_start else event

    yield patch(CallChecks.take_result, take_result)


@mutant("refused_by_an_agent_never_runs")
def approved_calls_are_not_shown_to_agents() -> Patches:
    """A worker that did not examine a call does not let agents check it."""

    async def guarded_again(original: Original, call: CallRow) -> Any:
        if call.original_arguments is not None:
            return None
        return await original()

    yield patch(CallExaminer.guarded_again, guarded_again)
