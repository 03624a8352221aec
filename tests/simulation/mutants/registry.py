"""All mutants, and the promises of the protocol that they test.

`seeds.txt` holds for each mutant a seed whose schedule notices it.
"""

from __future__ import annotations

from importlib import import_module

from tests.simulation.mutants.mutant import mutants_in, unique_mutants

# In the order of their seeds.
_MODULES = [
    "protocol.version_mutants",
    "protocol.claim_mutants",
    "protocol.clock_mutants",
    "protocol.marker_mutants",
    "protocol.publishing_mutants",
    "decisions.mutants",
    "denials.mutants",
    "protocol.drive_mutants",
    "protocol.code_mutants",
    "index.mutants",
    "waits.mutants",
    "votes.mutants",
    "models.mutants",
    "operators.mutants",
    "past.mutants",
    "events.mutants",
    "jobs.mutants",
    "policy.mutants",
    "threads.mutants",
    "state.mutants",
    "compactions.mutants",
    "guards.mutants",
    "judging.mutants",
    "streams.mutants",
    "costs.mutants",
    "files.mutants",
    "seams.mutants",
    "workflows.mutants",
    "handoffs.mutants",
    "watches.mutants",
    "protocol.commit_mutants",
]


MUTANTS = unique_mutants(
    *(mutants_in(vars(import_module(f"tests.simulation.{each}"))) for each in _MODULES)
)

# Rules of the storage protocol that the documentation states, each with its mutant.
PROMISED_RULES: dict[str, str] = {
    "a version is never overwritten": "a_version_is_overwritten",
    "a wait id is never used twice": "wait_id_is_derived_from_its_call",
    "each create has its own maker's id": "all_creates_of_a_process_share_one_maker_id",
    "the version precedes its wait objects": "waits_are_listed_before_their_version",
    "the marker precedes the decision": "a_marker_is_made_after_its_decision",
    "a decision is applied once": "a_decision_is_applied_twice",
    "a result precedes the next model turn": "result_is_committed_with_the_next_turn",
    "a create without a reply is looked up": "lost_reply_counts_as_success",
    "renewing a claim can fail": "a_claim_is_renewed_without_a_check",
    "a rewritten log has a new id": "a_log_id_is_used_again_after_a_rewrite",
    "a deadline must win the create of its decision": (
        "expiry_acts_without_a_recorded_decision"
    ),
    "a marker that means now needs no clock": "now_is_dated_by_a_clock",
    "a worker postpones only runs that it can process": "own_errors_postpone_a_run",
    "the store's time counts for a decision": "decisions_trust_the_deciders_clock",
    "the old approval never runs a changed tool": (
        "a_changed_tool_runs_under_the_old_approval"
    ),
    "a call that timed out is never repeated on a guess": (
        "a_timed_out_call_is_repeated"
    ),
    "no code of a tool before its wait runs again": "an_answer_runs_the_tool_again",
    "a deadline takes effect only after its slot": (
        "a_deadline_takes_effect_without_a_slot"
    ),
    "earlier votes do not count after an escalation": "votes_survive_an_escalation",
    "a revoked grant covers nothing after the next claim": "a_revocation_is_ignored",
    "a rule decides only with its record": "a_rule_decides_without_its_record",
    "an early answer is kept": "an_early_answer_is_ignored_after_a_crash",
    "the event precedes the listing of waits": "waits_are_listed_before_the_event",
    "a wait is made known before a look at earlier events": "a_wait_is_not_made_known",
    "a run takes an event once": "a_taken_event_is_forgotten",
    "the version precedes its notifications": "notification_precedes_the_version",
}
