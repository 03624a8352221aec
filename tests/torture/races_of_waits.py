"""Races for waits of other kinds: votes, grants, jobs, events, pauses and threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from continuations import Answer, Approve, Deny
from continuations.core.rows.run import ENDED_STATUSES
from continuations.ledger.layout import parse_wait_id
from continuations.results import Decision
from tests.torture.agents import EVENT, EVENT_DATA, JOB_RESULT, RUN
from tests.torture.race_actions import (
    outcome_name,
    resume_once,
    sweep_once,
    wait_ids,
)
from tests.torture.race_round import (
    RESUME_REPLIES,
    SWEPT,
    Round,
    unexpected_replies,
)
from tests.torture.scenarios import true_decision
from tests.torture.thread_races import senders_of_a_thread

if TYPE_CHECKING:
    from continuations.core.rows.decisions import Verdict
    from continuations.past import AuditLine
    from tests.torture.process_actor import ProcessActor
    from tests.torture.start_gate import RacerAction

WORKER_REPLIES = {*RESUME_REPLIES, SWEPT}
WAITING_RUNS = [f"w{number}" for number in range(6)]


def decide_wait(wait_id: str, verdict: Verdict) -> RacerAction:
    """Return the action that gives a verdict."""

    def act(actor: ProcessActor) -> str:
        result = actor.decider_runner().decide(wait_id, verdict)
        return "decided" if isinstance(result, Decision) else "voted"

    return act


def audit_lines(
    race_round: Round, prepare: Callable[[ProcessActor], None]
) -> list[str]:
    """Do something in a process, and return the audit then.

    A line has the kind of the wait, the verdict, the person and the door.
    """

    def work(actor: ProcessActor) -> None:
        prepare(actor)
        lines = actor.decider_runner().audit(RUN)
        race_round.workspace.write_value("audit", [line_text(each) for each in lines])

    race_round.run_in_child(work)
    found: list[str] = race_round.workspace.read_value("audit", [])
    return found


def line_text(line: AuditLine) -> str:
    return f"{line.kind} {line.verdict} by {line.by} through {line.door}"


def resume_to_end(actor: ProcessActor) -> None:
    """Advance the run to its end."""
    actor.resume_to_end()


def finish(race_round: Round, *possible: str) -> Iterator[str]:
    """Advance the run to its end; yield every violation. Some effects may happen."""
    scenario = race_round.scenario
    names = race_round.workspace.run_files.effect_names()
    allowed = {*scenario.effects, *possible}
    kept = tuple(each for each in allowed if each not in possible or each in names)
    yield from race_round.finish_and_check(
        replace(scenario, effects=kept, conversation_varies=True)
    )


def voters(race_round: Round) -> Iterator[str]:
    """Two persons vote in several processes, and one of them may deny."""
    [wait_id] = wait_ids(race_round.workspace)
    denies = race_round.rng.random() < 0.5
    verdicts: list[Verdict] = [Approve(by=each) for each in ("kim", "lee") * 3]
    verdicts += [Deny(by="lee")] if denies else []
    replies = race_round.race(
        [*(decide_wait(wait_id, each) for each in verdicts), sweep_once, resume_once]
    )
    # A person may have denied before this vote.
    known = WORKER_REPLIES | {"decided", "voted", "DecisionRefused"}
    others = [each for each in replies if not each.startswith("AlreadyDecided")]
    yield from unexpected_replies(others, known)
    lines = audit_lines(race_round, resume_to_end)
    ends = [
        each for each in lines if each.startswith(("approval approve", "approval d"))
    ]
    if len(ends) != 1:
        yield f"the wait has {len(ends)} decisions: {lines}"
    spent = "spend 1" in race_round.workspace.run_files.effect_names()
    if spent != any("approval approve" in each for each in ends):
        yield f"spent is {spent}, and the audit has {lines}"
    if spent and not any("vote approve" in each for each in lines):
        yield f"one vote was enough: {lines}"
    yield from finish(race_round, "spend 1")


def votes_at_the_deadline(race_round: Round) -> Iterator[str]:
    """The last vote and the escalation come at the same time: one of them counts."""
    [wait_id] = wait_ids(race_round.workspace)
    early = race_round.rng.uniform(0.0, 0.03)
    deadline = parse_wait_id(wait_id).opened_ms / 1000 + 3600

    def set_clock() -> None:
        now = race_round.workspace.clock.now().timestamp()
        race_round.workspace.clock.offset_seconds += deadline - early - now

    deciders = [decide_wait(wait_id, Approve(by=each)) for each in ("lee", "cfo") * 2]
    replies = race_round.race(
        [*deciders, resume_once, sweep_once, resume_once], set_clock
    )
    race_round.workspace.clock.offset_seconds += 1
    known = WORKER_REPLIES | {"decided", "voted", "DecisionRefused", "WaitExpired"}
    others = [each for each in replies if not each.startswith("AlreadyDecided")]
    yield from unexpected_replies(others, known)
    lines = audit_lines(race_round, resume_to_end)
    escalated = any("escalate" in each for each in lines)
    [person] = {"cfo"} if escalated else {"lee"}
    if not any(f"approval approve by {person}" in each for each in lines):
        yield f"the person who may decide did not: {lines}"
    yield from finish(race_round)


def revocation_against_workers(race_round: Round) -> Iterator[str]:
    """After a revocation, the next worker asks about each call."""

    def revoke(actor: ProcessActor) -> str:
        decider = actor.decider_runner()
        for grant in decider.grants(RUN):
            decider.revoke(RUN, grant.id, by="lee")
        return "revoked"

    def finish_by_hand(actor: ProcessActor) -> None:
        actor.scenario = replace(actor.scenario, decide=true_decision)
        actor.resume_to_end()

    replies = race_round.race([revoke, resume_once, sweep_once, resume_once])
    yield from unexpected_replies(
        replies, WORKER_REPLIES | {"revoked", "Cancelled", "InvalidInput"}
    )
    before = audit_lines(race_round, lambda _: None)
    after = audit_lines(race_round, finish_by_hand)
    by_grant = [sum("through rule" in each for each in x) for x in (before, after)]
    if any("revoke" in each for each in before) and by_grant[0] != by_grant[1]:
        yield f"a revoked grant approved calls: {after}"
    yield from finish(race_round)


def callbacks(race_round: Round) -> Iterator[str]:
    """A job reports several times, and another result once: one result counts."""
    [wait_id] = wait_ids(race_round.workspace)
    results: list[Verdict] = [*[Answer(JOB_RESULT)] * 4, Answer("9 pages")]
    replies = race_round.race(
        [*(decide_wait(wait_id, each) for each in results), resume_once, sweep_once]
    )
    others = [each for each in replies if not each.startswith("AlreadyDecided")]
    yield from unexpected_replies(others, WORKER_REPLIES | {"decided"})
    lines = audit_lines(race_round, resume_to_end)
    if 1 != sum(each.startswith("external answer") for each in lines):
        yield f"the job has several results: {lines}"
    yield from finish(race_round)


def publishers_and_runs(race_round: Round) -> Iterator[str]:
    """Runs begin to wait while events are published: each run takes one event."""

    def start(run_id: str) -> RacerAction:
        return lambda actor: outcome_name(
            actor.worker_runner().start("A", run_id=run_id)
        )

    def publish(own_id: str) -> RacerAction:
        return lambda actor: bool(
            actor.decider_runner().publish(EVENT, EVENT_DATA, id=own_id).id
        )

    replies = race_round.race(
        [
            *(start(each) for each in WAITING_RUNS),
            *(publish(each) for each in ("m-1", "m-1", "m-2")),
            *[sweep_once] * 2,
        ]
    )
    yield from unexpected_replies(replies, WORKER_REPLIES | {"True"})

    def sweep(actor: ProcessActor) -> None:
        for _ in range(3):
            race_round.workspace.clock.offset_seconds += 61
            assert {} == actor.worker_runner().sweep().errors
        states = {x: actor.decider_runner().look(x).status for x in WAITING_RUNS}
        race_round.workspace.write_value("states", states)

    race_round.run_in_child(sweep)
    states = race_round.workspace.read_value("states", {})
    if set(states.values()) != {"finished"}:
        yield f"a run did not take an event: {states}, {replies}"
    lines = race_round.workspace.run_files.effects()
    counts = Counter(line["run"] for line in lines if line["tool"] == "received")
    if counts != Counter(WAITING_RUNS):
        yield f"duplicate or missing effect: {counts}"


def operators_against_workers(race_round: Round) -> Iterator[str]:
    """A run is paused and let go while workers advance it; a last pause holds it."""

    def pause(actor: ProcessActor) -> str:
        return actor.decider_runner().pause(RUN, by="kim").status

    def unpause(actor: ProcessActor) -> str:
        return actor.decider_runner().unpause(RUN, by="kim").status

    def hold(actor: ProcessActor) -> None:
        actor.workspace.write_value("began", 0)
        state = actor.decider_runner().look(RUN)
        if state.status in ENDED_STATUSES:
            return
        for wait in state.waits:
            actor.decide(wait)
        actor.decider_runner().pause(RUN, by="kim")
        lines = actor.workspace.line_count()
        resume_once(actor)
        actor.worker_runner().sweep()
        began = actor.workspace.line_count() - lines
        actor.workspace.write_value("began", began)

    replies = race_round.race([pause, unpause, resume_once, sweep_once, resume_once])
    statuses = {"running", "suspended", *ENDED_STATUSES, "InvalidInput", "Cancelled"}
    yield from unexpected_replies(replies, WORKER_REPLIES | statuses)
    race_round.run_in_child(hold)
    if 0 != race_round.workspace.read_value("began"):
        yield "a paused run began a call"
    yield from finish(race_round)


def cancelled_call_against_approval(race_round: Round) -> Iterator[str]:
    """A call is cancelled and approved at the same time: it runs at most once."""

    def cancel(actor: ProcessActor) -> str:
        actor.cancel_first_call()
        return "cancelled"

    ids = wait_ids(race_round.workspace)
    approvals = [decide_wait(each, Approve(by="kim")) for each in ids]
    replies = race_round.race([cancel, *approvals, resume_once, sweep_once])
    known = WORKER_REPLIES | {"decided", "cancelled", "Cancelled", "InvalidInput"}
    others = [each for each in replies if not each.startswith("AlreadyDecided")]
    yield from unexpected_replies(others, known)
    lines = audit_lines(race_round, resume_to_end)
    names = race_round.workspace.run_files.effect_names()
    if "pay 1" in names and sum("approval approve" in x for x in lines) != len(ids):
        yield f"a call ran without an approval: {lines}"
    yield from finish(race_round, "pay 1")


RaceOfWaits: TypeAlias = Callable[[Round], Iterator[str]]
RACES_OF_WAITS: dict[str, tuple[RaceOfWaits, str, int]] = {
    "voters": (voters, "votes", 1),
    "votes at the deadline": (votes_at_the_deadline, "escalation", 2),
    "revocation against workers": (revocation_against_workers, "grant revoked", 2),
    "callbacks": (callbacks, "job", 1),
    "publishers and runs": (publishers_and_runs, "one event, four waits", 0),
    "operators against workers": (operators_against_workers, "two turns", 2),
    "cancelled call": (cancelled_call_against_approval, "cancel a call", 1),
    "senders of a thread": (senders_of_a_thread, "plain", 0),
}
