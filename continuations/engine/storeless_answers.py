"""Decide the waits of a continuation that has no store: verdicts, votes, escalation."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from continuations.core.call_events import Reopened
from continuations.core.deadline_actions import Escalate
from continuations.core.decisions import Decision, Verdict
from continuations.core.events import SuspensionBegan
from continuations.core.reducer import advance
from continuations.core.slots import Slot, after_slot, objection_to
from continuations.engine import deadlines
from continuations.errors import WaitNotFound
from continuations.ledger.decision_errors import refused_error
from continuations.ledger.decisions import build_decision
from continuations.value_class import replace
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.ports import Ports

Answers: TypeAlias = "Mapping[str, Verdict | list[Verdict] | tuple[Verdict, ...]]"


def with_escalated_waits(state: RunState, now: datetime) -> RunState:
    """Return the run with the next approvers of the waits whose deadline has passed."""
    for wait in deadlines.late_waits(state.waits.values(), now):
        action = wait.on_deadline
        if not isinstance(action, Escalate):
            continue
        deadline = whole_milliseconds(now + timedelta(seconds=action.within))
        slot = _slot(wait, "", now)
        after = after_slot(wait, replace(slot, kind="escalate", deadline=deadline))
        if not isinstance(after, Decision):
            # The row itself changes: there are no slots that say it.
            escalated = replace(after, last_slot=0, notice="opened")
            reopened = Reopened(call_id=wait.call_id, wait=escalated)
            of_call = wait.subject == "call"
            event = reopened if of_call else SuspensionBegan(wait=escalated)
            state = advance(state, event)
    return state


def decisions_from_answers(
    state: RunState, answers: Answers, ports: Ports, now: datetime
) -> dict[str, Decision]:
    """Return the decisions that the verdicts make, by wait id.

    Raises:
        WaitNotFound: A wait is not open.
        DecisionRefused: A verdict does not fit its wait, its person may not decide it,
            or the votes are not enough.
        WaitExpired: The deadline of a wait has passed.
    """
    decisions: dict[str, Decision] = {}
    for wait_id, given in answers.items():
        wait = state.waits.get(wait_id)
        if wait is None:
            msg = (
                f"answers has {str(wait_id)[:80]!r}, which is not an open wait of run "
                f"{state.run.id}. Nothing ran. Open waits: "
                f"{', '.join(state.waits) or 'none'}."
            )
            raise WaitNotFound(msg, run_id=state.run.id, wait_id=str(wait_id))
        decisions[wait_id] = _decision(wait, _verdicts(given), ports, now)
    return decisions


def _verdicts(
    given: Verdict | list[Verdict] | tuple[Verdict, ...],
) -> list[Verdict]:
    # The check of the verdict refuses any other value.
    return list(given) if isinstance(given, list | tuple) else [given]


def _decision(
    wait: Wait, verdicts: list[Verdict], ports: Ports, now: datetime
) -> Decision:
    """Return the decision that several verdicts make together."""
    current: Wait | Decision = wait
    for number, verdict in enumerate(verdicts):
        if isinstance(current, Decision):
            why = f"verdict {number} of its list of {len(verdicts)} ended it already"
            raise refused_error(wait, why, "Leave the other verdicts out.")
        ulid = ports.ids.new_ulid(now)
        vote = build_decision(current, verdict, now=now, decision_id=ulid)
        if current.quorum is None:
            current = vote
            continue
        objection = objection_to(current, vote)
        if objection is not None:
            raise refused_error(wait, objection.why, objection.next_step)
        current = after_slot(current, replace(_slot(wait, ulid, now), vote=vote))
    if isinstance(current, Decision):
        return current
    count = len(current.votes)
    why = f"its verdicts are {count} of the {wait.votes_needed} votes that it needs"
    raise refused_error(wait, why, "Pass all verdicts of the wait as one list.")


def _slot(wait: Wait, slot_id: str, at: datetime) -> Slot:
    return Slot(
        id=slot_id, wait_id=wait.id, number=0, kind="vote", at=at, digest=wait.digest
    )
