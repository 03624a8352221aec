"""Laws of runs: their versions, their messages, and how they are ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import CLOSED_STATES
from continuations.core.run import ENDED_STATUSES
from continuations.core.state import ROOT_FRAME_ID
from continuations.ledger import layout
from continuations.wire.records import decode_inbox_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.state import RunState
    from tests.simulation.evidence import Evidence, RunHistory


def versions_are_linear(evidence: Evidence) -> str | None:
    """Versions are dense, each made from its base, never made twice, and load."""
    for story in evidence.runs.values():
        if story.load_error:
            return story.load_error
        numbers = [version.number for version in story.versions]
        if numbers != list(range(1, len(numbers) + 1)):
            return f"the versions of {story.run_id} are {numbers}"
    for key, made in evidence.created.items():
        if "/v/" in key and (len(made) > 1 or key in evidence.deleted):
            return f"{key} was made {len(made)} times, or removed"
    return None


def notified_after_commit(evidence: Evidence) -> str | None:
    """People are told only of waits that can be decided at that moment."""
    for each in evidence.environment.notifications:
        story = evidence.runs[each.wait.run_id]
        now = next((v for v in story.versions if v.number == each.newest_version), None)
        if each.decided or (now is not None and each.wait.id in now.table.waits):
            continue
        return f"{each.process} told of {each.wait.id}, which was not open"
    return None


def each_message_once(evidence: Evidence) -> str | None:
    """What was sent is said once, in its order; what counts as read was said."""
    for story in evidence.runs.values():
        if not story.versions:
            continue
        letters = list(_sent_messages(evidence, story))
        if len(set(letters)) < len(letters):
            return f"a message to {story.run_id} was posted twice: {letters}"
        heard = [
            m.content
            for m in story.newest_state.logs[ROOT_FRAME_ID].messages
            if m.role == "user"
        ]
        # The first one is what the run was started with.
        if heard[1:] != letters[: story.newest_state.run.last_inbox_number]:
            return f"{story.run_id} was sent {letters} and heard {heard[1:]}"
    return None


def _sent_messages(evidence: Evidence, history: RunHistory) -> Iterator[str]:
    """Go through all that was ever sent to a run, in its order."""
    prefix = f"{layout.arrivals_prefix(history.run_id)}m-"
    for key in sorted(key for key in evidence.created if key.startswith(prefix)):
        letter = decode_inbox_message(
            evidence.created[key][0].body, key, history.run_id
        )
        yield letter.message.content


def cancellation_noticed_soon(evidence: Evidence) -> str | None:
    """Who works on a run that was cancelled finds out by the second commit."""
    for story in evidence.runs.values():
        for landed in evidence.created.get(layout.cancel_request_key(story.run_id), [])[
            :1
        ]:
            later: dict[str, int] = {}
            for version in story.versions:
                claim = version.table.run.claim
                if claim is None or version.at < landed.at:
                    continue
                later[claim.worker] = later.get(claim.worker, 0) + 1
                if later[claim.worker] > 2:
                    return f"{version.process} went on with {story.run_id}, cancelled"
    return None


def gives_up_only_without_progress(evidence: Evidence) -> str | None:
    """A run is given up only if no worker since the first of the last made progress."""
    for story in evidence.runs.values():
        failure = story.newest_state.run.failure if story.versions else None
        if failure is None or failure.code != "attempts":
            continue
        tries = _first_and_last_states(story)
        for first, last in tries[-1 - evidence.environment.max_attempts : -1]:
            if _progress_counts(first) != _progress_counts(last):
                return f"{story.run_id} was given up, though it moved on"
    return None


def _first_and_last_states(history: RunHistory) -> list[tuple[RunState, RunState]]:
    """Return the first and the last version of each worker that had a claim."""
    tries: list[tuple[RunState, RunState]] = []
    worker = None
    for version in history.versions:
        claim = version.table.run.claim
        if claim is None or version.table.run.status in ENDED_STATUSES:
            continue
        if claim.worker != worker:
            tries.append((version.table, version.table))
        tries[-1] = (tries[-1][0], version.table)
        worker = claim.worker
    return tries


def _progress_counts(state: RunState) -> tuple[int, int, int]:
    said = sum(len(log.messages) for log in state.logs.values())
    closed = sum(isinstance(call.state, CLOSED_STATES) for call in state.calls.values())
    return state.run.next_id, said, closed


def no_foreign_errors(evidence: Evidence) -> str | None:
    """Nobody ever sees an error that is not the library's own."""
    return next(iter(evidence.environment.unexpected_errors), None)
