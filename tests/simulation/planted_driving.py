"""Faults of driving: when a call or a turn may begin, and what is told of it."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import reducer, transcript
from continuations.core.actions import Ask, Run
from continuations.core.calls import Started
from continuations.core.events import (
    CallRaised,
    CallReturned,
    ModelReplied,
    Repeated,
    UserSaid,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED
from continuations.engine import drive
from continuations.engine.drive import Drive
from continuations.engine.fold import Folder
from continuations.engine.journal import StoreJournal
from continuations.engine.perform import Performer
from continuations.ledger import objects
from tests.simulation.planted_fault import Swap, everywhere, fault, faults_in

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from continuations.authoring.context import ToolContext
    from continuations.authoring.tool import Tool
    from continuations.core.calls import CallRow
    from continuations.core.draft import Draft
    from continuations.core.events import Event
    from continuations.core.frames import FrameRow
    from continuations.core.table import Table
    from continuations.wire.records import Cancellation, Letter
    from tests.simulation.planted_fault import Swaps

    Change = Callable[[ToolContext, CallRow], ToolContext]


# What must be durable before an action begins -------------------------------


def _forgetting(*kinds: type[Event]) -> Swaps:
    real = Drive._apply

    def apply(self: Drive, event: Event) -> None:
        told = self._told
        real(self, event)
        if isinstance(event, kinds):
            self._told = told

    yield Swap(Drive, "_apply", apply)


@fault(
    "The result of a call that may not be repeated is committed with the next turn.",
    "asked_after_kept",
)
def a_result_is_kept_with_the_next_turn() -> Swaps:
    yield from _forgetting(CallReturned, CallRaised)


@fault(
    "What a model said is committed with the next thing that is.",
    "asked_after_kept",
)
def a_reply_is_kept_with_the_next_commit() -> Swaps:
    yield from _forgetting(ModelReplied)


def _without_waiting(*kinds: type[Ask | Run]) -> Swaps:
    real = Drive._launch

    def launch(self: Drive) -> bool:
        for action in plan(self.table):
            if isinstance(action, kinds):
                self._since[action] = 0
        return real(self)

    yield Swap(Drive, "_launch", launch)


@fault(
    "A call runs while the intent to run it is being committed.",
    "started_once",
    "finished_never_again",
    "executed_is_approved",
)
def a_call_runs_before_its_intent_is_kept() -> Swaps:
    yield from _without_waiting(Run)


@fault(
    "A model is asked while the results that it reads are being committed.",
    "asked_after_kept",
)
def a_turn_is_asked_before_its_results_are_kept() -> Swaps:
    yield from _without_waiting(Ask)


@fault(
    "A commit that ends makes durable what was told after it had begun.",
    "asked_after_kept",
    "started_once",
    "finished_never_again",
    "turn_asked_once",
)
def a_commit_keeps_what_came_after_it_began() -> Swaps:
    real = Drive._save

    async def save(self: Drive) -> Cancellation | None:
        cancellation = await real(self)
        self._durable = self._told
        return cancellation

    yield Swap(Drive, "_save", save)


@fault(
    "Calls begin before the run is claimed.",
    "started_once",
    "finished_never_again",
    "turn_asked_once",
    "executed_is_approved",
)
def calls_begin_before_the_claim() -> Swaps:
    yield from _without_waiting(Ask, Run)
    yield Swap(StoreJournal, "allows_a_call", property(lambda _: True))


# After a crash --------------------------------------------------------------


@fault(
    "After a crash every started call runs again, also one that may not.",
    "started_once",
    "finished_never_again",
)
def a_started_call_is_ready_after_a_takeover() -> Swaps:
    def interrupted(self: Folder, table: Table) -> Table:
        del self
        for call in list(table.calls.values()):
            if isinstance(call.state, Started):
                table = advance(table, Repeated(call=call.id))
        return table

    yield Swap(Folder, "interrupted", interrupted)


@fault(
    "After a crash a started call is guessed to have failed.",
    "same_end",
    "finished_never_again",
    "started_once",
)
def a_started_call_is_guessed_to_have_failed() -> Swaps:
    def interrupted(self: Folder, table: Table) -> Table:
        del self
        for call in list(table.calls.values()):
            if isinstance(call.state, Started):
                lost = CallRaised(call=call.id, code="exception", content="ERROR")
                table = advance(table, lost)
        return table

    yield Swap(Folder, "interrupted", interrupted)


def _with_context(change: Change) -> Swaps:
    real = Performer._context

    def context(
        self: Performer, table: Table, call: CallRow, tool: Tool[Any, Any], fence: int
    ) -> ToolContext:
        return change(real(self, table, call, tool, fence), call)

    yield Swap(Performer, "_context", context)


@fault("Each attempt of a call has an idempotency key of its own.", "same_key")
def an_attempt_has_a_new_key() -> Swaps:
    def renamed(context: ToolContext, call: CallRow) -> ToolContext:
        key = f"{context.idempotency_key}-{call.attempts}"
        return replace(context, idempotency_key=key)

    yield from _with_context(renamed)


@fault("The fence that a tool is given stands still.", "same_key")
def a_fence_stands_still() -> Swaps:
    def still(context: ToolContext, _call: CallRow) -> ToolContext:
        return replace(context, fence=1)

    yield from _with_context(still)


# The transcript -------------------------------------------------------------


def _unchecked() -> Swaps:
    def fault_in(_messages: object) -> None:
        return None

    yield from everywhere(transcript.fault, fault_in)


@fault(
    "Results are appended in the order in which the calls ended, unchecked.",
    "transcripts_valid",
    "same_end",
)
def results_stand_in_the_order_of_their_ends() -> Swaps:
    real, apply_real = reducer._append_results, Drive._apply
    ended: list[str] = []

    def apply(self: Drive, event: Event) -> None:
        if isinstance(event, CallReturned | CallRaised):
            ended.append(event.call)
        apply_real(self, event)

    def append(draft: Draft, frame: FrameRow, rows: list[CallRow]) -> None:
        last = {call: place for place, call in enumerate(ended)}
        real(draft, frame, sorted(rows, key=lambda row: last.get(row.id, -1)))

    yield Swap(Drive, "_apply", apply)
    yield Swap(reducer, "_append_results", append)
    yield from _unchecked()


@fault(
    "A message is taken in between a call and its result, unchecked.",
    "transcripts_valid",
)
def a_message_stands_between_a_call_and_its_result() -> Swaps:
    def user(draft: Draft, event: UserSaid) -> None:
        draft.put_run(replace(draft.run, inbox=event.number))
        draft.append("f1", event.message)

    def heard(table: Table, letters: tuple[Letter, ...]) -> Table:
        for letter in letters:
            if table.run.status in ENDED or letter.number != table.run.inbox + 1:
                break
            said = UserSaid(number=letter.number, message=letter.message)
            table = advance(table, said)
        return table

    yield Swap(reducer, "_user", user)
    yield from everywhere(drive.heard, heard)
    yield from _unchecked()


@fault("A message is said twice.", "each_message_once")
def a_message_is_said_twice() -> Swaps:
    real = drive.heard

    def heard(table: Table, letters: tuple[Letter, ...]) -> Table:
        after = real(table, letters)
        told = after.run.inbox - table.run.inbox
        for letter in letters[:told]:
            if after.run.status not in ENDED:
                number = after.run.inbox + 1
                again = UserSaid(number=number, message=letter.message)
                after = advance(after, again)
                after = replace(after, run=replace(after.run, inbox=number - 1))
        return after

    yield from everywhere(real, heard)


@fault(
    "A message counts as read without having been said.",
    "each_message_once",
)
def a_message_is_lost() -> Swaps:
    def user(draft: Draft, event: UserSaid) -> None:
        draft.put_run(replace(draft.run, inbox=event.number))

    yield Swap(reducer, "_user", user)


# What callers are told ------------------------------------------------------


@fault("Errors of the store come out as they are.", "no_leak_of_errors")
def errors_of_the_store_leak() -> Swaps:
    async def translated(verb: Coroutine[Any, Any, object]) -> object:
        return await verb

    yield Swap(objects, "_translated", translated)


FAULTS = faults_in(globals())
