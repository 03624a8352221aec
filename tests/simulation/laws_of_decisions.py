"""Laws of decisions: who may say what of which wait, and what runs after it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core.decisions import Decision
from continuations.core.waits import call_digest
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    WaitExpired,
)
from continuations.ledger import layout
from tests.simulation.agents import NEEDS_APPROVAL, TOOLS
from tests.simulation.processes import EPOCH, wall_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.waits import Wait
    from tests.simulation.evidence import Evidence, WaitRecord
    from tests.simulation.sim_environment import DecideResult, Effect


# One for each wait ------------------------------------------------------------------


def one_decision(evidence: Evidence) -> str | None:
    """Each wait has at most one decision, never changed, and deciders are told it."""
    for wait_id in evidence.decisions:
        key = layout.decision_key(wait_id)
        if len(evidence.created[key]) > 1 or key in evidence.deleted:
            return f"the decision of {wait_id} was made twice, or removed"
    for told in evidence.environment.decide_results:
        wrong = _wrong_decide_result(evidence, told)
        if wrong:
            return f"{told.process} decided {told.wait_id} and was told {wrong}"
    return None


def _wrong_decide_result(evidence: Evidence, told: DecideResult) -> str | None:
    stands, _ = evidence.decisions.get(told.wait_id, (None, 0.0))
    match told.result:
        case Decision():
            fits = stands == told.result
        case AlreadyDecided(decision=decision):
            fits = stands == decision
        case Cancelled():
            fits = stands is not None and stands.kind == "cancel"
        case WaitExpired():
            # Nothing may stand yet: its own clock says that it is too late.
            fits = True
        case ContinuationsError():
            fits = True
        case _:
            fits = False
    return None if fits else f"{told.result!r} where {stands!r} stands"


def ended_by_its_decision(evidence: Evidence) -> str | None:
    """A wait that a version no longer names was decided before it, or verified."""
    for story in evidence.runs.values():
        for before, after in pairwise(story.versions):
            for wait in before.table.waits.values():
                if wait.id in after.table.waits or _may_be_verified(wait):
                    continue
                decision, at = evidence.decisions.get(wait.id, (None, 0.0))
                if decision is None or at > after.at:
                    said = "later" if decision else "never"
                    return f"version {after.number} ends {wait.id}, decided {said}"
    return None


def _may_be_verified(wait: Wait) -> bool:
    tool = TOOLS.get(wait.tool)
    return wait.kind == "unknown" and tool is not None and tool.verify is not None


def cancelled_with_its_run(evidence: Evidence) -> str | None:
    """A wait that was closed with its run belongs to a run that ended."""
    for wait_id, (decision, _) in evidence.decisions.items():
        story = evidence.runs[wait_id.partition("@")[2]]
        if decision.kind == "cancel" and story.versions:
            status = story.newest_state.run.status
            if status not in ("cancelled", "failed"):
                return f"{wait_id} was closed with its run, which is {status}"
    return None


# In time ---------------------------------------------------------------------------


def decided_in_time(evidence: Evidence) -> str | None:
    """People decide before the deadline, the clock decides after it."""
    for known in evidence.waits.values():
        decision, deadline = known.decision, known.wait.deadline
        if decision is None or deadline is None or decision.kind == "cancel":
            continue
        if (decision.at > deadline) != (decision.kind == "expire"):
            return f"{known.wait.id}: {decision.kind} at {decision.at}, by {deadline}"
    return None


def not_expired_early(evidence: Evidence) -> str | None:
    """No wait expires before its deadline, by more than clocks may be off."""
    for known in evidence.waits.values():
        decision, deadline = known.decision, known.wait.deadline
        if decision is None or decision.kind != "expire":
            continue
        early = (deadline or EPOCH) - wall_time(known.decided_at)
        if early.total_seconds() > evidence.environment.lease / 2:
            return f"{known.wait.id} expired {early} before its deadline"
    return None


def approval_not_too_old(evidence: Evidence) -> str | None:
    """No call begins by an approval that is too old by its worker's clock."""
    for done in evidence.environment.effects:
        covering = [
            (known.opened_at, known.decision.at, known.wait.valid_for)
            for known in evidence.waits.values()
            if (known.wait.run_id, known.wait.call_id) == (done.run_id, done.call_id)
            and known.wait.kind == "approval"
            and known.opened_at < done.clock_sample.true_time
            and known.decision is not None
        ]
        _, at, valid_for = max(covering, default=(0.0, EPOCH, None))
        # Whether an earlier attempt had an effect, nobody knows: it is repeated.
        if valid_for is None or done.attempt > 1:
            continue
        age = done.clock_sample.wall_time - (at - EPOCH).total_seconds()
        if age > valid_for + 0.001:
            return f"{done.call_id} began {age} s after its approval"
    return None


# What runs ------------------------------------------------------------------------


def refused_never_runs(evidence: Evidence) -> str | None:
    """What was denied, has expired or was cancelled has no effect after that."""
    for known in evidence.waits.values():
        decision = known.decision
        if decision is None or decision.kind in ("approve", "answer"):
            continue
        for done in effects_of(evidence, known):
            began_before = known.wait.kind == "unknown" and (
                done.clock_sample.true_time <= known.decided_at
            )
            if not began_before:
                return f"{done} ran, though {decision.kind} stands"
    for story in evidence.runs.values():
        if not story.ended:
            continue
        for done in evidence.environment.effects:
            if (
                done.run_id == story.run_id
                and done.clock_sample.true_time > story.ended_at
            ):
                return f"{done} ran after its run had ended"
    return None


def effects_of(evidence: Evidence, known: WaitRecord) -> Iterator[Effect]:
    """Go through the effects of the call that a wait belongs to."""
    for done in evidence.environment.effects:
        if (done.run_id, done.call_id) == (known.wait.run_id, known.wait.call_id):
            yield done


def executed_equals_approved(evidence: Evidence) -> str | None:
    """What a gated tool got is, to the byte, what the standing approval covers."""
    for done in evidence.environment.effects:
        if done.tool not in NEEDS_APPROVAL:
            continue
        waits = [
            known
            for known in evidence.waits.values()
            if known.wait.kind == "approval"
            and (known.wait.run_id, known.wait.call_id) == (done.run_id, done.call_id)
            and known.opened_at < done.began
        ]
        last = max(waits, key=lambda known: known.opened_at, default=None)
        wrong = _not_covered(evidence, done, last)
        if wrong:
            return f"{done}: {wrong}"
    return None


def _not_covered(
    evidence: Evidence, effect: Effect, known: WaitRecord | None
) -> str | None:
    if known is None or known.decision is None:
        return "nobody approved it"
    wait, decision = known.wait, known.decision
    if decision.kind != "approve" or known.decided_at > effect.clock_sample.true_time:
        return f"{decision.kind} stands since {known.decided_at}"
    tool = TOOLS[wait.tool]
    covered = decision.arguments or wait.arguments_json
    if (
        effect.tool != wait.tool
        or tool.effective_arguments(covered) != effect.arguments
    ):
        return f"{covered} was approved"
    digest = call_digest(
        run_nonce=evidence.runs[wait.run_id].newest_state.run.run_nonce,
        frame_id=_frame_of(evidence, wait.run_id, wait.call_id),
        call_id=wait.call_id,
        arguments=wait.arguments_json,
        contract_digest=tool.contract_digest,
    )
    if not digest == wait.digest == decision.digest:
        return "the digest of the decision is not that of the call"
    return None


def _frame_of(evidence: Evidence, run_id: str, call_id: str) -> str:
    for version in evidence.runs[run_id].versions:
        if call_id in version.table.calls:
            return version.table.calls[call_id].frame_id
    return ""


def edits_match_schema(evidence: Evidence) -> str | None:
    """No edit is recorded that the tool's schema refuses."""
    for known in evidence.waits.values():
        if known.decision is None or known.decision.arguments is None:
            continue
        tool = TOOLS.get(known.wait.tool)
        try:
            given = tool.effective_arguments(known.decision.arguments) if tool else None
        except ArgumentsInvalid as error:
            return f"{known.wait.id} was approved with what does not fit: {error}"
        del given
    return None
