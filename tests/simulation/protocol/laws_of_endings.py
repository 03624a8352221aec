"""Laws of endings: what holds once faults have stopped and only sweeps followed."""

from __future__ import annotations

from functools import cache

from continuations.core.changes.plan import plan
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.ledger import layout
from continuations.ledger.repair.run_files import files_prefix
from tests.simulation.agents import (
    EVENT_TREES,
    FILE_TREES,
    GUARDED_TREES,
    JOB_TREES,
    JUDGED_TREES,
    POLICY_TREES,
    SEAM_TREES,
    SHORTENED_TREES,
    STAGED_TREES,
    TIMEOUT_TREES,
    TREES,
    VOTING_TREES,
    WAITING_TREES,
    find_tree,
)
from tests.simulation.evidence import Evidence, RunHistory
from tests.simulation.fault_schedule import LOST_REPLY_KINDS, MISFITS
from tests.simulation.files.actors import ATTACHER
from tests.simulation.operators.laws import is_poison, requests_of
from tests.simulation.processes import wall_time
from tests.simulation.seams.tools import with_first_names
from tests.simulation.sim_environment import StoreChange
from tests.simulation.tools import deployed_tools, results_without_errors
from tests.simulation.workflows.trees import FLOW_TREES, FlowTree

WRONG_CLOCK_SECONDS = 600.0
_FAILED_REQUESTS = (*sorted(LOST_REPLY_KINDS), "refused", "caller_stops")


def no_run_stranded(evidence: Evidence) -> str | None:
    """Every run has ended, or has a listed, undecided wait and nothing else to do.

    A poison run may go on without end, but it stops no other run.
    """
    for history in evidence.runs.values():
        if not history.versions or history.ended or is_poison(evidence, history):
            continue
        reason = _why_stranded(evidence, history)
        if reason:
            return f"{history.run_id} {reason}, and no sweep resumes it"
    return None


def _why_stranded(  # noqa: PLR0911 - one for each reason
    evidence: Evidence, history: RunHistory
) -> str | None:
    state, bodies = history.newest_state, evidence.environment.store.bodies
    now = wall_time(evidence.environment.loop.time())
    if state.run.status == "running" or state.run.claim is not None:
        return "is still running"
    if not state.waits and state.run.status != "resting":
        return "is suspended without a wait"
    if plan(state):
        return f"has the runnable frames {list(state.runnable)}"
    for wait in state.waits.values():
        if wait.id in evidence.decisions:
            return f"has a decision of {wait.id}"
        deadline = evidence.as_slots_left(wait).deadline
        if deadline is not None and deadline < now:
            return f"waits for {wait.id} after its deadline"
        if wait.rules.has_object and f"waits/{wait.id}" not in bodies:
            return f"waits for {wait.id}, which is not listed"
    if layout.cancel_request_key(history.run_id) in bodies:
        return "was cancelled"
    return _why_unread(evidence, history)


def _why_unread(evidence: Evidence, history: RunHistory) -> str | None:
    state, bodies = history.newest_state, evidence.environment.store.bodies
    prefix = f"{layout.arrivals_prefix(history.run_id)}m-"
    posted = sum(key.startswith(prefix) for key in bodies)
    # A person judges a text of the root agent: it reads the message after that.
    is_judged = any(
        wait.frame_id == ROOT_FRAME_ID and wait.kind in ("input", "output")
        for wait in state.waits.values()
    )
    can_read_message = not (state.frames[ROOT_FRAME_ID].open_call_ids or is_judged)
    if state.run.thread_key is not None:
        can_read_message = state.run.rests and not state.is_suspended
    if posted > state.run.last_inbox_number and can_read_message:
        return "has an unread message"
    return None


def ended_run_leaves_no_keys(evidence: Evidence) -> str | None:
    """A run that has ended has no wait objects and no markers.

    A marker that a wrong clock dated too late is deleted when it is due. The sweeps at
    the end of a schedule may end before, where another run fails again and again.
    """
    for history in evidence.runs.values():
        if not history.ended:
            continue
        for key in evidence.environment.store.bodies:
            is_temporary = key.startswith(("waits/", "markers/"))
            if is_temporary and key.endswith(f"@{history.run_id}"):
                if _was_left_after_a_freeze(evidence, key):
                    continue
                if _is_due_after_the_end(evidence, key):
                    continue
                return f"{history.run_id} has ended, and {key} exists"
    return None


def _is_due_after_the_end(evidence: Evidence, key: str) -> bool:
    """Return whether a poison run used up the sweeps before a claim's marker was due.

    A worker with a wrong clock died between the marker and its claim.
    """
    marker = layout.parse_marker(key) if key.startswith("markers/") else None
    has_poison = "p0" in evidence.environment.tree_of_run
    if marker is None or marker.reason != "g" or not has_poison:
        return False
    ended_at = wall_time(evidence.environment.log[-1][0])
    return marker.due_ms > ended_at.timestamp() * 1000


def only_able_workers_postpone(evidence: Evidence) -> str | None:
    """A process whose clock is wrong by hours dates no marker of a stored run later.

    It cannot work on the run, and another process can. A poison run may be postponed:
    its error precedes every check of the clock. A request of a process may arrive late,
    after the run was stored.
    """
    late = {
        fault.partition("/")[0]
        for fault in evidence.environment.faults.occurred
        if fault.endswith("late_request")
    }
    wrong = {
        process.name
        for process in evidence.environment.processes
        if abs(process.clock_offset) > WRONG_CLOCK_SECONDS and process.name not in late
    }
    for key, creates in evidence.created.items():
        marker = layout.parse_marker(key) if key.startswith("markers/") else None
        if marker is None or not marker.fruitless_looks or not marker.due_ms:
            continue  # a marker that is due now, and was dated later before
        history, create = evidence.runs[marker.run_id], creates[0]
        if create.process not in wrong or is_poison(evidence, history):
            continue
        if history.version_before(_looked_at(evidence, create, marker.run_id)):
            return f"{create.process} postponed {key}, and its clock is wrong"
    return None


def _looked_at(evidence: Evidence, create: StoreChange, run_id: str) -> float:
    """Return when a process last looked at a run before it created a marker.

    It may freeze between both.
    """
    looks = [
        line[0]
        for line in evidence.environment.log
        if line[1:] == (create.process, "keys", layout.versions_prefix(run_id))
        and line[0] < create.at
    ]
    return max(looks, default=create.at)


def listed_waits_are_open(evidence: Evidence) -> str | None:
    """Every listed wait is undecided and in the newest version of its run."""
    for key in evidence.environment.store.keys("waits/"):
        wait_id = key.removeprefix("waits/")
        if _was_left_after_a_freeze(evidence, key):
            continue
        if wait_id in evidence.decisions:
            return f"{wait_id} is listed and decided"
        state = evidence.runs[wait_id.partition("@")[2]].newest_state
        if state.run.status in ENDED_STATUSES or wait_id not in state.waits:
            return f"{wait_id} is listed, and its run does not wait for it"
    return None


def _was_left_after_a_freeze(evidence: Evidence, key: str) -> bool:
    """Return whether a process froze for a claim, listed a decided wait, and failed.

    Or its request to list the wait reached the store after the decision. Both are
    documented limits. An attempt to decide the wait removes it from the list.
    """
    record = evidence.waits.get(key.removeprefix("waits/"))
    if record is None or record.decision is None:
        return False
    create = evidence.created[key][-1]
    environment = evidence.environment
    arrived_late = create.at > record.decided_at and any(
        fault.startswith(f"{create.process}/") and fault.endswith("late_request")
        for fault in environment.faults.occurred
    )
    is_late = arrived_late or create.at - record.opened_at > environment.lease
    died = any(
        process.name == create.process and process.dead
        for process in environment.processes
    )
    lost_reply = any(
        fault.startswith(f"{create.process}/") and fault.endswith(_FAILED_REQUESTS)
        for fault in environment.faults.occurred
    )
    return is_late and (died or lost_reply)


def open_waits_are_notified(evidence: Evidence) -> str | None:
    """Each open wait was notified, also if the worker that opened it died before."""
    notified = {each.wait.id for each in evidence.environment.notifications}
    for history in evidence.runs.values():
        if not history.versions or history.ended:
            continue
        for wait_id, wait in history.newest_state.waits.items():
            if not wait.rules.asks_person:
                continue
            if wait_id not in notified and wait_id not in evidence.decisions:
                return f"{wait_id} is open and was never notified"
    return None


def same_end_as_uninterrupted(evidence: Evidence) -> str | None:
    """A run that no decision changed ends like a run without faults."""
    for history in evidence.runs.values():
        if not history.ended or is_poison(evidence, history):
            continue
        chain = evidence.environment.run_and_sources(history.run_id)
        if evidence.environment.changed_forks.intersection(chain):
            continue
        if any(_was_influenced(evidence, evidence.runs[each]) for each in chain):
            continue
        expected = uninterrupted_end(evidence.environment.tree_of_run[history.run_id])
        actual = _final_state(history)
        if actual != expected:
            return f"{history.run_id} ended as {actual}, not as {expected}"
    return None


@cache
def uninterrupted_end(tree: str) -> tuple[str, ...]:
    """Return how the run of a tree ends without faults, with every wait approved."""
    # Imported here because `schedule` imports the laws.
    from tests.simulation.schedule import run_uninterrupted  # noqa: PLC0415

    return _final_state(run_uninterrupted(tree).runs["r0"])


@cache
def cache_uninterrupted_ends() -> None:
    """Compute all expected ends now: they must come from code without a mutant."""
    all_trees = (*TREES, *TIMEOUT_TREES, *WAITING_TREES, *EVENT_TREES, *JOB_TREES)
    for tree in (
        *all_trees,
        *VOTING_TREES,
        *POLICY_TREES,
        *SEAM_TREES,
        *SHORTENED_TREES,
        *GUARDED_TREES,
        *JUDGED_TREES,
        *FILE_TREES,
        *FLOW_TREES,
        *STAGED_TREES,
    ):
        uninterrupted_end(tree)


def _final_state(history: RunHistory) -> tuple[str, ...]:
    state = history.newest_state
    messages = state.logs[ROOT_FRAME_ID].messages
    if state.frames[ROOT_FRAME_ID].step:
        messages = ()  # a history has the order in which things happened
    texts = [with_first_names(message.text) for message in messages]
    return (state.run.status, state.run.output or "", *texts)


def _was_influenced(evidence: Evidence, history: RunHistory) -> bool:
    """Tell whether a person or a limit gave the run another end.

    That is a message, a cancellation, or a decision other than "approve" or the true
    answer. It is also an approval that was too old, a tool that was removed, a budget
    that is used up, or too many attempts after faults.
    """
    tree = find_tree(evidence.environment.tree_of_run[history.run_id])
    failure = history.newest_state.run.failure
    if failure is not None and failure.code == "budget":
        return True
    deployment = evidence.environment.deployment
    if isinstance(tree, FlowTree) and (tree.by_clock or deployment in MISFITS):
        return True
    if tree.tool_names - deployed_tools(deployment).keys():
        return True
    messages = f"{layout.arrivals_prefix(history.run_id)}m-"
    cancelled = layout.cancel_request_key(history.run_id)
    if any(key == cancelled or key.startswith(messages) for key in evidence.created):
        return True
    if any(request.call_id for request in requests_of(evidence, history.run_id)):
        return True
    has_files = _has_files_of_people(evidence, history.run_id)
    return has_files or _was_decided_otherwise(evidence, history)


def _has_files_of_people(evidence: Evidence, run_id: str) -> bool:
    """Tell whether an attachment of a person counts, also of a message never sent."""
    return any(
        key.startswith(files_prefix(run_id)) and creates[0].process.startswith(ATTACHER)
        for key, creates in evidence.created.items()
    )


def _was_decided_otherwise(evidence: Evidence, history: RunHistory) -> bool:
    if any(
        decision.kind == "fail" or decision.event or decision.signal
        for wait_id, (decision, _) in evidence.decisions.items()
        if wait_id.endswith(f"@{history.run_id}")
    ):
        return True
    true_answers = results_without_errors()
    for record in evidence.waits.values():
        decision = record.decision
        if record.wait.run_id != history.run_id or decision is None:
            continue
        if "was not recorded" in (record.wait.note or ""):
            return True  # a person was asked instead of a rule, which may deny
        # The answer of a person brings no file.
        is_true = decision.value in true_answers and "draw" not in record.wait.tool
        if decision.kind == "answer" and is_true:
            continue
        if decision.kind != "approve" or decision.arguments is not None:
            return True
        if record.wait.valid_for is not None and _was_too_old(history):
            return True
    failure = history.newest_state.run.failure
    too_many_attempts = failure is not None and failure.code == "attempts"
    return too_many_attempts and bool(evidence.environment.faults.occurred)


def _was_too_old(history: RunHistory) -> bool:
    return any("too old" in text for text in _final_state(history))
