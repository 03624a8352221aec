"""Laws of threads: each message has its own reply, and an ended turn begins nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import cast

from continuations import Failed, Queued, Replied, Suspended
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.errors import ThreadClosed
from continuations.ledger import layout
from continuations.ledger.layout import Marker, is_thread_id
from continuations.wire.arrivals import InboxMessage
from continuations.wire.fields import to_milliseconds
from tests.simulation.agents import thread_reply
from tests.simulation.evidence import Evidence, RunHistory, Version
from tests.simulation.operators.laws import requests_of
from tests.simulation.past.laws import rewinds_of
from tests.simulation.processes import wall_time
from tests.simulation.protocol.laws_of_runs import posted_messages
from tests.simulation.threads.actors import SendAnswer


def _threads(evidence: Evidence) -> Iterator[RunHistory]:
    for history in evidence.runs.values():
        if is_thread_id(history.run_id) and history.versions:
            yield history


def _replies(history: RunHistory) -> Iterator[tuple[range, Version]]:
    """Yield each version that has a reply, and the numbers of its messages."""
    for before, after in pairwise(history.versions):
        answered, run = before.state.run.answered, after.state.run
        if run.answered > answered:
            yield range(answered + 1, run.answered + 1), after


def _reply_to(history: RunHistory, number: int) -> Version | None:
    """Return the version that has the reply to a message, or closed the thread."""
    for numbers, version in _replies(history):
        if number in numbers:
            return version
    return None


def each_message_has_one_reply(evidence: Evidence) -> str | None:
    """A version answers the next message, and those that were merged into it.

    Only messages of its sender are merged, and only if the sender lets them. The model
    has read these messages and all before, and none after them. Numbers of answered and
    of read messages never fall.
    """
    for history in _threads(evidence):
        posted = list(posted_messages(evidence, history))
        for before, after in pairwise(history.versions):
            old, new = before.state.run, after.state.run
            if not old.answered <= new.answered <= new.last_inbox_number:
                return f"{history.run_id} answers {new.answered} after {old.answered}"
        for numbers, version in _replies(history):
            messages = [posted[number - 1] for number in numbers]
            run = version.state.run
            wrong = [each for each in messages[1:] if not _merges(each, messages[0])]
            if messages[0].closes and run.status in ENDED_STATUSES:
                continue
            if wrong:
                return f"{wrong} of {history.run_id} has the reply to {messages[0]}"
            read = [*_texts_before(history, version)]
            since = _part_of(history, version).versions[0].state.run.last_inbox_number
            read += [each.message.content for each in posted[since : run.answered]]
            if run.failure is None and run.output != thread_reply(read):
                return f"{history.run_id} answers {read} with {run.output}"
    return None


def _part_of(history: RunHistory, version: Version) -> RunHistory:
    return next(part for part in history.parts if version in part.versions)


def _texts_before(history: RunHistory, version: Version) -> Iterator[str]:
    """Yield the texts that a rewind, if it came before a reply, left to be read."""
    part = _part_of(history, version)
    state = part.versions[0].state
    if part is history.parts[0]:
        # Nothing was rewound: every message since the first one was read.
        return
    for message in state.logs[ROOT_FRAME_ID].messages:
        if message.role == "user":
            yield message.content


def _merges(message: InboxMessage, first: InboxMessage) -> bool:
    """Return whether a message may share the reply to another one."""
    lets = message.when_busy in ("merge", "interrupt") and not message.closes
    return lets and message.by == first.by


def no_message_is_left_in_a_thread(evidence: Evidence) -> str | None:
    """A thread rests only if each of its messages has a reply.

    It is closed over no message that was posted before the close.
    """
    for history in _threads(evidence):
        run = history.newest_state.run
        posted = list(posted_messages(evidence, history))
        if run.status == "resting" and run.answered < len(posted):
            return f"{history.run_id} rests, and {posted[run.answered :]} has no reply"
        if run.status == "finished" and not posted[run.answered - 1].closes:
            return f"{history.run_id} was closed by {posted[run.answered - 1]}"
    return None


def senders_get_their_own_replies(evidence: Evidence) -> str | None:
    """A sender gets the reply to the message that was sent, from its own generation.

    `Suspended` is for the message that the thread works on, `Queued` for a later one.
    `ThreadClosed` is for a message that no version has read.
    """
    for answer in evidence.environment.send_answers:
        result = answer.result
        if isinstance(result, Replied | Failed | Suspended | Queued | ThreadClosed):
            run_id = result.run_id
            history = evidence.runs.get(run_id or "")
            if history is None:
                return f"{answer} is of no thread"
            why = _why_foreign(evidence, history, answer)
            if why is not None:
                return f"{answer} of {run_id}: {why}"
    return None


def _why_foreign(  # noqa: PLR0911 - one return for each kind of result
    evidence: Evidence, history: RunHistory, answer: SendAnswer
) -> str | None:
    numbers = [
        message.number
        for message in posted_messages(evidence, history)
        if message.message.content == answer.message.text
    ]
    if len(numbers) != 1:
        return f"its message has the numbers {numbers}"
    [number] = numbers
    version, result = _reply_to(history, number), answer.result
    if isinstance(result, ThreadClosed):
        return None if version is None and history.ended else "the message was read"
    if isinstance(result, Queued):
        return None if result.number == number else "it is the number of another one"
    assert isinstance(result, Replied | Failed | Suspended)
    run = result.continuation.run_state.run
    if isinstance(result, Suspended):
        works = run.answered < number <= run.last_inbox_number
        return None if works else "the thread did not work on the message"
    if version is None:
        return "no version has the reply"
    stored = version.state.run
    if isinstance(result, Failed):
        return None if result.error == stored.failure else "its error is another one"
    output = cast("Replied[object]", result).output
    return None if output == stored.output else f"the reply is {stored.output}"


def a_message_id_is_posted_once(evidence: Evidence) -> str | None:
    """No two messages of a thread have one id."""
    for history in _threads(evidence):
        ids = [each.id for each in posted_messages(evidence, history)]
        if len(set(ids)) < len(ids):
            return f"messages of {history.run_id} share an id: {ids}"
    return None


def ended_turn_begins_nothing(evidence: Evidence) -> str | None:
    """After a stop or an interruption no call begins that had not begun.

    A call that is repeated has begun. The next turn has other calls.
    """
    for history in _threads(evidence):
        for version in history.versions:
            run = version.state.run
            if run.stopping is None and run.reads_next <= run.last_inbox_number:
                continue
            for effect in evidence.environment.effects:
                call = version.state.calls.get(effect.call_id)
                if effect.run_id != history.run_id or call is None or call.attempts:
                    continue
                if effect.sent_at > version.at:
                    return f"{effect} began after version {version.number} ended it"
    return None


def turns_end_as_asked(evidence: Evidence) -> str | None:
    """A reply is `stopped` only if a request names its message; each request counts.

    After the last sweep, a thread that was asked to stop waits for nothing but the
    outcomes of calls that began.
    """
    for history in _threads(evidence):
        requests = list(requests_of(evidence, history.run_id))
        stops = {each.message_number for each in requests if each.action == "stop"}
        for numbers, version in _replies(history):
            failure = version.state.run.failure
            was_stopped = failure is not None and failure.code == "stopped"
            # A rewind cuts off the turn of the messages that the thread worked on.
            was_cut_off = version in (after for _, _, after in rewinds_of(history))
            if was_stopped and not was_cut_off and not stops & set(numbers):
                return f"messages {numbers} of {history.run_id} were stopped unasked"
        state = history.newest_state
        works_on = range(state.run.answered + 1, state.run.last_inbox_number + 1)
        if history.ended or not stops & set(works_on):
            continue
        open_waits = [
            wait.id
            for wait in state.waits.values()
            if wait.subject != "run" and not wait.rules.may_have_run
        ]
        if open_waits:
            return f"{history.run_id} was stopped, and waits for {open_waits}"
    return None


def resting_thread_leaves_no_keys(evidence: Evidence) -> str | None:
    """A thread that rests has no wait in its row, and no marker.

    The marker of a message, request or version stays if its process died before it
    stored that.
    """
    bodies = evidence.environment.store.bodies
    now_ms = to_milliseconds(wall_time(evidence.environment.loop.time()))
    for history in _threads(evidence):
        state = history.newest_state
        if state.run.status != "resting":
            continue
        if state.waits:
            return f"{history.run_id} rests, and has the waits {list(state.waits)}"
        for key in bodies:
            marker = layout.parse_marker(key) if key.startswith("markers/") else None
            if marker is None or marker.run_id != history.run_id:
                continue
            if marker.due_ms > now_ms:
                continue  # the last sweeps were over before, beside a poison run
            if marker.reason in ("g", "r"):
                is_stored = int(marker.target) <= history.versions[-1].number
            else:
                is_stored = marker.reason not in _ARRIVALS
                is_stored = is_stored or _guarded_key(marker) in bodies
            if is_stored:
                return f"{history.run_id} rests, and {key} exists"
    return None


_ARRIVALS = ("m", "o", "s", "c")


def _guarded_key(marker: Marker) -> str:
    """Return the key of the message or request that a marker guards."""
    if marker.reason == "c":
        return layout.cancel_request_key(marker.run_id)
    letters = {
        "m": layout.MESSAGE,
        "o": layout.OPERATOR_REQUEST,
        "s": layout.SIGNAL,
    }
    letter = letters[marker.reason]
    return layout.numbered_key(letter, marker.run_id, int(marker.target))


def generations_follow_each_other(evidence: Evidence) -> str | None:
    """A generation begins after the end of the one before."""
    for history in _threads(evidence):
        head, _, number = history.run_id.rpartition("-")
        if number == "1":
            continue
        before = evidence.runs.get(f"{head}-{int(number) - 1}")
        if before is None or not before.ended:
            return f"{history.run_id} began, and the one before has not ended"
        if before.ended_at > history.versions[0].at:
            return f"{history.run_id} began before the end of {before.run_id}"
    return None
