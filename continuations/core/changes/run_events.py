"""Events that change the row of a run, or suspend the run or one of its frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.core.changes import events, threads
from continuations.core.changes.transitions import illegal_transition
from continuations.core.rows.event_matching import with_event
from continuations.core.rows.grants import KeptGrant, has_ended
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.rows.state import Draft
    from continuations.core.usage import Usage

    RunEvent: TypeAlias = (
        events.UserMessageAdded
        | events.CheckPaid
        | events.SignalsKept
        | events.EventTaken
        | events.FrameWatched
        | events.GrantGiven
        | events.GrantsRevoked
        | events.HistoryCompacted
        | events.SummaryFailed
        | events.OperatorRequestTaken
        | events.SuspensionBegan
        | events.SuspensionEnded
        | events.ThreadClosed
        | events.TurnStopping
        | events.TurnInterrupted
    )
    from continuations.core.rows.run import RunRow


RUN_EVENTS = (
    events.UserMessageAdded,
    events.CheckPaid,
    events.SignalsKept,
    events.EventTaken,
    events.FrameWatched,
    events.GrantGiven,
    events.GrantsRevoked,
    events.HistoryCompacted,
    events.SummaryFailed,
    events.OperatorRequestTaken,
    events.SuspensionBegan,
    events.SuspensionEnded,
    events.ThreadClosed,
    events.TurnInterrupted,
    events.TurnStopping,
)


def apply(draft: Draft, event: RunEvent) -> None:  # noqa: C901 - one case for each event
    """Apply one of `RUN_EVENTS`; raises `IllegalTransition`."""
    match event:
        case (
            events.UserMessageAdded()
            | events.ThreadClosed()
            | events.TurnStopping()
            | events.TurnInterrupted()
        ):
            threads.apply(draft, event)
        case events.HistoryCompacted() | events.SummaryFailed():
            from continuations.core.changes import history  # noqa: PLC0415 - few agents have it

            history.apply(draft, event)
        case events.SignalsKept():
            _keep_signals(draft, event)
        case events.CheckPaid():
            add_usage(draft, event.usage)
        case events.EventTaken():
            run = draft.run
            taken = with_event(run.events_taken, event.event_id)
            draft.put_run(replace(run, events_taken=taken))
        case events.FrameWatched():
            frame = draft.frame(event.frame_id)
            watched = replace(frame, watched_since=event.since, counts=event.counts)
            draft.put_frame(watched)
        case events.GrantGiven():
            draft.put_run(with_grant(draft.run, event.grant))
        case events.GrantsRevoked():
            _revoke_grants(draft, event)
        case events.OperatorRequestTaken():
            _take_operator_request(draft, event)
        case events.SuspensionBegan():
            _suspend(draft, event)
        case events.SuspensionEnded():
            _end_suspension(draft, event)


def _keep_signals(draft: Draft, event: events.SignalsKept) -> None:
    run = draft.run
    old = {signal.number for signal in run.signals}
    new = range(run.last_signal_number + 1, event.last_number + 1)
    numbers = [signal.number for signal in event.kept]
    if not old.union(new).issuperset(numbers) or numbers != sorted({*numbers}):
        raise illegal_transition("a signal was taken before", event)
    last = max(run.last_signal_number, event.last_number)
    draft.put_run(replace(run, last_signal_number=last, signals=event.kept))


def _revoke_grants(draft: Draft, event: events.GrantsRevoked) -> None:
    if event.last_number <= draft.run.last_revocation_number:
        raise illegal_transition("a revocation was taken in before", event)
    draft.put_run(without_grants(draft.run, event.grant_ids, event.last_number))


def _take_operator_request(draft: Draft, event: events.OperatorRequestTaken) -> None:
    last = draft.run.last_operator_number
    if event.number != last + 1:
        raise illegal_transition(f"request {last} of an operator came last", event)
    draft.put_run(replace(draft.run, last_operator_number=event.number))


def _end_suspension(draft: Draft, event: events.SuspensionEnded) -> None:
    wait = draft.waits.get(event.wait_id)
    if wait is None or wait.call_id:
        raise illegal_transition("the wait suspends no frame and not the run", event)
    draft.drop_wait(wait.id)
    if not wait.rules.suspends:
        frame = draft.frame(wait.frame_id)
        if frame.step == "waits":
            draft.put_frame(replace(frame, step="due"))
    if wait.rules.may_wake:
        woken_until = wait.deadline if event.woken else None
        frame = draft.frame(wait.frame_id)
        draft.put_frame(replace(frame, woken_until=woken_until))


def _suspend(draft: Draft, event: events.SuspensionBegan) -> None:
    wait = event.wait
    if wait.subject not in wait.rules.subjects or wait.call_id:
        raise illegal_transition(f"wait {wait.id} has another subject", event)
    other = draft.suspending.get(wait.frame_id)
    # A wait about a text may be replaced by itself, with other approvers.
    is_same = other is not None and other.id == wait.id and wait.rules.judges_text
    if other is not None and not is_same:
        raise illegal_transition("another wait suspends the frame or run", event)
    frame = draft.frames.get(wait.frame_id)
    if frame is not None and frame.open_call_ids and not frame.step:
        raise illegal_transition(f"frame {wait.frame_id} has open calls", event)
    draft.put_wait(wait)


# Turns that give no reply ----------------------------------------------------


def go_without_reply(
    draft: Draft, event: events.ModelFailed | events.ModelDelayed
) -> None:
    """Record the cost of a turn, and suspend a frame whose reply comes later."""
    add_usage(draft, event.usage)
    if isinstance(event, events.ModelFailed):
        failed = draft.frames.get(event.frame_id)
        if failed is not None and event.error is not None:
            failed = replace(failed, model_error=event.error)
            if event.loses_reply:
                failed = replace(failed, pending_reply=None, polls=0)
            draft.put_frame(failed)
        return
    frame = draft.frame(event.wait.frame_id)
    polls = 0 if frame.pending_reply is None else frame.polls + 1
    delayed = replace(
        frame,
        failed_requests=event.failed_requests,
        pending_reply=event.pending_reply,
        polls=polls if event.pending_reply is not None else 0,
        woken_until=frame.woken_until if event.was_early else None,
        model_error=None,
    )
    draft.put_frame(delayed)
    if event.added:
        draft.append(frame.id, *event.added)
    _suspend(draft, events.SuspensionBegan(wait=event.wait))


def add_usage(draft: Draft, usage: Usage) -> None:
    """Add the cost of requests to the run."""
    draft.put_run(replace(draft.run, usage=draft.run.usage + usage))


# The row of the run, with its grants, is stored in every version.
MAX_GRANTS = 20


def with_grant(run: RunRow, grant: KeptGrant) -> RunRow:
    """Return the row of a run that keeps one grant more.

    Grants whose time is over are dropped, and so is the oldest one above the limit. A
    grant that was revoked before it was kept is not kept.
    """
    if grant.id in run.revoked_grants:
        rest = tuple(each for each in run.revoked_grants if each != grant.id)
        return replace(run, revoked_grants=rest)
    kept = [each for each in run.grants if not has_ended(each, grant.at)]
    kept = [each for each in kept if each.id != grant.id]
    return replace(run, grants=(*kept, grant)[-MAX_GRANTS:])


def without_grants(run: RunRow, revoked: tuple[str, ...], last: int) -> RunRow:
    """Return the row of a run after revocations, up to number `last`.

    The decision that gives a grant may be read after its revocation. So the id of a
    grant that is not kept yet is remembered.
    """
    known = {grant.id for grant in run.grants}
    unknown = tuple(each for each in revoked if each not in known)
    return replace(
        run,
        grants=tuple(grant for grant in run.grants if grant.id not in revoked),
        revoked_grants=(*run.revoked_grants, *unknown),
        last_revocation_number=last,
    )
