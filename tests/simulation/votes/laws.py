"""Laws of waits that several persons decide, written without the code that they check.

Each wait with slots is counted again here: who voted for what, before the escalation
and after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from continuations.core.rows.decisions import Decision, Escalate
from continuations.core.rows.quorum import Vote
from continuations.core.rows.slots import Slot
from continuations.core.rows.waits import Wait
from continuations.ledger import markers
from tests.outcomes import expect
from tests.simulation.evidence import Evidence


@dataclass
class Count:
    """The votes of one wait, counted again.

    Attributes:
        wait: The wait as it was opened.
        deadline: The deadline of now.
        needed: How many persons must agree.
        ballots: The verdict of each person who voted.
        end: The kind of the decision that the slots made, or None.
        voters: The persons of that decision.
        problem: The fault of a slot, or None.
    """

    wait: Wait
    deadline: datetime | None
    needed: int
    approvers: tuple[str, ...]
    ballots: dict[str, tuple[object, ...]] = field(
        default_factory=dict[str, "tuple[object, ...]"]
    )
    end: str | None = None
    voters: tuple[str, ...] = ()
    problem: str | None = None

    @classmethod
    def of(cls, evidence: Evidence, wait: Wait) -> Count:
        """Count the slots of a wait up to its end."""
        count = cls(wait, wait.deadline, wait.votes_needed, wait.approvers)
        for number, (slot, at) in enumerate(evidence.slots.get(wait.id, ()), start=1):
            if count.end is not None:
                break
            if slot.number != number:
                count.problem = f"slot {slot.number} has the place of slot {number}"
            count._add(evidence, slot, at)
        return count

    def _add(self, evidence: Evidence, slot: Slot, at: float) -> None:
        if slot.vote is not None:
            self._add_vote(slot.vote)
            return
        if slot.kind == "extend" and self.deadline is not None:
            if slot.at > self.deadline:
                self.problem = f"extend at {slot.at}, after {self.deadline}"
            self.deadline = max(self.deadline, slot.deadline or self.deadline)
            return
        if self.deadline is None or slot.at <= self.deadline:
            self.problem = f"{slot.kind} at {slot.at}, before {self.deadline}"
        elif slot.kind == "expire":
            self.end = "expire"
        else:
            self._escalate(evidence, slot, at)

    def _escalate(self, evidence: Evidence, slot: Slot, at: float) -> None:
        action = expect(self.wait.on_deadline, Escalate)
        self.approvers, self.needed, self.ballots = action.to, action.votes, {}
        self.deadline = slot.deadline
        marker = markers.deadline_marker(replace(self.wait, deadline=slot.deadline))
        made = evidence.created.get(marker.key if marker else "", [])
        if not made or made[0].at > at:
            self.problem = f"the marker of {slot.deadline} was not made before its slot"

    def _add_vote(self, vote: Decision) -> None:
        name = vote.by or ""
        if self.approvers and name not in self.approvers:
            self.problem = f"{name} voted, and is no approver"
            return
        if name in self.ballots and vote.kind != "deny":
            self.problem = f"{name} voted twice"
            return
        arguments = vote.arguments or self.wait.arguments_json
        ballot = (vote.kind, arguments, vote.value)
        self.ballots[name] = ballot
        agreeing = tuple(each for each, cast in self.ballots.items() if cast == ballot)
        if vote.kind == "deny" or len(agreeing) >= self.needed:
            self.end = vote.kind
            self.voters = agreeing if len(agreeing) > 1 else ()


def each_vote_is_counted_once(evidence: Evidence) -> str | None:
    """Slots are dense; no person votes twice, or without being an approver."""
    for record in evidence.waits.values():
        problem = Count.of(evidence, record.wait).problem
        if problem is not None:
            return f"{record.wait.id}: {problem}"
    return None


def decided_by_its_slots(evidence: Evidence) -> str | None:
    """A wait with votes ends as its slots say, after them, or with its run.

    So nothing is approved by silence or by too few persons, and a deadline takes effect
    only after its slot.
    """
    for record in evidence.waits.values():
        if not record.wait.takes_votes:
            continue
        count, decision = Count.of(evidence, record.wait), record.decision
        name, state = record.wait.id, evidence.runs[record.wait.run_id].newest_state
        if decision is None:
            if count.end is not None and name in state.waits:
                return f"{name}: its slots say {count.end}, and it is open"
            continue
        if decision.kind == "cancel":
            continue
        if (decision.kind, decision.voters) != (count.end, count.voters):
            return f"{name}: {decision.kind} by {decision.voters}, but {count}"
        slots = evidence.slots[name]
        if not any(at <= record.decided_at for _, at in slots):
            return f"{name} was decided before its slots"
    return None


def votes_that_were_acknowledged_are_kept(evidence: Evidence) -> str | None:
    """A vote that a person got back is a slot of the wait."""
    for each in evidence.environment.decide_results:
        if not isinstance(each.result, Vote):
            continue
        kept = [slot.id for slot, _ in evidence.slots.get(each.wait_id, ())]
        if each.result.id not in kept:
            return f"{each.process} voted for {each.wait_id}, and the vote is lost"
    return None
