"""The errors of decisions: what was not decided, why, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations import errors
from continuations.ledger import layout
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.waits import Wait

NOT_DECIDED = "was not decided"
_PARTICIPLES = {
    "approve": "approved",
    "deny": "denied",
    "answer": "answered",
    "fail": "ended with an error",
}


def check_in_time(wait: Wait, moment: datetime) -> None:
    """Raise `WaitExpired` if a wait's deadline is before a moment."""
    if wait.deadline is not None and moment > wait.deadline:
        raise _expired_error(wait.id, NOT_DECIDED)


def check_call_is_over(wait: Wait, proposed: Decision) -> None:
    """Raise `DecisionRefused` if an approval could run a call beside itself."""
    over = wait.approve_after
    if proposed.kind != "approve" or over is None or proposed.at > over:
        return
    msg = (
        f"wait {wait.id} was not decided: the call may still be running until "
        f"{readable_time(over)}, so it cannot be run again yet. Nothing was recorded. "
        "Find out whether it took effect, and decide again after this time."
    )
    raise errors.DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)


def check_shown(wait_id: str, digest: str, shown: object) -> None:
    """Raise `DecisionRefused` if a person saw another digest than that of the wait."""
    if shown is None or shown == digest:
        return
    what = "the digest in shown is not the wait's, so you saw something else"
    if type(shown) is not str:
        what = f"shown must be a digest, got {type(shown).__name__}"
    msg = (
        f"wait {wait_id} was not decided: {what}. Nothing was recorded. Look at the "
        "wait again, and pass its digest as shown."
    )
    run_id = layout.parse_wait_id(wait_id).run_id
    raise errors.DecisionRefused(msg, run_id=run_id, wait_id=wait_id)


def not_open_error(recorded: Decision) -> errors.ContinuationsError:
    """Return the error for a reader of a wait that has a recorded decision."""
    return closed_wait_error(recorded, "is not open")


def closed_wait_error(recorded: Decision, failure: str) -> errors.ContinuationsError:
    """Return the error for a wait that has a recorded decision."""
    wait_id = recorded.wait_id
    run_id = layout.parse_wait_id(wait_id).run_id
    if recorded.kind == "cancel":
        msg = (
            f"wait {wait_id} {failure}: it was closed, because its call or run "
            f"{run_id} was cancelled, or the run has failed or was repaired. See the "
            f"reason with `continuations audit {run_id}` or Runner.audit(). After a "
            "repair, an open call has a new wait."
        )
        return errors.Cancelled(msg, run_id=run_id, wait_id=wait_id)
    if recorded.kind == "expire":
        return _expired_error(wait_id, failure)
    deciders = ", ".join(recorded.voters) or recorded.by
    by = f" by {deciders}" if deciders else ""
    told = "No other decision was recorded. " if failure == NOT_DECIDED else ""
    msg = (
        f"wait {wait_id} {failure}: it was {_PARTICIPLES[recorded.kind]}{by} at "
        f"{readable_time(recorded.at)}. {told}See the recorded decision with "
        f"`continuations audit {run_id}` or in error.decision, and resume the run."
    )
    return errors.AlreadyDecided(msg, run_id=run_id, wait_id=wait_id, decision=recorded)


def late_error(wait: Wait, failure: str) -> errors.WaitExpired:
    """Return the error for a wait whose deadline has passed."""
    return _expired_error(wait.id, failure)


def _expired_error(wait_id: str, failure: str) -> errors.WaitExpired:
    msg = (
        f"wait {wait_id} {failure}: its deadline has passed. Resume the run; it "
        "continues as the tool or its policy says for this case."
    )
    run_id = layout.parse_wait_id(wait_id).run_id
    return errors.WaitExpired(msg, run_id=run_id, wait_id=wait_id)


def refused_error(
    wait: Wait, why: str, next_step: str = "Decide again."
) -> errors.DecisionRefused:
    """Return the error for a decision that does not fit its wait."""
    msg = f"wait {wait.id} was not decided: {why}. Nothing was recorded. {next_step}"
    return errors.DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)
