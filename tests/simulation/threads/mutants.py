"""Bugs of threads: their messages, replies, interruptions and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations.core.changes import operator_changes
from continuations.core.changes.events import TurnBeginning
from continuations.core.operator_request import OperatorRequest
from continuations.core.rows.state import RunState
from continuations.engine.inbox_messages import (
    is_for_present_reply,
    leaves_messages,
    with_inbox_messages,
    with_next_messages,
)
from continuations.engine.sweep.sweeping import RunSweep
from continuations.engine.threads import async_ticket
from continuations.ledger import layout
from continuations.ledger.arrivals import inbox, thread_arrivals
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.objects import Objects
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.wire.arrivals import InboxMessage
from continuations.wire.versions import VersionHeader
from tests.simulation.families import THREADS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    mutants_of,
    patch,
    returns,
    skip,
)

mutant = mutants_of(THREADS)


@mutant("a_message_id_is_posted_once", "each_message_once")
def an_id_of_a_message_is_ignored() -> Patches:
    """A message with an id of its sender is posted like any other."""

    async def post_once(
        objects: Objects, run_id: str, message: InboxMessage, last_read: int, nonce: str
    ) -> InboxMessage:
        new = replace(message, id=nonce)
        return await inbox.post(objects, run_id, new, last_read)

    yield patch(inbox.post_once, post_once)


@mutant("a_message_id_is_posted_once")
def a_repeat_does_not_begin_at_the_kept_number() -> Patches:
    """A repeated message begins at the next free number."""

    async def post_once(
        objects: Objects, run_id: str, message: InboxMessage, last_read: int, nonce: str
    ) -> InboxMessage:
        number = await MESSAGES.next_number(objects, run_id, last_read)
        return await inbox._post_from(
            objects, run_id, message, number, last_read, nonce=nonce
        )

    yield patch(inbox.post_once, post_once)


@mutant("senders_get_their_own_replies")
def the_newest_reply_is_given_to_all() -> Patches:
    """The newest version is taken for the reply to every message."""

    async def load_reply(objects: Objects, newest: VersionHeader) -> LoadedVersion:
        return await Versions(objects, newest.run_id).load(newest.number)

    yield patch(thread_arrivals.load_reply, load_reply, only_in=(async_ticket,))


@mutant("each_message_has_one_reply")
def messages_of_all_senders_are_merged() -> Patches:
    """Messages of several senders are merged."""

    def merges(original: Original, state: RunState, message: InboxMessage) -> Any:
        return original(message=replace(message, by=state.run.sender))

    yield patch(is_for_present_reply, merges)


@mutant("each_message_has_one_reply")
def a_queued_message_is_merged() -> Patches:
    """A queued message is merged into the present turn."""

    def merges(original: Original, message: InboxMessage) -> Any:
        return original(message=replace(message, when_busy="merge"))

    yield patch(is_for_present_reply, merges)


@mutant("each_message_has_one_reply", "senders_get_their_own_replies")
def the_next_message_is_read_before_the_reply_is_stored() -> Patches:
    """The next message is read before the reply is stored."""

    def with_next_read(
        state: RunState,
        inbox_messages: tuple[InboxMessage, ...],
        beginning: TurnBeginning | None,
    ) -> RunState:
        return with_inbox_messages(state, inbox_messages, beginning)

    yield patch(with_next_messages, with_next_read)


@mutant("no_message_is_left_in_a_thread", "no_run_stranded")
def messages_behind_a_turn_have_no_marker() -> Patches:
    """A thread rests over messages without a marker."""

    async def post(original: Original, objects: Objects) -> Any:
        posted = await original()
        await objects.delete(posted.marker or "")
        return posted

    yield returns(leaves_messages, value=False)
    yield patch(inbox._post_from, post)


@mutant("turns_end_as_asked")
def a_stop_leaves_the_calls_that_wait() -> Patches:
    """A stop leaves the calls that wait."""

    def with_turn_ended(
        original: Original, state: RunState, request: OperatorRequest
    ) -> Any:
        if request.action == "stop":
            return state
        return original()

    yield patch(operator_changes.with_turn_ended, with_turn_ended)


@mutant("turns_end_as_asked")
def a_late_stop_ends_the_next_turn() -> Patches:
    """A stop counts for the present turn, whatever message it names."""

    def ends_turn(original: Original, state: RunState, request: OperatorRequest) -> Any:
        number = state.run.last_inbox_number
        if request.action == "stop":
            request = replace(request, message_number=number)
        return original(request=request)

    yield patch(operator_changes.ends_turn, ends_turn)


@mutant("ended_turn_begins_nothing")
def an_interruption_leaves_approved_calls() -> Patches:
    """An interruption leaves the approved calls."""

    def with_cancelled_call(original: Original, state: RunState, call_id: str) -> Any:
        call = state.calls.get(call_id)
        if call is not None and call.approved_digest is not None:
            return state
        return original()

    yield patch(operator_changes.with_cancelled_call, with_cancelled_call)


@mutant("resting_thread_leaves_no_keys")
def a_release_marker_of_a_resting_thread_stays() -> Patches:
    """The marker of a release stays when the thread rests."""
    yield skip(RunSweep._delete_releases)


@mutant("generations_follow_each_other")
def a_new_generation_begins_beside_the_old_one() -> Patches:
    """A sender takes a thread for closed while it works."""

    async def newest_generation(
        original: Original, objects: Objects, agent: str, key: str
    ) -> Any:
        newest = await original()
        if not newest.version or newest.number > 1:
            return newest
        header = await Versions(objects, newest.run_id).header(newest.version)
        if header.status != "suspended":
            return newest
        run_id = layout.thread_run_id(agent, key, 2)
        number = await Versions(objects, run_id).newest_number()
        return thread_arrivals.Generation(2 if number else 1, run_id, number)

    yield patch(thread_arrivals.newest_generation, newest_generation)
