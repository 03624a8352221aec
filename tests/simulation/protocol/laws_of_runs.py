"""Laws of runs: their versions, their messages, and how they end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from continuations.core.operator_request import tells_of_cancellation
from continuations.core.rows.calls import CLOSED_STATES
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.ledger import layout
from continuations.ledger.layout import is_thread_id
from continuations.wire.arrivals import MESSAGE, OPERATOR_REQUEST, InboxMessage
from tests.simulation.costs.laws import budget_is_used_up
from tests.simulation.evidence import Evidence, RunHistory


def versions_are_linear(evidence: Evidence) -> str | None:
    """Versions are numbered without gaps, written once, never deleted, and load."""
    for history in evidence.runs.values():
        if history.load_error:
            return history.load_error
        numbers = [version.number for version in history.versions]
        if numbers != list(range(1, len(numbers) + 1)):
            return f"the versions of {history.run_id} are {numbers}"
    for key, creates in evidence.created.items():
        if "/v/" in key and (len(creates) > 1 or key in evidence.deleted):
            return f"{key} was created {len(creates)} times, or deleted"
    return None


def notes_of_missing_code_follow_their_versions(evidence: Evidence) -> str | None:
    """A note about the code that a worker lacked is about a version that existed."""
    for key, creates in evidence.created.items():
        run_id, found, number = key.removeprefix("runs/").partition("/y/")
        if not found:
            continue
        version = evidence.created.get(layout.version_key(run_id, int(number)))
        if not version or version[0].at > creates[0].at:
            return f"{key} was created before its version"
    return None


def notified_after_commit(evidence: Evidence) -> str | None:
    """A wait is notified only after a version that opens it, or after its decision."""
    for each in evidence.environment.notifications:
        history = evidence.runs[each.wait.run_id]
        newest = next(
            (v for v in history.versions if v.number == each.newest_version), None
        )
        is_open = newest is not None and each.wait.id in newest.state.waits
        if not each.decided and not is_open:
            return f"{each.process} was notified of {each.wait.id}, which was not open"
    return None


def each_message_once(evidence: Evidence) -> str | None:
    """Each posted message is in the log once and in order, if it counts as read."""
    for history in evidence.runs.values():
        if not history.versions:
            continue
        posted = list(posted_messages(evidence, history))
        texts = _texts(posted)
        if len(set(texts)) < len(texts):
            return f"a message to {history.run_id} was posted twice: {posted}"
        # The input of a run, or what a fork or a rewind goes on from.
        first = history.parts[-1].versions[0].state
        newest = history.newest_state
        read = posted[first.run.last_inbox_number : newest.run.last_inbox_number]
        in_log = _user_texts(newest)
        if in_log != [*_user_texts(first), *_texts(read)]:
            return f"{posted} was posted to {history.run_id}; its log has {in_log}"
    return None


def _user_texts(state: RunState) -> list[str]:
    if state.frames[ROOT_FRAME_ID].step:
        return []  # the code of a workflow reads no messages
    messages = state.logs[ROOT_FRAME_ID].messages
    return [message.content for message in messages if message.role == "user"]


def nothing_unread_at_the_end(evidence: Evidence) -> str | None:
    """A run finishes only over messages and cancel requests of its last turn.

    Everything that arrived before its model was asked for the last time is read, unless
    the budget of the run allows no further turn.
    """
    for history in evidence.runs.values():
        if not history.versions or history.newest_state.run.status != "finished":
            continue
        if is_thread_id(history.run_id):
            continue  # laws of threads say which message has which reply
        task = next(iter(_user_texts(history.newest_state)), None)
        if task is None:
            continue
        last_turn = max(
            (
                turn.began_at
                for turn in evidence.environment.model_turns
                if turn.run_id == history.run_id
                and turn.frame_task == task
                # A worker that was frozen may ask the model after the end.
                and turn.began_at < history.ended_at
            ),
            # A fork may begin with the last reply of its source.
            default=0.0,
        )
        prefix = f"{layout.arrivals_prefix(history.run_id)}m-"
        posted = sum(
            creates[0].at < last_turn
            for key, creates in evidence.created.items()
            if key.startswith(prefix)
        )
        unread = posted > history.newest_state.run.last_inbox_number
        if unread and not budget_is_used_up(evidence, history):
            return f"{history.run_id} finished over an unread message"
        requests = evidence.created.get(layout.cancel_request_key(history.run_id))
        if requests and requests[0].at < last_turn:
            return f"{history.run_id} finished, although it was cancelled before"
    return None


def _texts(messages: list[InboxMessage]) -> list[str]:
    """Return the texts of messages that do not close a thread."""
    return [each.message.content for each in messages if not each.closes]


def posted_messages(evidence: Evidence, history: RunHistory) -> Iterator[InboxMessage]:
    """Yield the messages that were posted to a run, in the order of their numbers."""
    prefix = f"{layout.arrivals_prefix(history.run_id)}m-"
    for key in sorted(key for key in evidence.created if key.startswith(prefix)):
        body = evidence.created[key][0].body
        yield MESSAGE.decode(body, key, history.run_id)


def cancellation_noticed_soon(evidence: Evidence) -> str | None:
    """A worker makes at most two versions after it can read of the cancellation.

    It makes one more for each read of a request that the store refused.
    """
    for history in evidence.runs.values():
        told = [
            creates[0].at
            for key, creates in evidence.created.items()
            if key.startswith(f"{layout.arrivals_prefix(history.run_id)}o-")
            and tells_of_cancellation(
                OPERATOR_REQUEST.decode(creates[0].body, key, history.run_id)
            )
        ]
        if not told:
            continue
        refused_reads = Counter(
            line[1]
            for line in evidence.environment.log
            if line[2] == "read"
            and line[4:] == ("refused",)
            and layout.arrivals_prefix(history.run_id) in str(line[3])
        )
        versions_of_worker: dict[str, int] = {}
        for version in history.versions:
            claim = version.state.run.claim
            if claim is None or version.at < min(told):
                continue
            count = versions_of_worker.get(claim.worker, 0) + 1
            versions_of_worker[claim.worker] = count
            if count > 2 + refused_reads[version.process]:
                return f"{version.process} went on with {history.run_id}, cancelled"
    return None


def gives_up_only_without_progress(evidence: Evidence) -> str | None:
    """A run fails for too many attempts only if none after the first made progress.

    The first one may have made progress before it died at the point of the others.
    """
    for history in evidence.runs.values():
        failure = history.newest_state.run.failure if history.versions else None
        if failure is None or failure.code != "attempts":
            continue
        attempts = _first_and_last_states(history)
        for first, last in attempts[-evidence.environment.max_attempts : -1]:
            if _progress_counts(first) != _progress_counts(last):
                return f"{history.run_id} failed for its attempts; one made progress"
    return None


def _first_and_last_states(history: RunHistory) -> list[tuple[RunState, RunState]]:
    """Return the first and the last state of each worker that had a claim."""
    attempts: list[tuple[RunState, RunState]] = []
    worker = None
    for version in history.versions:
        claim = version.state.run.claim
        if claim is None or version.state.run.status in ENDED_STATUSES:
            continue
        if claim.worker != worker:
            attempts.append((version.state, version.state))
        attempts[-1] = (attempts[-1][0], version.state)
        worker = claim.worker
    return attempts


def _progress_counts(state: RunState) -> tuple[int, int, int]:
    messages = sum(len(log.messages) for log in state.logs.values())
    closed = sum(isinstance(call.state, CLOSED_STATES) for call in state.calls.values())
    return state.run.next_id, messages, closed


def no_foreign_errors(evidence: Evidence) -> str | None:
    """Every error that a caller gets is one of the library and fits its situation."""
    return next(iter(evidence.environment.unexpected_errors), None)
