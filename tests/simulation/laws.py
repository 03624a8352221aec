"""The laws: functions of the evidence of one schedule.

A law returns None if the schedule keeps it, or a sentence about what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tests.simulation.compactions import laws as laws_of_compactions
from tests.simulation.costs import laws as laws_of_costs
from tests.simulation.decisions import laws as laws_of_decisions
from tests.simulation.denials import laws as laws_of_denials
from tests.simulation.events import laws as laws_of_events
from tests.simulation.evidence import Evidence
from tests.simulation.files import laws as laws_of_files
from tests.simulation.guards import laws as laws_of_guards
from tests.simulation.handoffs import laws as laws_of_handoffs
from tests.simulation.index import laws as laws_of_index
from tests.simulation.jobs import laws as laws_of_jobs
from tests.simulation.judging import laws as laws_of_judging
from tests.simulation.models import laws as laws_of_models
from tests.simulation.operators import laws as laws_of_operators
from tests.simulation.past import laws as laws_of_past
from tests.simulation.past import laws_of_forks
from tests.simulation.policy import laws as laws_of_policy
from tests.simulation.protocol import laws_of_effects, laws_of_endings, laws_of_runs
from tests.simulation.seams import laws as laws_of_seams
from tests.simulation.state import laws as laws_of_state
from tests.simulation.streams import laws as laws_of_streams
from tests.simulation.threads import laws as laws_of_threads
from tests.simulation.votes import laws as laws_of_votes
from tests.simulation.waits import laws as laws_of_waits
from tests.simulation.watches import laws as laws_of_watches
from tests.simulation.workflows import laws as laws_of_workflows

Law: TypeAlias = "Callable[[Evidence], str | None]"

_LAW_FUNCTIONS: tuple[Law, ...] = (
    laws_of_decisions.one_decision,
    laws_of_decisions.ended_by_its_decision,
    laws_of_decisions.cancelled_with_its_run,
    laws_of_decisions.decided_in_time,
    laws_of_decisions.not_expired_early,
    laws_of_decisions.approval_not_too_old,
    laws_of_decisions.approval_not_too_old_for_the_store,
    laws_of_decisions.sub_agents_entered_in_time,
    laws_of_decisions.refused_never_runs,
    laws_of_decisions.executed_equals_approved,
    laws_of_decisions.approved_call_runs_or_waits_again,
    laws_of_decisions.edits_match_schema,
    laws_of_denials.denied_calls_are_bounded,
    laws_of_compactions.compaction_keeps_what_must_stay,
    laws_of_compactions.stored_summary_is_not_asked_again,
    laws_of_effects.started_once,
    laws_of_effects.timed_out_call_is_over_before_a_repeat,
    laws_of_effects.finished_never_runs_again,
    laws_of_effects.idempotency_key_stable,
    laws_of_effects.turn_asked_once,
    laws_of_effects.model_reads_committed_messages,
    laws_of_effects.transcripts_valid,
    laws_of_effects.nothing_starts_without_claim,
    laws_of_waits.tool_before_a_wait_never_runs_again,
    laws_of_waits.answered_by_its_wait_only,
    laws_of_waits.early_answer_counts_as_start,
    laws_of_waits.timers_end_in_time,
    laws_of_watches.lost_reports_cost_an_interval,
    laws_of_jobs.stopped_before_its_end,
    laws_of_jobs.job_with_a_result_is_not_stopped,
    laws_of_votes.each_vote_is_counted_once,
    laws_of_votes.decided_by_its_slots,
    laws_of_votes.votes_that_were_acknowledged_are_kept,
    laws_of_policy.no_call_begins_unasked,
    laws_of_policy.no_agent_is_entered_unasked,
    laws_of_policy.grants_come_from_approvals,
    laws_of_policy.acknowledged_revocations_are_kept,
    laws_of_policy.rules_decide_under_their_names,
    laws_of_policy.refused_by_its_check_never_runs,
    laws_of_policy.fixed_arguments_stay,
    laws_of_models.pending_turn_is_asked_once,
    laws_of_models.committed_reply_is_polled,
    laws_of_models.reply_follows_what_was_sent,
    laws_of_models.suspended_frame_asks_no_model,
    laws_of_models.attempts_back_off,
    laws_of_models.siblings_of_a_suspended_frame_go_on,
    laws_of_operators.paused_run_begins_nothing,
    laws_of_operators.cancelled_call_never_begins,
    laws_of_operators.cancelled_agent_ends,
    laws_of_events.no_event_is_lost,
    laws_of_events.each_wait_takes_the_oldest_event,
    laws_of_events.an_event_is_taken_once,
    laws_of_events.an_own_id_names_one_event,
    laws_of_events.each_signal_ends_one_wait,
    laws_of_events.no_signal_waits_beside_its_wait,
    laws_of_events.events_leave_nothing,
    laws_of_threads.each_message_has_one_reply,
    laws_of_threads.no_message_is_left_in_a_thread,
    laws_of_threads.senders_get_their_own_replies,
    laws_of_threads.a_message_id_is_posted_once,
    laws_of_threads.ended_turn_begins_nothing,
    laws_of_threads.turns_end_as_asked,
    laws_of_threads.resting_thread_leaves_no_keys,
    laws_of_threads.generations_follow_each_other,
    laws_of_state.state_is_the_replay_of_its_changes,
    laws_of_files.no_message_lacks_its_attachment,
    laws_of_files.attachments_are_kept_once_within_the_limit,
    laws_of_files.models_get_the_bytes_of_attachments,
    laws_of_guards.executed_equals_accepted_after_the_hook,
    laws_of_guards.refused_by_a_guardrail_never_runs,
    laws_of_guards.each_trip_is_told_once,
    laws_of_judging.no_input_is_read_unasked,
    laws_of_judging.no_output_is_used_unasked,
    laws_of_judging.refused_by_an_agent_never_runs,
    laws_of_streams.streams_go_on_where_they_were_cut,
    laws_of_streams.each_text_is_shown_once,
    laws_of_costs.usage_is_what_the_models_charged,
    laws_of_costs.a_money_budget_stops_a_run,
    laws_of_forks.a_fork_has_the_transcripts_that_were_asked_for,
    laws_of_forks.models_read_the_changed_messages_of_a_fork,
    laws_of_past.nothing_is_repeated_unasked,
    laws_of_past.forks_change_no_other_run,
    laws_of_past.ids_never_go_back,
    laws_of_past.waits_are_asked_anew,
    laws_of_past.forks_begin_with_nothing_of_their_own,
    laws_of_past.no_grant_survives_its_rewind,
    laws_of_past.begun_rewinds_are_finished,
    laws_of_past.rewinds_tell_what_is_not_undone,
    laws_of_seams.nobody_approves_what_they_asked_for,
    laws_of_seams.denied_by_its_rule_never_runs,
    laws_of_seams.cut_off_messages_are_stopped,
    laws_of_seams.interruptions_survive_a_rewind,
    laws_of_seams.a_run_takes_each_arrival_once,
    laws_of_seams.dropped_signals_end_no_wait,
    laws_of_seams.untaken_signals_are_listed,
    laws_of_seams.nothing_due_is_left,
    laws_of_workflows.histories_only_grow,
    laws_of_workflows.time_of_a_workflow_never_goes_back,
    laws_of_workflows.every_command_gets_an_outcome,
    laws_of_workflows.outcomes_follow_their_decisions,
    laws_of_workflows.replays_repeat_the_history,
    laws_of_workflows.suspended_code_has_nothing_to_do,
    laws_of_workflows.changed_code_changes_nothing,
    laws_of_workflows.the_mark_precedes_the_decision,
    laws_of_workflows.marked_call_never_begins,
    laws_of_workflows.begun_call_keeps_its_outcome,
    laws_of_workflows.ended_code_marks_its_calls,
    laws_of_workflows.alarms_ring_beside_calls,
    laws_of_workflows.no_time_of_a_workflow_is_in_the_future,
    laws_of_workflows.every_workflow_ends,
    laws_of_workflows.only_code_that_nothing_wakes_is_stuck,
    laws_of_handoffs.each_turn_is_of_the_agent_that_has_the_conversation,
    laws_of_handoffs.the_next_agent_reads_what_the_filter_left,
    laws_of_runs.versions_are_linear,
    laws_of_runs.notes_of_missing_code_follow_their_versions,
    laws_of_runs.notified_after_commit,
    laws_of_runs.each_message_once,
    laws_of_runs.nothing_unread_at_the_end,
    laws_of_runs.cancellation_noticed_soon,
    laws_of_runs.gives_up_only_without_progress,
    laws_of_runs.no_foreign_errors,
    laws_of_endings.no_run_stranded,
    laws_of_endings.only_able_workers_postpone,
    laws_of_endings.ended_run_leaves_no_keys,
    laws_of_endings.listed_waits_are_open,
    laws_of_endings.open_waits_are_notified,
    laws_of_endings.same_end_as_uninterrupted,
    laws_of_index.runs_are_found,
)
LAWS: dict[str, Law] = {law.__name__: law for law in _LAW_FUNCTIONS}


def broken_laws(evidence: Evidence) -> dict[str, str]:
    """Return the names of the laws that a schedule broke, each with its sentence."""
    sentences = ((name, law(evidence)) for name, law in LAWS.items())
    return {name: sentence for name, sentence in sentences if sentence is not None}
