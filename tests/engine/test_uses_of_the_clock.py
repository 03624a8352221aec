"""Each use of the clock of this machine has a reason.

The clock of a machine may be wrong by a year. A new use needs a line in the table, and
a reason that says why a wrong clock deletes nothing, ends nothing and runs nothing.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "continuations", ROOT / "storage" / "continuations_storage")
_CLOCKS = {"now", "utcnow", "today"}
_TIMES = {"time", "time_ns"}
# Times of files and their functions: an age is computed from them.
_FILE_TIMES = {
    "st_mtime",
    "st_mtime_ns",
    "st_ctime",
    "st_ctime_ns",
    "st_birthtime",
    "getmtime",
    "getctime",
}

# Reason -> file and function of each use.
_REASONS: dict[str, str] = {
    """Words are shown for too long, or not at all. Nothing follows from them.""": """
        ephemeral_files.py _left_behind
        ephemeral_files.py EphemeralFiles._names
        ephemeral_files.py EphemeralFiles.put
        ephemeral_files.py _read
    """,
    """It is the time of the history of a workflow. No clock is read.""": """
        authoring/workflow/drive.py FlowDrive.step
        authoring/workflow/drive.py FlowDrive.now
        authoring/workflow/workflow.py Flow.now
    """,
    """The store's time counts: the place asks for it before it decides, or the reply to
    its create corrects it.""": """
        engine/sweep/event_sweep.py EventSweep._is_old
        engine/sweep/event_sweep.py EventSweep._later
        engine/sweep/sweeping.py RunSweep._delete_abandoned_files
        engine/sweep/sweeping.py RunSweep._finish_moving
        engine/sweep/sweeping.py RunSweep._remind
        ledger/repair/erasing.py Eraser._bury
        ledger/repair/erasing.py Eraser._make_later_marker
        ledger/decisions/run_grants.py list_grants
        ledger/decisions/heartbeats.py extend_deadline
        ledger/markers.py postpone.postponed
        ledger/index/misdated_markers.py redate_misdated
        ledger/repair/retention.py Pruner._old_page
        ledger/repair/retention.py Pruner.eraser_of_ended
        ledger/repair/retention.py Pruner._random_day
        ledger/published_events.py EventPublisher._create_marker
        serve/console/wait_approvals.py _until
    """,
    """Nothing follows without a claim or a version. The guard before each of them
    compares the clocks, and raises `ClockOff` if they differ too much.""": """
        engine/calls/admission.py Admission.hold
        engine/start/new_run.py start_entry
        engine/worker/run_loop.py RunLoop._ring_alarms
        engine/worker/run_loop.py RunLoop._seconds_to_alarm
        engine/workflow/flow_drives.py FlowDrives.step
        engine/calls/admission.py Admission.why_void
        engine/calls/admission.py Admission.ask_again
        engine/call_waits.py wait_of_call
        engine/past/adoption.py adopted_state
        engine/calls/call_examination.py CallExaminer._admitted
        engine/threads/agentless_threads.py create_thread
        engine/journal/file_storing.py _ClaimTime.seconds_left
        engine/past/forking.py Forker._forked_state
        engine/journal/job_cancellation.py JobCanceller._may_be_ended
        engine/journal/journal.py StoreJournal._append
        engine/journal/publishing.py Publisher.commit_and_publish
        engine/model_delays.py ModelDelays._after_failure
        engine/model_delays.py ModelDelays._wait
        engine/calls/parked_calls.py ParkedCalls._renewed
        engine/calls/parked_calls.py park
        engine/past/rewinding.py Rewinder.rewind
        engine/past/rewinding.py Rewinder._rewind
        engine/past/rewinding.py Rewinder._rewound_state
        engine/journal/run_ending.py RunEnder.close_waits
        engine/requests/run_requests.py RunRequests.end_if_cancelled
        engine/sweep/sweeping.py RunSweep.process
        engine/sweep/sweeping.py RunSweep._can_progress
        engine/turns/model_turn.py SuspendChecks._condition_events
        engine/guards/guarded_turn.py new_text_wait
        engine/worker/performer.py _is_over
        engine/worker/performer.py verification_event
        engine/worker/worker.py Worker._apply_arrivals
        engine/start/new_run.py first_state
        ledger/claims.py Lease.start_now
        ledger/claims.py Lease.seconds_left
        ledger/markers.py read_due
        ledger/store_clock.py StoreClock.check_free
    """,
    """The source of a copy is only read. If a worker holds the run in spite of this
    time, the run goes on, and the copy names it.""": """
        ledger/copying/run_copy.py RunCopy._check_claim
    """,
    """The store compares this time with its own before it writes. If they differ by
    more than a second, the create of a marker tells the store's time.""": """
        engine/runner/async_runner.py AsyncRunner._record
    """,
    """The create of a marker tells the store's time, which replaces this one.""": """
        cli/store_commands.py _repair
        engine/past/forking.py Forker._decide
        ledger/published_events.py EventDelivery._end
    """,
    """A marker gets this date. A sweep finds a marker that is dated too late, and the
    worst that a date too early costs is one look.""": """
        engine/journal/journal.py StoreJournal._new_guard
        engine/worker/worker.py Worker.start_or_resume_with_files
        engine/sweep/sweeping.py RunSweep.back_off
    """,
    """The time of a request, to be compared with the store's time.""": """
        engine/journal/journal.py StoreJournal._append.append
        engine/journal/journal.py StoreJournal._append_guarded
        engine/journal/journal.py StoreJournal._make_guard
        engine/journal/journal.py StoreJournal._check_time
        engine/worker/worker.py Worker.resume
        ledger/store_clock.py StoreClock.now
        ledger/store_clock.py StoreClock.list_keys
        ledger/store_clock.py StoreClock.create
        ledger/store_clock.py StoreClock.ask
        ledger/store_clock.py StoreClock._observe
    """,
    """A decision that is only checked. The stored one has the store's time.""": """
        engine/past/forking.py Forker._checked_decisions
    """,
    """Only in an id or a nonce, which no place compares with a clock.""": """
        cli/run_commands.py _new_run_id
        engine/journal/journal.py StoreJournal.__init__
        engine/journal/journal.py StoreJournal._new_release_marker
        engine/journal/publishing.py look_back
        engine/sweep/sweeping.py RunSweep._learn_time
        engine/runner/runner_parts.py RunnerParts._new_ulid
        engine/sweep/sweeping.py Sweeper.apply_retention
        engine/sweep/sweeping.py Sweeper.due_runs
        engine/sweep/sweeping.py Sweeper._process_events
        ledger/published_events.py EventPublisher.publish
    """,
    """The time of a request, for readers. Nothing is decided by it.""": """
        engine/worker/worker.py Worker._note_missing_code
        probe.py _prove
        engine/requests/run_requests.py RunRequests.send
        engine/requests/run_requests.py RunRequests._facts
        engine/threads/async_thread.py ThreadPosts.new_message
    """,
    """Only for what a person or a program reads. Nothing is written.""": """
        cli/inspect_commands.py inbox
        cli/inspect_commands.py _show_wait
        cli/inspect_commands.py _show_run
        cli/inspect_commands.py show
        engine/past/drift.py _Prediction._of_open_wait
        ledger/markers.py list_expired
        ledger/copying/run_copy.py RunCopy._hide
        ledger/decisions/worklist.py read_worklist
        ledger/decisions/worklist.py _followed
        serve/console/console.py Console.error_response
        serve/console/console.py Console._answer_page
        serve/console/runs_page.py _grants
        serve/console/decided_page.py show
        serve/console/inbox_page.py _find
        serve/console/inbox_page.py _others_in_words
        serve/console/inbox_page.py show_others
        serve/console/known_runs.py KnownRuns._live_run
        serve/console/open_waits.py OpenWaits.now_ms
        serve/console/runs_page.py show
        serve/console/run_page.py show
        serve/console/runs_page.py list_page
        serve/console/threads_page.py show
        serve/console/past_pages.py show_versions
        serve/console/wait_pages.py show_answer
        serve/console/wait_pages.py show_evidence
        serve/console/wait_approvals.py _review
        serve/console/wait_approvals.py _choices_form
        serve/console/wait_pages.py side_page
        serve/console/wait_pages.py wait_page
        engine/worker/worker.py Worker._list_tools
        interop/a2a/task_states.py _time_of
        interop/slack/decisions.py Decisions._shown
        serve/http/api.py HttpApi.handle_route
        serve/http/run_handlers.py _result_json
        serve/http/link_pages.py show
        serve/http/link_pages.py _open_page
        serve/http/reading_handlers.py show_version
        serve/http/reading_handlers.py show_wait
        serve/http/thread_handlers.py post_message
        serve/http/event_stream.py _WorkStream._result
        serve/http/problems.py from_error
        serve/operation_calls.py report_of
    """,
    """The time of a file is from the clock of the file system, and is compared with
    another time of this clock, or shown.""": """
        files.py FileStore._remove_stale_files
        filesystem.py _is_recent
        new_file.py _write
    """,
    """A period that begins and ends on this machine, or on one that is no part of the
    store. Nothing of a run is deleted or ended by it.""": """
        engine/tool_contexts.py make_tool_context
        models/chat_errors.py _retry_after
        serve/console/console.py LastViews.keep
        serve/console/console.py LastViews.find
        serve/console/known_runs.py KnownRuns._list
        serve/console/known_runs.py KnownRuns._list_ended
        serve/console/known_runs.py KnownRuns.refresh
        serve/console/known_runs.py KnownRuns.renew
        serve/console/live.py LiveWaits._list_waits
        serve/console/live.py LiveWaits.is_listed
        serve/console/live_runs.py _Follower._follow
        serve/console/wait_list.py read_lists
        serve/console/open_waits.py OpenWaits.refresh
        serve/console/wait_list.py count_for_navigation
        serve/console/wait_list.py count_waits
        serve/http/links.py Links.read
        serve/http/links.py Links._default_until
        serve/http/callbacks.py receive
        interop/a2a/push.py _Signature.auth_flow
        serve/notify/webhook.py WebhookNotifier._headers
        serve/notify/webhook.py WebhookNotifier._check_status
    """,
    """It is the time of the store: all its processes are on this machine.""": """
        sqlite.py _page
        sqlite.py _Commit._is_out_of_time
        sqlite.py _Write.apply
    """,
    """A connection is checked or closed: an operation opens another one.""": """
        postgres_connections.py Connections._give_back
        postgres_connections.py Connections._take
    """,
    """It decides only how soon a loop looks at the store.""": """
        files.py _time_of_change
    """,
    """There is no store whose time could count.""": """
        engine/call_failures.py FailedAttempts.event
        engine/runner/storeless.py resume_async
        engine/events/event_feeds.py StorelessFeed.report
        interop/snaplogic.py read
    """,
    """The port itself.""": """
        engine/ports.py SystemClock.now
    """,
    """A clock that a test moves.""": """
        testing/fixed_ports.py FrozenClock.__repr__
        testing/fixed_ports.py memory_store
        testing/harness.py AgentHarness.advance
        testing/harness.py AgentHarness._next_deadline
    """,
}


def _names_of_time(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names of the module `time`, and of its functions of the time."""
    modules: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = (each for each in node.names if each.name == "time")
            modules.update(each.asname or each.name for each in found)
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found = (each for each in node.names if each.name in _TIMES)
            functions.update(each.asname or each.name for each in found)
    return modules, functions


def _is_use(
    node: ast.AST, called: set[ast.expr], modules: set[str], functions: set[str]
) -> bool:
    """Return whether a node reads a clock, or hands on a function that reads one."""
    if isinstance(node, ast.Name):
        return node.id in functions
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr in _FILE_TIMES:
        return True
    if node.attr in _TIMES:
        return ast.unparse(node.value) in modules
    # `self.now` without a call is a field that has a time.
    is_field = ast.unparse(node.value) == "self" and node not in called
    return node.attr in _CLOCKS and not is_field


def _uses_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names_of_time = _names_of_time(tree)
    found: set[str] = set()

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = (*names, node.name)
        if _is_use(node, called, *names_of_time):
            found.add(".".join(names) or "<module>")
        for child in ast.iter_child_nodes(node):
            visit(child, names)

    visit(tree, ())
    return found


def _uses() -> set[str]:
    return {
        f"{path.relative_to(package).as_posix()} {name}"
        for package in PACKAGES
        for path in package.rglob("*.py")
        for name in _uses_in(path)
    }


def _listed() -> list[str]:
    lines = [line.strip() for text in _REASONS.values() for line in text.splitlines()]
    return [line for line in lines if line]


def test_each_use_of_the_clock_has_a_reason() -> None:
    """Add a new use to the table, under the reason why a wrong clock does no harm."""
    listed = _listed()
    uses = _uses()

    assert [] == sorted(uses - set(listed)), "without a reason"
    assert [] == sorted(set(listed) - uses), "gone"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    "line",
    [
        "x = clock.now()",
        "x = self.ports.clock.now()",
        "read = clock.now",
        "x = datetime.now(UTC)",
        "x = datetime.utcnow()",
        "x = date.today()",
        "import time; x = time.time()",
        "import time as t; x = t.time_ns()",
        "from time import time; x = time()",
        "from time import time_ns as t; read = t",
        "x = path.stat().st_mtime",
        "x = os.path.getmtime(path)",
    ],
)
def test_the_search_finds_each_form_of_use(line: str, tmp_path: Path) -> None:
    """Also a function that is handed on, and one below another function."""
    path = tmp_path / "module.py"
    path.write_text(
        f"class A:\n    def f(self):\n        def g():\n            {line}\n"
    )

    assert {"A.f.g"} == _uses_in(path)
