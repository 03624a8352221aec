"""Laws of tools that wait: what ends their waits, and which code runs after that."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from continuations.core import jsontext
from continuations.core.rows.calls import CallRow, Errored, Parked, Refused, Returned
from continuations.core.rows.decisions import Answer, Decision, Fail, parse_action
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.waits import Wait
from continuations.ledger import layout
from tests.simulation.evidence import Evidence, RunHistory, Version, is_rewind
from tests.simulation.processes import wall_time
from tests.simulation.sim_environment import Effect


def tool_before_a_wait_never_runs_again(evidence: Evidence) -> str | None:
    """No function of a tool has an effect after the wait that it returned is stored.

    That holds for idempotent tools too, for each call of `on_answer`, and whatever the
    decision is. A rewind may go back to a version before the wait.
    """
    for effect in evidence.environment.effects:
        began_at = effect.clock_sample.true_time
        part = evidence.runs[effect.run_id].part_at(began_at)
        parked_at = _parked_at(part, effect.call_id, effect.stage)
        if parked_at is not None and parked_at < began_at:
            return f"{effect} ran after its tool had returned a wait"
    return None


def _parked_at(history: RunHistory, call_id: str, stage: int) -> float | None:
    """Return when the wait of a stage was first stored, or its answer, or `None`."""
    for version in history.versions:
        call = version.state.calls.get(call_id)
        if call is None or call.stage < stage:
            continue
        if call.stage > stage or isinstance(call.state, Parked):
            return version.at
    return None


def answered_by_its_wait_only(evidence: Evidence) -> str | None:
    """Nothing is answered by silence: each value is a decision, or the deadline's own.

    It holds for the value that an `on_answer` function gets, and for the result that a
    wait without such a function gives to its call. No refusal, no error and no plain
    expiry reaches the function.
    """
    for effect in evidence.environment.effects:
        if not effect.stage:
            continue
        decided = list(_consequences_before(evidence, effect))
        last = evidence.decisions.get(_last_wait_id(evidence, effect), (None, 0.0))[0]
        if last is not None:
            wait = evidence.waits[last.wait_id].wait
            renewed = _ends_of_renewed_waits(evidence, wait, last)
            if ("answer", effect.answer) in renewed:
                continue
        if not decided or decided[-1] != ("answer", effect.answer):
            return f"{effect} got a value, and its waits ended with {decided}"
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            sentence = _wrong_result(evidence, before, after)
            if sentence:
                return sentence
    return None


def _consequences_before(
    evidence: Evidence, effect: Effect
) -> Iterator[tuple[str, str | None]]:
    """Yield the ends of the decided waits of the stage before, in their order."""
    records = sorted(
        (
            record
            for record in evidence.waits.values()
            if (record.wait.run_id, record.wait.call_id, record.wait.stage)
            == (effect.run_id, effect.call_id, effect.stage - 1)
            and record.wait.rules.call_state == "parked"
        ),
        key=lambda record: record.opened_at,
    )
    began_at = effect.clock_sample.true_time
    for wait_id, call in evidence.environment.jobs.items():
        # An answer may come before any version has the wait.
        decision, at = evidence.decisions.get(wait_id, (None, 0.0))
        is_of_call = call == (effect.run_id, effect.call_id, effect.stage - 1)
        is_early = decision is not None and wait_id not in evidence.waits
        if is_of_call and is_early and at < began_at:
            yield _consequence(None, decision)
    for record in records:
        if not record.wait.rules.has_object:
            yield _consequence(record.wait, None)
        elif record.decision is not None and record.decided_at < began_at:
            yield _consequence(record.wait, record.decision)


def _consequence(
    wait: Wait | None, decision: Decision | None
) -> tuple[str, str | None]:
    """Return what a decision means: its kind, and the value of an answer."""
    if decision is not None and decision.kind != "expire":
        return decision.kind, decision.value
    if wait is None:
        return "expire", None
    action = parse_action(wait.on_deadline_json) or wait.rules.on_deadline
    match action:
        case Answer(value=value):
            return "answer", jsontext.canonical(value)
        case Fail():
            return "fail", None
        case None:
            return "expire", None
        case _:
            return "deny", None


_END_OF_CONSEQUENCE = {"fail": Errored, "deny": Refused, "expire": Refused}


def _wrong_result(evidence: Evidence, before: Version, after: Version) -> str | None:
    """Return a sentence about a wait that ended otherwise than its decision says."""
    for wait in before.state.waits.values():
        call = after.state.calls.get(wait.call_id)
        if is_rewind(before, after):
            break  # it closes all waits, whatever was decided
        is_parked = wait.rules.call_state == "parked"
        if not is_parked or wait.id in after.state.waits or call is None:
            continue
        decision, _ = evidence.decisions.get(wait.id, (None, 0.0))
        kind, value = _consequence(wait, decision)
        if kind == "cancel" or isinstance(call.state, Parked):
            continue
        if _is_consequence(call, wait, kind, value):
            continue
        renewed = _ends_of_renewed_waits(evidence, wait, decision)
        if any(_is_consequence(call, wait, *each) for each in renewed):
            continue
        return f"{wait.id} ended with {kind} {value}, and its call is {call}"
    return None


def _last_wait_id(evidence: Evidence, effect: Effect) -> str:
    """Return the id of the last wait of a call that a version has, or an empty text.

    A wait that was opened after the effect, for example by a rewind, does not count.
    """
    began_at = effect.clock_sample.true_time
    waits = [
        record
        for record in evidence.waits.values()
        if (record.wait.run_id, record.wait.call_id) == (effect.run_id, effect.call_id)
        and record.opened_at < began_at
    ]
    last = max(waits, key=lambda record: record.opened_at, default=None)
    return "" if last is None else last.wait.id


def _ends_of_renewed_waits(
    evidence: Evidence, wait: Wait, decision: Decision | None
) -> set[tuple[str, str | None]]:
    """Return the ends of waits that were opened again, and that no version has.

    If the function of the tool rejects a value, or the data of a signal or event does
    not fit, the wait is opened again. It may end before a version has it.
    """
    if decision is None:
        return set()
    return {
        _consequence(wait, each)
        for wait_id, (each, _) in evidence.decisions.items()
        if wait_id.endswith(f"@{wait.run_id}")
        and wait_id not in evidence.waits
        and each.kind in ("answer", *_END_OF_CONSEQUENCE)
    }


def _is_consequence(call: CallRow, wait: Wait, kind: str, value: str | None) -> bool:
    if kind != "answer":
        ended = _END_OF_CONSEQUENCE[kind]
        return isinstance(call.state, ended) or _was_cancelled(call)
    if wait.continues:
        received = (call.stage, call.answer) == (wait.stage + 1, value)
        return received or _was_cancelled(call)
    if isinstance(call.state, Returned) and call.state.is_json:  # of a workflow
        return call.state.content == value
    content = jsontext.parse(value or "null")
    text = content if isinstance(content, str) else value
    return call.state == Returned(str(text)) or _was_cancelled(call)


def _was_cancelled(call: CallRow) -> bool:
    """Return whether a call was ended with its run."""
    return isinstance(call.state, Refused) and call.state.code == "cancelled"


def early_answer_counts_as_start(evidence: Evidence) -> str | None:
    """After an early answer no worker starts the tool again, and no person is asked.

    A worker that looked at the run before the answer came may do either. A person's
    decision about the unknown outcome counts first.
    """
    for wait_id, (run_id, call_id, stage) in evidence.environment.jobs.items():
        decision, answered_at = evidence.decisions.get(wait_id, (None, 0.0))
        if decision is None or decision.kind not in ("answer", "fail"):
            continue
        history = evidence.runs[run_id]
        for before, after in pairwise(history.versions):
            old, new = (each.state.calls.get(call_id) for each in (before, after))
            if new is None or new.stage != stage or old is None:
                continue
            asked = after.state.waits.keys() - before.state.waits.keys()
            is_asked = any(
                after.state.waits[each].call_id == call_id
                and after.state.waits[each].rules.may_have_run
                for each in asked
            )
            is_repeat = old.stage == stage and old.attempts
            by_person = _person_decided(evidence, before, call_id)
            started_again = is_repeat and new.attempts > old.attempts and not by_person
            if not is_asked and not started_again:
                continue
            if answered_at < _looked_at(evidence, after, run_id):
                what = "asked about" if is_asked else "started again"
                return f"{call_id} of {run_id} was {what} after its answer {wait_id}"
    return None


def _person_decided(evidence: Evidence, until: Version, call_id: str) -> bool:
    """Return whether a person decided about an unknown outcome of a call.

    The tool may start long after that, if the run is paused meanwhile.
    """
    return any(
        evidence.decisions.get(wait.id, (None, 0.0))[0] is not None
        for version in evidence.runs[until.state.run.id].versions
        if version.number <= until.number
        for wait in version.state.waits.values()
        if wait.call_id == call_id and wait.rules.may_have_run
    )


def _looked_at(evidence: Evidence, version: Version, run_id: str) -> float:
    """Return when the process of a version last listed the arrivals before it."""
    prefixes = (layout.run_prefix(run_id), layout.arrivals_prefix(run_id))
    looks = [
        line[0]
        for line in evidence.environment.log
        if line[1:3] == (version.process, "keys")
        and line[3].startswith(prefixes)
        and line[0] < version.at
    ]
    return max(looks, default=0.0)


def timers_end_in_time(evidence: Evidence) -> str | None:
    """No wait that only the clock ends is over before its time, and each ends once.

    The clock of a worker may differ by the allowed difference. `wake` may end the wait
    of a frame before its time.
    """
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            for wait in before.state.waits.values():
                if wait.rules.has_object or wait.id in after.state.waits:
                    continue
                if wait.kind == "alarm":
                    continue  # the timer of a workflow may be cancelled
                if wait.deadline is None or not _goes_on(evidence, wait, after):
                    continue
                early = (wait.deadline - wall_time(after.at)).total_seconds()
                if early > evidence.environment.lease / 2:
                    return f"{wait.id} ended {early} s before its time"
    return None


def _goes_on(evidence: Evidence, wait: Wait, after: Version) -> bool:
    """Return whether the subject of a wait goes on because of the time alone."""
    if wait.subject != "call":
        ended = after.state.run.status in ENDED_STATUSES
        return wait.id not in evidence.decisions and not ended
    call = after.state.calls.get(wait.call_id)
    return call is not None and not _was_cancelled(call)
