"""Faults of driving: when a call or a turn may begin, and what is told of it."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import reducer, transcript
from continuations.core.actions import AskModel, RunTool
from continuations.core.calls import Started
from continuations.core.events import (
    CallRaised,
    CallReturned,
    ModelReplied,
    RepeatAllowed,
    UserMessageAdded,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.engine import run_loop
from continuations.engine.arrival_reducer import ArrivalReducer
from continuations.engine.journal import StoreJournal
from continuations.engine.performer import Performer
from continuations.engine.run_loop import RunLoop
from continuations.ledger import objects
from tests.simulation.mutants.mutant import (
    Patch,
    mutant,
    mutants_in,
    patches_everywhere,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from continuations.authoring.context import ToolContext
    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.draft import Draft
    from continuations.core.events import Event
    from continuations.core.frames import FrameRow
    from continuations.core.state import RunState
    from continuations.wire.records import CancelRequest, InboxMessage
    from tests.simulation.mutants.mutant import Patches

    Change = Callable[[ToolContext, CallRow], ToolContext]


# What must be durable before an action begins -------------------------------


def _events_not_counted_as_new(*kinds: type[Event]) -> Patches:
    real = RunLoop._apply

    def apply(self: RunLoop, event: Event) -> None:
        told = self._events_to_save
        real(self, event)
        if isinstance(event, kinds):
            self._events_to_save = told

    yield Patch(RunLoop, "_apply", apply)


@mutant(
    "The result of a call that may not be repeated is committed with the next turn.",
    "model_reads_committed_messages",
)
def result_is_committed_with_the_next_turn() -> Patches:
    yield from _events_not_counted_as_new(CallReturned, CallRaised)


@mutant(
    "What a model said is committed with the next thing that is.",
    "model_reads_committed_messages",
)
def model_reply_is_committed_too_late() -> Patches:
    yield from _events_not_counted_as_new(ModelReplied)


def _actions_before_commit(*kinds: type[AskModel | RunTool]) -> Patches:
    real = RunLoop._start_actions

    def launch(self: RunLoop) -> bool:
        for action in plan(self.state):
            if isinstance(action, kinds):
                self._saves_needed[action] = 0
        return real(self)

    yield Patch(RunLoop, "_start_actions", launch)


@mutant(
    "A call runs while the intent to run it is being committed.",
    "started_once",
    "finished_never_runs_again",
    "executed_equals_approved",
)
def call_runs_before_its_intent_is_committed() -> Patches:
    yield from _actions_before_commit(RunTool)


@mutant(
    "A model is asked while the results that it reads are being committed.",
    "model_reads_committed_messages",
)
def model_is_asked_before_results_are_committed() -> Patches:
    yield from _actions_before_commit(AskModel)


@mutant(
    "A commit that ends makes durable what was told after it had begun.",
    "model_reads_committed_messages",
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
)
def commit_counts_later_events_as_durable() -> Patches:
    real = RunLoop._save

    async def save(self: RunLoop) -> CancelRequest | None:
        cancellation = await real(self)
        self._events_saved = self._events_to_save
        return cancellation

    yield Patch(RunLoop, "_save", save)


@mutant(
    "Calls begin before the run is claimed.",
    "started_once",
    "finished_never_runs_again",
    "turn_asked_once",
    "executed_equals_approved",
)
def calls_begin_before_the_claim() -> Patches:
    yield from _actions_before_commit(AskModel, RunTool)
    yield Patch(StoreJournal, "can_start_call", property(lambda _: True))


# After a crash --------------------------------------------------------------


@mutant(
    "After a crash every started call runs again, also one that may not.",
    "started_once",
    "finished_never_runs_again",
)
def a_started_call_is_ready_after_a_takeover() -> Patches:
    def with_interrupted_calls(self: ArrivalReducer, state: RunState) -> RunState:
        del self
        for call in list(state.calls.values()):
            if isinstance(call.state, Started):
                state = advance(state, RepeatAllowed(call_id=call.id))
        return state

    yield Patch(ArrivalReducer, "with_interrupted_calls", with_interrupted_calls)


@mutant(
    "After a crash a started call is guessed to have failed.",
    "same_end_as_uninterrupted",
    "finished_never_runs_again",
    "started_once",
)
def a_started_call_is_guessed_to_have_failed() -> Patches:
    def with_interrupted_calls(self: ArrivalReducer, state: RunState) -> RunState:
        del self
        for call in list(state.calls.values()):
            if isinstance(call.state, Started):
                lost = CallRaised(call_id=call.id, code="exception", content="ERROR")
                state = advance(state, lost)
        return state

    yield Patch(ArrivalReducer, "with_interrupted_calls", with_interrupted_calls)


def _changed_tool_context(change: Change) -> Patches:
    real = Performer._tool_context

    def context(
        self: Performer,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        fence: int,
    ) -> ToolContext:
        return change(real(self, state, call, tool, fence), call)

    yield Patch(Performer, "_tool_context", context)


@mutant(
    "Each attempt of a call has an idempotency key of its own.",
    "idempotency_key_stable",
)
def an_attempt_has_a_new_key() -> Patches:
    def renamed(context: ToolContext, call: CallRow) -> ToolContext:
        key = f"{context.idempotency_key}-{call.attempts}"
        return replace(context, idempotency_key=key)

    yield from _changed_tool_context(renamed)


@mutant("The fence that a tool is given stands still.", "idempotency_key_stable")
def fence_never_grows() -> Patches:
    def still(context: ToolContext, _call: CallRow) -> ToolContext:
        return replace(context, fence=1)

    yield from _changed_tool_context(still)


# The transcript -------------------------------------------------------------


def _transcripts_unchecked() -> Patches:
    def fault_in(_messages: object) -> None:
        return None

    yield from patches_everywhere(transcript.find_violation, fault_in)


@mutant(
    "Results are appended in the order in which the calls ended, unchecked.",
    "transcripts_valid",
    "same_end_as_uninterrupted",
)
def results_are_in_completion_order() -> Patches:
    real, apply_real = reducer._append_results, RunLoop._apply
    ended: list[str] = []

    def apply(self: RunLoop, event: Event) -> None:
        if isinstance(event, CallReturned | CallRaised):
            ended.append(event.call_id)
        apply_real(self, event)

    def append(draft: Draft, frame: FrameRow, rows: list[CallRow]) -> None:
        last = {call: place for place, call in enumerate(ended)}
        real(draft, frame, sorted(rows, key=lambda row: last.get(row.id, -1)))

    yield Patch(RunLoop, "_apply", apply)
    yield Patch(reducer, "_append_results", append)
    yield from _transcripts_unchecked()


@mutant(
    "A message is taken in between a call and its result, unchecked.",
    "transcripts_valid",
)
def message_is_between_a_call_and_its_result() -> Patches:
    def user(draft: Draft, event: UserMessageAdded) -> None:
        draft.put_run(replace(draft.run, last_inbox_number=event.number))
        draft.append("f1", event.message)

    def heard(state: RunState, letters: tuple[InboxMessage, ...]) -> RunState:
        for letter in letters:
            if (
                state.run.status in ENDED_STATUSES
                or letter.number != state.run.last_inbox_number + 1
            ):
                break
            said = UserMessageAdded(number=letter.number, message=letter.message)
            state = advance(state, said)
        return state

    yield Patch(reducer, "_add_user_message", user)
    yield from patches_everywhere(run_loop.with_messages, heard)
    yield from _transcripts_unchecked()


@mutant("A message is said twice.", "each_message_once")
def message_is_added_twice() -> Patches:
    real = run_loop.with_messages

    def heard(state: RunState, letters: tuple[InboxMessage, ...]) -> RunState:
        after = real(state, letters)
        told = after.run.last_inbox_number - state.run.last_inbox_number
        for letter in letters[:told]:
            if after.run.status not in ENDED_STATUSES:
                number = after.run.last_inbox_number + 1
                again = UserMessageAdded(number=number, message=letter.message)
                after = advance(after, again)
                after = replace(
                    after, run=replace(after.run, last_inbox_number=number - 1)
                )
        return after

    yield from patches_everywhere(real, heard)


@mutant(
    "A message counts as read without having been said.",
    "each_message_once",
)
def a_message_is_lost() -> Patches:
    def user(draft: Draft, event: UserMessageAdded) -> None:
        draft.put_run(replace(draft.run, last_inbox_number=event.number))

    yield Patch(reducer, "_add_user_message", user)


# What callers are told ------------------------------------------------------


@mutant("Errors of the store come out as they are.", "no_foreign_errors")
def errors_of_the_store_leak() -> Patches:
    async def translated(verb: Coroutine[Any, Any, object]) -> object:
        return await verb

    yield Patch(objects, "_translate_errors", translated)


MUTANTS = mutants_in(globals())
