"""Laws of decisions: which one counts, when it is allowed, and which call then runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.authoring.errors import ArgumentsInvalid
from continuations.core.rows.calls import Nested
from continuations.core.rows.decisions import Decision
from continuations.core.rows.quorum import Vote
from continuations.core.rows.waits import Wait, call_digest
from continuations.errors import AlreadyDecided, Cancelled, ContinuationsError
from continuations.ledger import layout
from tests.simulation.evidence import Evidence, RunHistory, WaitRecord
from tests.simulation.guards import laws as laws_of_guards
from tests.simulation.operators.laws import requests_of
from tests.simulation.policy import laws as laws_of_policy
from tests.simulation.processes import EPOCH, wall_time
from tests.simulation.seams.tools import first_name
from tests.simulation.sim_environment import DecideResult, Effect
from tests.simulation.tools import TOOLS
from tests.simulation.workflows.histories import was_cancelled

# One decision for each wait ---------------------------------------------------------


def one_decision(evidence: Evidence) -> str | None:
    """Each wait has at most one decision, never changed, and every decider gets it."""
    for wait_id in evidence.decisions:
        key = layout.decision_key(wait_id)
        if len(evidence.created[key]) > 1 or key in evidence.deleted:
            return f"the decision of {wait_id} was created twice, or deleted"
    for each in evidence.environment.decide_results:
        wait_id = _decided_wait_id(evidence, each)
        recorded, _ = evidence.decisions.get(wait_id, (None, 0.0))
        if not _is_right_result(each, recorded):
            return (
                f"{each.process} decided {each.wait_id} and got {each.result!r}, "
                f"but the recorded decision is {recorded!r}"
            )
    return None


def _decided_wait_id(evidence: Evidence, each: DecideResult) -> str:
    """Return the id of the wait that was decided: a job has the id of its first one."""
    result = each.result
    decided = result.wait_id if isinstance(result, Decision | Cancelled) else None
    if isinstance(result, AlreadyDecided):
        decided = result.decision.wait_id
    wait_id: str | None = each.wait_id
    while wait_id is not None and wait_id != decided:
        wait_id = evidence.next_wait_of_job(wait_id)
    return each.wait_id if wait_id is None else wait_id


def _is_right_result(each: DecideResult, recorded: Decision | None) -> bool:
    match each.result:
        case Decision():
            return recorded == each.result
        case Vote():
            return True  # see `votes_that_were_acknowledged_are_kept`
        case AlreadyDecided(decision=decision):
            return recorded == decision
        case Cancelled():
            return recorded is not None and recorded.kind == "cancel"
        case ContinuationsError():
            # WaitExpired too: the decider's own clock may say that it is too late
            # while no decision is recorded yet.
            return True
        case _:
            return False


def ended_by_its_decision(evidence: Evidence) -> str | None:
    """A wait leaves the versions only after its decision, or after `verify`."""
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            for wait in before.state.waits.values():
                if not wait.rules.has_object:
                    continue  # see `timers_end_in_time`
                if wait.id in after.state.waits or _may_be_verified(wait):
                    continue
                if _has_a_result_of_its_job(evidence, wait):
                    continue
                decision, at = evidence.decisions.get(wait.id, (None, 0.0))
                if decision is None or at > after.at:
                    when = "later" if decision else "never"
                    return f"version {after.number} ends {wait.id}, decided {when}"
    return None


def _has_a_result_of_its_job(evidence: Evidence, wait: Wait) -> bool:
    """Return whether the result of a job ends the unknown wait of its call."""
    call = (wait.run_id, wait.call_id, wait.stage)
    return wait.kind == "unknown" and any(
        of_call == call and job in evidence.decisions
        for job, of_call in evidence.environment.jobs.items()
    )


def _may_be_verified(wait: Wait) -> bool:
    tool = TOOLS.get(first_name(wait.tool))
    return wait.kind == "unknown" and tool is not None and tool.verify is not None


def cancelled_with_its_run(evidence: Evidence) -> str | None:
    """A wait that was closed with its run belongs to a run that ended."""
    for wait_id, (decision, _) in evidence.decisions.items():
        history = evidence.runs[wait_id.partition("@")[2]]
        if decision.kind == "cancel" and history.versions:
            status = history.newest_state.run.status
            asked = requests_of(evidence, history.run_id)
            if any(request.call_id or request.message_number for request in asked):
                continue  # perhaps the wait of a cancelled call
            if _a_turn_failed(history):
                continue
            record = evidence.waits.get(wait_id)
            if record is not None and _is_rewound(evidence, record):
                continue
            if record is not None and was_cancelled(history, record.wait.call_id):
                continue  # by its workflow
            if status not in ("cancelled", "failed"):
                return f"{wait_id} was closed with its run, which is {status}"
    return None


def _is_rewound(evidence: Evidence, record: WaitRecord) -> bool:
    """Return whether a run was rewound after it opened a wait, which has ended so."""
    history = evidence.runs[record.wait.run_id]
    return history.part_at(record.opened_at) is not history.parts[-1]


def _a_turn_failed(history: RunHistory) -> bool:
    """Return whether a thread has a reply that is an error; its waits are closed."""
    runs = (version.state.run for version in history.versions)
    return any(run.thread_key is not None and run.failure for run in runs)


# In time ----------------------------------------------------------------------------


def decided_in_time(evidence: Evidence) -> str | None:
    """A person's decision is not after the deadline, an expiry not before it.

    The store's time counts: that of the decision's marker. A wait that `wake` may end
    is left out.
    """
    for record in evidence.waits.values():
        decision = record.decision
        deadline = evidence.as_slots_left(record.wait).deadline
        if record.wait.rules.may_wake:
            continue
        if decision is None or deadline is None or decision.kind == "cancel":
            continue
        if decision.signal or decision.event:
            continue  # the time counts when the signal or event was recorded
        if _was_answered_early(evidence, record):
            continue
        if (decision.at > deadline) != (decision.kind == "expire"):
            when = f"{decision.kind} at {decision.at}, deadline {deadline}"
            return f"{record.wait.id}: {when}"
        made_at = _store_time_of(evidence, decision)
        if made_at is not None and wall_time(made_at) > deadline:
            return f"{record.wait.id} was decided {made_at}, after {deadline}"
    return None


def _was_answered_early(evidence: Evidence, record: WaitRecord) -> bool:
    """Return whether a job's system looked for the wait before the call had opened it.

    Such an answer has no deadline, and its process may freeze before it records it.
    """
    key = layout.wait_key(record.wait.id)
    decided = evidence.created.get(layout.decision_key(record.wait.id))
    if record.wait.kind != "external" or not decided:
        return False
    listed = evidence.created.get(key)
    # The worker may freeze after the version, so that the wait is never listed.
    opened_at = listed[0].at if listed else record.opened_at
    looked = (decided[0].process, "read", key)
    log = evidence.environment.log
    return any(x[1:4] == looked and x[0] < opened_at for x in log)


def not_expired_early(evidence: Evidence) -> str | None:
    """No wait expires earlier than the allowed clock difference before its deadline.

    A wait that `wake` may end is left out.
    """
    for record in evidence.waits.values():
        decision = record.decision
        deadline = evidence.as_slots_left(record.wait).deadline
        if record.wait.rules.may_wake:
            continue
        if decision is None or decision.kind != "expire":
            continue
        early = (deadline or EPOCH) - wall_time(record.decided_at)
        if early.total_seconds() > evidence.environment.lease / 2:
            return f"{record.wait.id} expired {early} before its deadline"
    return None


def approval_not_too_old(evidence: Evidence) -> str | None:
    """No call starts, or repeats, with an approval too old by its worker's clock."""
    for effect in evidence.environment.effects:
        approvals = [
            (record.opened_at, record.decision.at, record.wait.valid_for)
            for record in evidence.waits.values()
            if _is_of_call(record.wait, effect)
            and record.opened_at < effect.clock_sample.true_time
            and record.decision is not None
        ]
        # A repeat needs a valid approval too, or the approval of an unknown outcome.
        _, at, valid_for = max(approvals, default=(0.0, EPOCH, None))
        if valid_for is None:
            continue
        age = effect.clock_sample.wall_time - (at - EPOCH).total_seconds()
        if age > valid_for + 0.001:
            return f"{effect.call_id} began {age} s after its approval"
    return None


def approval_not_too_old_for_the_store(evidence: Evidence) -> str | None:
    """No call starts when its approval is too old by the store's time.

    The worker's clock may differ by a quarter of a claim, and its check may be off by
    the duration of a slow request.
    """
    allowed = evidence.environment.lease
    for effect in evidence.environment.effects:
        approvals = [
            (record.opened_at, _store_time_of(evidence, record.decision), record)
            for record in evidence.waits.values()
            if _is_of_call(record.wait, effect)
            and record.wait.kind == "approval"
            and record.opened_at < effect.clock_sample.true_time
            and record.decision is not None
        ]
        if not approvals or effect.attempt > 1:
            continue
        _, at, record = max(approvals, key=lambda approval: approval[0])
        valid_for = record.wait.valid_for
        if at is None or valid_for is None:
            continue
        age = effect.clock_sample.true_time - at
        if age > valid_for + allowed:
            return f"{effect.call_id} began {age} s after its approval"
    return None


def _store_time_of(evidence: Evidence, decision: Decision) -> float | None:
    """Return the store's time of a decision: that of its marker."""
    creates = evidence.created.get(decision.marker or "", ())
    return creates[0].at if creates else None


def sub_agents_entered_in_time(evidence: Evidence) -> str | None:
    """No sub-agent is entered when its approval is too old by the store's time.

    The worker's clock may differ by a quarter of a claim, and a request may be slow.
    """
    allowed = evidence.environment.lease
    for history in evidence.runs.values():
        entered: set[str] = set()
        for version in history.versions:
            for call in version.state.calls.values():
                if not isinstance(call.state, Nested) or call.id in entered:
                    continue
                entered.add(call.id)
                records = [
                    (record.opened_at, record.decided_at, record.wait.valid_for)
                    for record in evidence.waits.values()
                    if (record.wait.run_id, record.wait.call_id)
                    == (history.run_id, call.id)
                    and record.opened_at < version.at
                ]
                _, at, valid_for = max(records, default=(0.0, 0.0, None))
                if valid_for is not None and version.at - at > valid_for + allowed:
                    return (
                        f"{call.id} was entered {version.at - at} s after its approval"
                    )
    return None


def _is_of_call(wait: Wait, effect: Effect) -> bool:
    return (wait.run_id, wait.call_id) == (effect.run_id, effect.call_id)


# The call that runs -----------------------------------------------------------------


def refused_never_runs(evidence: Evidence) -> str | None:
    """A call has no effect after it was denied, answered, expired or cancelled.

    No call has an effect after its run ended.
    """
    for record in evidence.waits.values():
        decision = record.decision
        if decision is None or decision.kind == "approve":
            continue
        if record.wait.rules.call_state == "parked":
            continue  # see `answered_by_its_wait_only`
        if decision.kind == "answer" and record.wait.kind == "unknown":
            continue
        for effect in effects_of(evidence, record):
            began = effect.clock_sample.true_time
            history = evidence.runs[effect.run_id]
            part = history.part_number(record.opened_at)
            if (effect.stage, history.part_number(began)) != (record.wait.stage, part):
                continue
            is_unknown = record.wait.kind == "unknown"
            if not (is_unknown and began <= record.decided_at):
                return f"{effect} ran; its wait has the decision {decision.kind}"
    for effect in evidence.environment.effects:
        history = evidence.runs[effect.run_id]
        if history.ended and effect.clock_sample.true_time > history.ended_at:
            return f"{effect} ran after its run had ended"
    return None


def effects_of(evidence: Evidence, record: WaitRecord) -> Iterator[Effect]:
    """Yield the effects of the call of a wait."""
    for effect in evidence.environment.effects:
        if _is_of_call(record.wait, effect):
            yield effect


def executed_equals_approved(evidence: Evidence) -> str | None:
    """A call that needs approval runs exactly as approved, by the approved contract.

    The code that runs it counts: a deployment may have changed the tool's contract, or
    ask for an approval that earlier code did not need. A worker that freezes right
    before the call does not know the waits that a later claim opens, such as that of a
    rewind.
    """
    for effect in evidence.environment.effects:
        if effect.code.approval is None:
            continue
        records = [
            record
            for record in evidence.waits.values()
            if _is_of_call(record.wait, effect)
            and record.opened_at <= _relied_on(evidence, effect)
            and (record.wait.kind == "approval" or _approved_before(record, effect))
        ]
        last = max(records, key=lambda record: record.opened_at, default=None)
        if last is None and laws_of_policy.why_not_ruled(evidence, effect) is None:
            continue
        reason = _why_not_approved(evidence, effect, last)
        if reason:
            return f"{effect}: {reason}"
    return None


def _relied_on(evidence: Evidence, effect: Effect) -> float:
    """Return the time of the version on which the worker of a call relied."""
    versions = evidence.runs[effect.run_id].versions
    if effect.fence > len(versions):
        return effect.began_at
    return min(versions[effect.fence - 1].at, effect.began_at)


def _approved_before(record: WaitRecord, effect: Effect) -> bool:
    decision, began_at = record.decision, effect.clock_sample.true_time
    approved = decision is not None and decision.kind == "approve"
    return approved and record.decided_at <= began_at


def _why_not_approved(
    evidence: Evidence, effect: Effect, record: WaitRecord | None
) -> str | None:
    if record is None or record.decision is None:
        return "its wait has no decision"
    wait, decision = record.wait, record.decision
    if not _approved_before(record, effect):
        return f"its decision is {decision.kind}, at {record.decided_at}"
    approved = decision.arguments or wait.arguments_json
    if (
        effect.tool != first_name(wait.tool)
        or effect.code.effective_arguments(approved) != effect.arguments
    ):
        return f"{approved} was approved"
    digest = call_digest(
        run_nonce=evidence.runs[wait.run_id].newest_state.run.run_nonce,
        frame_id=evidence.runs[wait.run_id].frame_of(wait.call_id),
        call_id=wait.call_id,
        arguments=wait.arguments_json,
        contract_digest=laws_of_policy.approved_contract(effect.code, wait.kind),
    )
    if not digest == wait.digest == decision.digest:
        return "the digest of the decision is not that of the call"
    return None


def approved_call_runs_or_waits_again(evidence: Evidence) -> str | None:
    """No approval is lost: in a finished run the call ran after it, or waited again.

    A call waits again if a deployment changed or removed its tool, for example. A call
    that the rule of its policy denies does not run, even if a person approves it.
    """
    for record in evidence.waits.values():
        wait, decision = record.wait, record.decision
        history = evidence.runs[wait.run_id]
        is_finished = history.newest_state.run.status == "finished"
        is_known = first_name(wait.tool) in TOOLS
        if not is_finished or not is_known or _is_rewound(evidence, record):
            continue
        if decision is None or decision.kind != "approve":
            continue
        requests = requests_of(evidence, wait.run_id)
        if any(each.call_id or each.message_number for each in requests):
            continue  # perhaps an operator or a message cancelled the call
        if laws_of_guards.refused_by_guardrail(evidence, record):
            continue
        executed = decision.arguments or wait.arguments_json
        if laws_of_policy.is_denied_by_its_rule(wait.tool, executed):
            continue
        ran = any(
            effect.began_at > record.decided_at
            for effect in effects_of(evidence, record)
        )
        waited_again = any(
            (other.wait.run_id, other.wait.call_id) == (wait.run_id, wait.call_id)
            and other.opened_at > record.opened_at
            for other in evidence.waits.values()
        )
        if ran or waited_again or was_cancelled(history, wait.call_id):
            continue  # its workflow may have cancelled it
        return f"{wait.id} was approved, and {wait.tool} did not run"
    return None


def edits_match_schema(evidence: Evidence) -> str | None:
    """Every recorded edit is valid for the schema of its tool."""
    for record in evidence.waits.values():
        if record.decision is None or record.decision.arguments is None:
            continue
        tool = TOOLS.get(first_name(record.wait.tool))
        if tool is None:
            continue
        try:
            # Edits name only the parameter that no deployment changes.
            tool.effective_arguments(record.decision.arguments)
        except ArgumentsInvalid as error:
            return f"{record.wait.id} was approved with invalid arguments: {error}"
    return None
