"""A sample of many similar cases by default, and all of them with TORTURE=1.

`make test` would need an hour for all cases; `make torture` runs them. A sample is a
fixed rule, and it keeps some cases of each distinct scenario.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeVar

import pytest

T = TypeVar("T")
U = TypeVar("U")

RUNS_ALL_CASES = os.environ.get("TORTURE") == "1"
# Another number lets the other tests of `SAMPLED_TESTS` run.
SAMPLE_TURN = int(os.environ.get("SAMPLE_TURN", "0"))


# Tests of ten seconds or so, each of which has a shorter sibling that shows its promise
# with fewer levels, processes or requests. The name is that of a test, or of one case.
LONG_TESTS = (
    "tests/browser/test_chat_app.py::test_customer_and_colleague_see_one_conversation",
    "tests/browser/test_chat_app.py::test_killed_server_goes_on_and_each_text_stands_once",
    "tests/browser/test_console_pages.py::test_blind_clicks_decide_one_wait[size0]",
    "tests/browser/test_live_by_poll.py::test_pages_that_ask_follow_their_run_and_the_inbox",
    "tests/browser/test_run_pages.py::test_thousand_levels_open_row_by_row_without_script",
    "tests/browser/test_words_of_other_processes.py::test_words_of_a_killed_worker_go_and_the_next_one_writes_its_own",
    "tests/browser/test_words_of_other_processes.py::test_words_of_a_worker_in_another_process_grow_in_the_chat[Postgres]",
    "tests/browser/test_words_of_other_processes.py::test_words_of_a_worker_in_another_process_grow_in_the_chat[files]",
    "tests/cli/test_deep_stack.py",
    "tests/cli/test_interruption.py::test_signal_gives_up_a_model_call_and_its_claim[15-143]",
    "tests/docs/test_blocks_are_typed.py",  # `make check` runs them
    "tests/engine/test_changed_code.py::test_removed_sub_agent_ends_after_the_last_of_its_waits_is_settled",
    "tests/engine/test_claims.py::test_a_frozen_worker_that_nobody_replaced_goes_on",
    "tests/engine/test_depth.py::test_run_with_a_thousand_levels_suspends_and_resumes",
    "tests/engine/test_drift.py::test_prediction_equals_what_resume_does_in_another_process[1]",
    "tests/engine/test_drift.py::test_prediction_equals_what_resume_does_in_another_process[2]",
    "tests/engine/test_drift.py::test_prediction_equals_what_resume_does_in_another_process[3]",
    "tests/engine/test_fork.py::test_forks_and_resumes_in_fresh_interpreters_repeat_nothing",
    "tests/engine/test_stacks_in_processes.py::test_limited_sub_agent_waits_alone_and_goes_on_in_another_process",
    "tests/engine/test_stacks_in_processes.py::test_pause_while_a_condition_holds_an_agent_names_both_reasons",
    "tests/engine/test_sweep.py::test_a_model_that_stays_down_does_not_pile_up_markers",
    "tests/engine/test_sweep.py::test_marker_without_a_run_is_examined_less_and_less_often",
    "tests/engine/test_thread_cost_on_files.py::test_python_calls_of_a_turn_on_files_do_not_grow_with_the_thread[ScriptedModel]",
    "tests/engine/test_thread_cost.py::test_idle_threads_are_in_no_list_and_cost_a_sweep_nothing",
    "tests/engine/test_threads_in_processes.py::test_each_racing_sender_gets_its_own_reply",
    "tests/engine/workflows/test_code_shapes.py::test_thousand_questions_are_answered_in_reverse",
    "tests/examples/test_expense_claim.py::test_story_is_the_same_in_one_process_and_in_a_dozen",
    "tests/examples/test_librarian.py::test_library_is_built_with_a_stop_at_every_line[9]",
    "tests/examples/test_three_deep.py::test_example_killed_at_random_has_the_same_end",
    "tests/examples/test_three_deep.py::test_transfer_of_a_killed_process_is_not_repeated[False]",
    "tests/hostile/test_lost_versions.py::test_waits_from_before_a_repair_are_closed",
    "tests/interop/test_agent_continuations.py::test_application_three_deep_runs_with_other_imports",
    "tests/models/test_responses_owners.py::test_fork_to_another_model_leaves_the_reasoning_out",
    "tests/on_s3/test_events_on_s3.py",
    "tests/on_s3/test_runs_on_s3.py::test_one_resumer_and_one_decider_of_many_processes_succeed",
    "tests/on_s3/test_runs_on_s3.py::test_run_recovers_from_a_crash_at_every_storage_call[after]",
    "tests/serve/aws/test_deployed_example.py::test_function_invokes_itself_until_a_long_run_has_ended",
    "tests/serve/aws/test_deployed_example.py::test_start_and_decision_delivered_twice_run_once",
    "tests/serve/aws/test_lambda_runs.py::test_cancel_and_scheduled_sweep_events_are_handled",
    "tests/serve/aws/test_lambda_runs.py::test_decision_delivered_twice_is_recorded_once",
    "tests/serve/aws/test_lambda_runs.py::test_killed_call_is_unknown_or_repeated[push]",
    "tests/serve/aws/test_lambda_runs.py::test_killed_function_loses_no_message",
    "tests/serve/aws/test_lambda_runs.py::test_margin_above_the_timeout_still_makes_progress",
    "tests/serve/aws/test_lambda_runs.py::test_message_delivered_twice_resumes_once",
    "tests/serve/aws/test_lambda_runs.py::test_reply_that_outlasts_the_function_goes_on_in_others",
    "tests/serve/aws/test_lambda_runs.py::test_start_without_run_id_is_idempotent",
    "tests/serve/aws/test_lambda_runs.py::test_sweep_continues_a_paused_run",
    "tests/serve/aws/test_lambda_runs.py::test_timed_out_invocation_leaves_an_unknown_call",
    "tests/serve/aws/test_s3_example.py",
    "tests/serve/pages/test_run_rows.py::test_every_frame_and_call_has_one_row",
    "tests/serve/test_idle_threads.py",
    "tests/simulation/test_documentation.py::test_commands_of_the_page_print_the_shown_output",
    "tests/simulation/test_simulation.py::test_command_shrinks_a_broken_schedule_and_prints_how_to_replay_it",
    "tests/simulation/test_workflow_replays.py",
    "tests/storage/test_conformance.py::TestFileStoreWithNamedFiles::test_exactly_one_of_racing_processes_creates_a_key",
    "tests/storage/test_google_and_azure.py::TestAzureEmulator::test_all_keys_iterates_over_every_page",
    "tests/storage/test_obstore.py::TestObstoreOnS3::test_all_keys_iterates_over_every_page",
    "tests/storage/test_s3_conformance.py::TestS3Store::test_all_keys_iterates_over_every_page",
    "tests/storage/test_s3_conformance.py::TestS3Store::test_exactly_one_of_racing_processes_creates_a_key",
    "tests/storage/test_s3_conformance.py::TestS3StoreOverUnreliableConnection",
)


# Files whose tests start processes, servers or many schedules, and tests of a large
# matrix: `make test` runs every n-th one. The name is that of a file or of a test.
SAMPLED_TESTS = {
    "tests/browser/test_agui_app.py": 2,
    "tests/browser/test_big_content.py": 2,
    "tests/browser/test_chat_app.py": 3,
    "tests/browser/test_chat_page.py": 2,
    "tests/browser/test_console_pages.py": 5,
    "tests/browser/test_link_pages.py": 5,
    "tests/browser/test_live_chat.py": 5,
    "tests/browser/test_run_pages.py": 6,
    "tests/browser/test_wait_pages.py": 5,
    "tests/cli/test_chat_command.py::test_signal_completes": 2,
    "tests/cli/test_chat_in_a_terminal.py": 5,
    "tests/cli/test_command_processes.py": 3,
    "tests/cli/test_hostile_shells.py": 4,
    "tests/cli/test_interruption.py": 2,
    "tests/cli/test_programs.py": 4,
    "tests/cli/test_secrets_of_commands.py": 6,
    "tests/cli/test_serve_command.py": 2,
    "tests/cli/test_streamed_runs.py": 5,
    "tests/cli/test_terminal_pages.py": 4,
    "tests/cli/test_ui_command.py": 2,
    "tests/cli/test_unknown_outcomes.py": 2,
    "tests/docs/test_pages.py::test_page_runs_as_printed": 7,
    "tests/engine/test_store_outages.py::test_outage_while_a_tool_returns": 4,
    "tests/engine/test_cancelled_frames.py::test_call_of_an_agent": 3,
    "tests/engine/test_changed_code.py": 5,
    "tests/engine/test_crash_scenarios.py": 8,
    "tests/engine/test_depth.py": 3,
    "tests/engine/test_erasing_runs.py::test_frozen_process_brings_nothing_back": 3,
    "tests/engine/test_forgotten_await.py": 4,
    "tests/engine/test_guarded_agents_in_processes.py": 3,
    "tests/engine/test_on_cancel.py::test_crash": 2,
    "tests/engine/test_repeated_messages.py::test_a_repeat_finds_its_reply": 4,
    "tests/engine/test_rewind.py::test_crash_at_each_operation": 4,
    "tests/engine/test_signals.py::test_a_crash_at_every_operation": 2,
    "tests/engine/test_thread_cost.py": 2,
    "tests/engine/test_waiting_tools_in_processes.py": 4,
    "tests/engine/workflows/test_damaged_histories.py": 3,
    "tests/engine/workflows/test_mutations.py": 3,
    "tests/engine/workflows/test_pasts_of_workflows.py": 2,
    "tests/errors/test_errors.py::test_error_is_raised_and_its_advice_succeeds": 2,
    "tests/examples/test_approve_a_refund.py": 2,
    "tests/examples/test_librarian.py": 4,
    "tests/examples/test_ported.py": 5,
    "tests/examples/test_three_deep.py": 3,
    "tests/hostile/test_damaged_store.py": 6,
    "tests/hostile/test_disk_faults.py": 3,
    "tests/hostile/test_forged_requests.py": 3,
    "tests/hostile/test_forged_tombstones.py::test_tombstone_that_is_damaged": 4,
    "tests/hostile/test_hostile_bytes.py::test_every_reader_accepts": 2,
    "tests/hostile/test_hostile_ids.py::test_a_run_id_is_checked": 4,
    "tests/hostile/test_lost_versions.py": 3,
    "tests/ledger/test_decide.py::test_invalid_decision_after_the_end_is_refused": 4,
    "tests/on_s3/test_runs_on_s3.py": 3,
    "tests/serve/aws/test_deployed_example.py": 3,
    "tests/serve/aws/test_lambda_runs.py": 4,
    "tests/serve/aws/test_rights.py": 4,
    "tests/serve/http/test_api.py::test_unidentified_request_is_rejected": 4,
    "tests/serve/http/test_openapi.py": 8,
    "tests/serve/http/test_single_rights.py": 4,
    "tests/serve/test_secrets_everywhere.py": 4,
    "tests/serve/test_streams_over_http.py": 3,
    "tests/simulation/test_bounded_denials.py": 4,
    "tests/simulation/test_erased_runs.py": 3,
    "tests/simulation/test_mutants.py::test_every_mutant_breaks_a_law": 6,
    "tests/simulation/test_repairs.py": 6,
    "tests/simulation/test_short_approvals.py": 4,
    "tests/simulation/test_simulation.py::test_no_schedule_of_a_family_breaks_a_law": 3,
    "tests/simulation/test_simulation.py::test_seeds_that_once_broke_a_law_pass": 3,
    "tests/storage/test_conformance.py::TestFaultyStoreWithoutFaults": 3,
    "tests/storage/test_conformance.py::TestFileStoreWithNamedFiles": 3,
    "tests/storage/test_files_crash.py": 3,
    "tests/storage/test_google_and_azure.py": 4,
    "tests/storage/test_obstore.py": 4,
    "tests/storage/test_postgres.py::test_settings_of_a_role": 3,
    "tests/storage/test_postgres.py::test_server_that_restarts": 2,
    "tests/storage/test_postgres_conformance.py::TestPostgresStoreBehindPgBouncer": 2,
    "tests/storage/test_power_loss.py": 2,
    "tests/storage/test_s3_conformance.py": 4,
    "tests/testing/test_pytest_plugin.py": 3,
    "tests/testing/test_replays.py": 2,
    "tests/testing/test_workflows_in_harness.py": 2,
    "tests/torture/test_every_crash_point.py": 6,
    "tests/torture/test_killed_scenarios.py": 7,
    "tests/torture/test_process_races.py": 3,
}


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that only `make torture` runs."""
    counts = dict.fromkeys(SAMPLED_TESTS, 0)
    named = (*LONG_TESTS, *SAMPLED_TESTS)
    left: list[pytest.Item] = []
    for item in items:
        nodeid = item.nodeid
        if not nodeid.startswith(named):
            continue
        if nodeid.startswith(LONG_TESTS):
            left.append(item)
            continue
        for name, step in SAMPLED_TESTS.items():
            if nodeid.startswith(name):
                if (counts[name] + SAMPLE_TURN) % step:
                    left.append(item)
                counts[name] += 1
    return left


def sample(cases: Sequence[T], step: int, start: int = 0) -> Sequence[T]:
    """Return every `step`-th case.

    Args:
        cases: All cases.
        step: The distance of two cases of the sample.
        start: Tests with the same cases take turns if they have different starts.
    """
    return cases if RUNS_ALL_CASES else cases[start % step :: step]


def pairs(first: Iterable[T], second: Iterable[U]) -> list[tuple[T, U]]:
    """Return pairs in which each value of both lists occurs."""
    left, right = list(first), list(second)
    if RUNS_ALL_CASES:
        return list(product(left, right))
    count = max(len(left), len(right))
    return [(left[n % len(left)], right[n % len(right)]) for n in range(count)]


def examples(count: int) -> int:
    """Return how many examples hypothesis makes: an eighth, but ten at least."""
    return count if RUNS_ALL_CASES else max(10, count // 8)
