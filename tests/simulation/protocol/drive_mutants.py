"""Bugs of the run loop: when a call or a model turn may begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from continuations.authoring.tool.call_gate import CallGate, CallNotBegun
from continuations.core.changes import threads, tool_messages
from continuations.core.changes.events import (
    CallRaised,
    CallReturned,
    ModelReplied,
    RepeatAllowed,
    UserMessageAdded,
)
from continuations.core.changes.plan import AskModel, RunTool, plan
from continuations.core.changes.reducer import advance
from continuations.core.messages import TranscriptCheck
from continuations.core.rows.calls import Started
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.engine import inbox_messages as inbox_reader
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.worker.performer import Performer
from continuations.engine.worker.run_loop import RunLoop
from continuations.ledger import objects
from continuations.ledger.arrivals import arrivals
from tests.simulation.mutants.mutant import mutant, patch, returns, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from continuations.authoring.context import ToolContext
    from continuations.core.changes.events import Event
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import Draft, RunState
    from continuations.wire.arrivals import InboxMessage
    from tests.simulation.mutants.mutant import Original, Patches

    ContextChange = Callable[[ToolContext, CallRow], ToolContext]

T = TypeVar("T")


# What must be durable before an action begins ---------------------------------------


def _not_saved_at_once(*kinds: type[Event]) -> Patches:
    def apply(original: Original, self: RunLoop, event: Event) -> None:
        last_event_to_save = self._last_event_to_save
        original()
        if isinstance(event, kinds):
            self._last_event_to_save = last_event_to_save

    yield patch(RunLoop._apply, apply)


@mutant("model_reads_committed_messages")
def result_is_committed_with_the_next_turn() -> Patches:
    """The result of a call that may not be repeated is committed with the next turn."""
    yield from _not_saved_at_once(CallReturned, CallRaised)


@mutant("model_reads_committed_messages")
def model_reply_is_committed_too_late() -> Patches:
    """A model's reply is committed with the next event."""
    yield from _not_saved_at_once(ModelReplied)


def _started_before_commit(*kinds: type[AskModel | RunTool]) -> Patches:
    def launch_actions(original: Original, self: RunLoop) -> Any:
        for action in plan(self.state):
            if isinstance(action, kinds):
                self._event_to_await[action] = 0
        return original()

    yield patch(RunLoop._launch_actions, launch_actions)


@mutant("started_once", "finished_never_runs_again", "executed_equals_approved")
def call_runs_before_its_intent_is_committed() -> Patches:
    """A call runs while its intent is being committed."""
    yield from _started_before_commit(RunTool)


@mutant("model_reads_committed_messages")
def model_is_asked_before_results_are_committed() -> Patches:
    """A model is asked while the results that it reads are being committed."""
    yield from _started_before_commit(AskModel)


@mutant(
    "model_reads_committed_messages",
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
)
def commit_counts_later_events_as_durable() -> Patches:
    """A commit counts events as durable that came after it began."""

    async def save(original: Original, self: RunLoop) -> Any:
        asked = await original()
        self._last_event_saved = self._last_event_to_save
        return asked

    yield patch(RunLoop._save, save)


@mutant(
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
    "executed_equals_approved",
)
def calls_begin_before_the_claim() -> Patches:
    """Calls begin before the run is claimed."""
    yield from _started_before_commit(AskModel, RunTool)
    yield returns(StoreJournal.can_start_action, value=True)


# After a crash ----------------------------------------------------------------------


@mutant("started_once", "finished_never_runs_again")
def a_started_call_is_ready_after_a_takeover() -> Patches:
    """After a crash every started call runs again, also one that may not be
    repeated."""

    def with_interrupted_calls(state: RunState) -> RunState:
        for call in list(state.calls.values()):
            if isinstance(call.state, Started):
                state = advance(state, RepeatAllowed(call_id=call.id))
        return state

    yield patch(ArrivalReducer.with_interrupted_calls, with_interrupted_calls)


@mutant("same_end_as_uninterrupted", "finished_never_runs_again", "started_once")
def a_started_call_is_guessed_to_have_failed() -> Patches:
    """After a crash a started call counts as failed, by a guess."""

    def with_interrupted_calls(state: RunState) -> RunState:
        for call in list(state.calls.values()):
            if isinstance(call.state, Started):
                lost = CallRaised(call_id=call.id, code="exception", content="ERROR")
                state = advance(state, lost)
        return state

    yield patch(ArrivalReducer.with_interrupted_calls, with_interrupted_calls)


def _changed_tool_context(change: ContextChange) -> Patches:
    def tool_context(original: Original, call: CallRow) -> Any:
        return change(original(), call)

    yield patch(Performer._tool_context, tool_context)


@mutant("idempotency_key_stable")
def an_attempt_has_a_new_key() -> Patches:
    """Each attempt of a call has its own idempotency key."""

    def with_new_key(context: ToolContext, call: CallRow) -> ToolContext:
        key = f"{context.idempotency_key}-{call.attempts}"
        return replace(context, idempotency_key=key)

    yield from _changed_tool_context(with_new_key)


@mutant("idempotency_key_stable")
def fence_never_grows() -> Patches:
    """The fence of a tool never grows."""

    def with_first_fence(context: ToolContext, call: CallRow) -> ToolContext:
        del call
        return replace(context, fence=1)

    yield from _changed_tool_context(with_first_fence)


# The transcript ---------------------------------------------------------------------


def _transcripts_unchecked() -> Patches:
    yield skip(TranscriptCheck.violation_at_end)


@mutant("transcripts_valid", "same_end_as_uninterrupted")
def results_are_in_completion_order() -> Patches:
    """Results are appended in the order in which the calls ended, unchecked."""
    ended: list[str] = []

    def apply(original: Original, event: Event) -> None:
        if isinstance(event, CallReturned | CallRaised):
            ended.append(event.call_id)
        original()

    def gather(original: Original, rows: Sequence[CallRow]) -> Any:
        position = {call_id: number for number, call_id in enumerate(ended)}
        by_end = sorted(rows, key=lambda row: position.get(row.id, -1))
        return original(rows=by_end)

    yield patch(RunLoop._apply, apply)
    yield patch(tool_messages.gather, gather)
    yield from _transcripts_unchecked()


@mutant("transcripts_valid")
def message_is_between_a_call_and_its_result() -> Patches:
    """A message is added between a call and its result, unchecked."""

    def add_user_message(draft: Draft, event: UserMessageAdded) -> None:
        draft.put_run(replace(draft.run, last_inbox_number=event.number))
        draft.append(ROOT_FRAME_ID, event.message)

    def with_inbox_messages(
        state: RunState, inbox_messages: tuple[InboxMessage, ...]
    ) -> RunState:
        for each in inbox_messages:
            if (
                state.run.status in ENDED_STATUSES
                or each.number != state.run.last_inbox_number + 1
            ):
                break
            event = UserMessageAdded(number=each.number, message=each.message)
            state = advance(state, event)
        return state

    def readable_numbers(state: RunState, numbers: Sequence[int]) -> list[int]:
        return [each for each in numbers if each > state.run.last_inbox_number]

    yield patch(arrivals.readable_numbers, readable_numbers)
    yield patch(threads._take_message, add_user_message)
    yield patch(inbox_reader.with_inbox_messages, with_inbox_messages)
    yield from _transcripts_unchecked()


@mutant("each_message_once")
def message_is_added_twice() -> Patches:
    """A message is added twice."""

    def with_inbox_messages(
        original: Original, state: RunState, inbox_messages: tuple[InboxMessage, ...]
    ) -> Any:
        after = original()
        added = after.run.last_inbox_number - state.run.last_inbox_number
        for each in inbox_messages[:added]:
            if after.run.status not in ENDED_STATUSES:
                number = after.run.last_inbox_number + 1
                again = UserMessageAdded(number=number, message=each.message)
                after = advance(after, again)
                after = replace(
                    after, run=replace(after.run, last_inbox_number=number - 1)
                )
        return after

    yield patch(inbox_reader.with_inbox_messages, with_inbox_messages)


@mutant("each_message_once")
def a_message_is_lost() -> Patches:
    """A message counts as read, but is never added."""

    def add_user_message(draft: Draft, event: UserMessageAdded) -> None:
        draft.put_run(replace(draft.run, last_inbox_number=event.number))

    yield patch(threads._take_message, add_user_message)


@mutant("started_once", "finished_never_runs_again")
def begun_call_is_taken_back() -> Patches:
    """An interrupted call that has begun is taken back like one that has not."""

    def enter(self: CallGate) -> None:
        if self._closed or not self._may_begin():
            raise CallNotBegun

    yield patch(CallGate.enter, enter)


@mutant("nothing_unread_at_the_end")
def a_run_finishes_without_a_last_look() -> Patches:
    """A run finishes without a last look at its inbox."""
    yield returns(RunLoop._would_finish, value=False)


# Errors -----------------------------------------------------------------------------


@mutant("no_foreign_errors")
def errors_of_the_store_leak() -> Patches:
    """Errors of the storage package reach the caller."""

    async def translate_errors(operation: Coroutine[Any, Any, T]) -> T:
        return await operation

    yield patch(objects._translate_errors, translate_errors)
