"""All mutants, and the promises of the protocol that they test.

`seeds.py` holds for each mutant a seed whose schedule notices it.
"""

from __future__ import annotations

from tests.simulation.compactions import mutants as compaction_mutants
from tests.simulation.costs import mutants as cost_mutants
from tests.simulation.decisions import mutants as decision_mutants
from tests.simulation.denials import mutants as denial_mutants
from tests.simulation.events import mutants as event_mutants
from tests.simulation.files import mutants as file_mutants
from tests.simulation.guards import mutants as guard_mutants
from tests.simulation.handoffs import mutants as handoff_mutants
from tests.simulation.index import mutants as index_mutants
from tests.simulation.jobs import mutants as job_mutants
from tests.simulation.judging import mutants as judging_mutants
from tests.simulation.models import mutants as model_mutants
from tests.simulation.mutants.mutant import Mutant, unique_mutants
from tests.simulation.operators import mutants as operator_mutants
from tests.simulation.past import mutants as past_mutants
from tests.simulation.policy import mutants as policy_mutants
from tests.simulation.protocol import (
    claim_mutants,
    clock_mutants,
    code_mutants,
    commit_mutants,
    drive_mutants,
    marker_mutants,
    publishing_mutants,
    version_mutants,
)
from tests.simulation.seams import mutants as seam_mutants
from tests.simulation.state import mutants as state_mutants
from tests.simulation.streams import mutants as stream_mutants
from tests.simulation.threads import mutants as thread_mutants
from tests.simulation.votes import mutants as vote_mutants
from tests.simulation.waits import mutants as waiting_mutants
from tests.simulation.watches import mutants as watch_mutants
from tests.simulation.workflows import mutants as workflow_mutants

MUTANTS: tuple[Mutant, ...] = unique_mutants(
    version_mutants.MUTANTS,
    claim_mutants.MUTANTS,
    clock_mutants.MUTANTS,
    marker_mutants.MUTANTS,
    publishing_mutants.MUTANTS,
    decision_mutants.MUTANTS,
    denial_mutants.MUTANTS,
    drive_mutants.MUTANTS,
    code_mutants.MUTANTS,
    index_mutants.MUTANTS,
    waiting_mutants.MUTANTS,
    vote_mutants.MUTANTS,
    model_mutants.MUTANTS,
    operator_mutants.MUTANTS,
    past_mutants.MUTANTS,
    event_mutants.MUTANTS,
    job_mutants.MUTANTS,
    policy_mutants.MUTANTS,
    thread_mutants.MUTANTS,
    state_mutants.MUTANTS,
    compaction_mutants.MUTANTS,
    guard_mutants.MUTANTS,
    judging_mutants.MUTANTS,
    stream_mutants.MUTANTS,
    cost_mutants.MUTANTS,
    file_mutants.MUTANTS,
    seam_mutants.MUTANTS,
    workflow_mutants.MUTANTS,
    handoff_mutants.MUTANTS,
    watch_mutants.MUTANTS,
    commit_mutants.MUTANTS,
)

# Rules of the storage protocol that the documentation states, each with its mutant.
PROMISED_RULES: dict[str, Mutant] = {
    "a version is never overwritten": version_mutants.a_version_is_overwritten,
    "a wait id is never used twice": decision_mutants.wait_id_is_derived_from_its_call,
    "each create has its own maker's id": (
        version_mutants.all_creates_of_a_process_share_one_maker_id
    ),
    "the version precedes its wait objects": (
        publishing_mutants.waits_are_listed_before_their_version
    ),
    "the marker precedes the decision": (
        marker_mutants.a_marker_is_made_after_its_decision
    ),
    "a decision is applied once": decision_mutants.a_decision_is_applied_twice,
    "a result precedes the next model turn": (
        drive_mutants.result_is_committed_with_the_next_turn
    ),
    "a create without a reply is looked up": (
        version_mutants.lost_reply_counts_as_success
    ),
    "renewing a claim can fail": claim_mutants.a_claim_is_renewed_without_a_check,
    "a rewritten log has a new id": (
        version_mutants.a_log_id_is_used_again_after_a_rewrite
    ),
    "a deadline must win the create of its decision": (
        decision_mutants.expiry_acts_without_a_recorded_decision
    ),
    "a marker that means now needs no clock": clock_mutants.now_is_dated_by_a_clock,
    "a worker postpones only runs that it can process": (
        clock_mutants.own_errors_postpone_a_run
    ),
    "the store's time counts for a decision": (
        clock_mutants.decisions_trust_the_deciders_clock
    ),
    "the old approval never runs a changed tool": (
        code_mutants.a_changed_tool_runs_under_the_old_approval
    ),
    "a call that timed out is never repeated on a guess": (
        code_mutants.a_timed_out_call_is_repeated
    ),
    "no code of a tool before its wait runs again": (
        waiting_mutants.an_answer_runs_the_tool_again
    ),
    "a deadline takes effect only after its slot": (
        vote_mutants.a_deadline_takes_effect_without_a_slot
    ),
    "earlier votes do not count after an escalation": (
        vote_mutants.votes_survive_an_escalation
    ),
    "a revoked grant covers nothing after the next claim": (
        policy_mutants.a_revocation_is_ignored
    ),
    "a rule decides only with its record": (
        policy_mutants.a_rule_decides_without_its_record
    ),
    "an early answer is kept": waiting_mutants.an_early_answer_is_ignored_after_a_crash,
    "the event precedes the listing of waits": (
        event_mutants.waits_are_listed_before_the_event
    ),
    "a wait is made known before a look at earlier events": (
        event_mutants.a_wait_is_not_made_known
    ),
    "a run takes an event once": event_mutants.a_taken_event_is_forgotten,
    "the version precedes its notifications": (
        publishing_mutants.notification_precedes_the_version
    ),
}
