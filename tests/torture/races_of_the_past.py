"""Races of rewinds, forks and erasures; some of their processes are killed.

Everything that the run did before is asked about again. So a person who denies each
question sees no effect twice, and no effect in a fork.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations import Deny, Suspended
from continuations.errors import RunBusy, RunErased, RunNotFound
from tests.run_recovery import MAX_ROUNDS
from tests.torture import child_processes
from tests.torture.agents import RUN
from tests.torture.crash_points import LEASE_EXPIRED_SECONDS, MOMENTS
from tests.torture.process_actor import ProcessActor
from tests.torture.race_actions import decide_action, resume_once, sweep_once, wait_ids
from tests.torture.race_round import RESUME_REPLIES, SWEPT, unexpected_replies
from tests.torture.scenarios import true_decision
from tests.torture.workspace import CrashPoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.torture.race_round import Round
    from tests.torture.start_gate import RacerAction

    RaceOfThePast = Callable[[Round], Iterator[str]]

FORK = "fork-1"
WORKER_REPLIES = {*RESUME_REPLIES, SWEPT}
# A rewind that lost: the run moved on, is claimed, or has ended.
LOST_REWINDS = {"StaleRun", "RunBusy", "InvalidInput"}


def rewind_action(shown: str | None = None) -> RacerAction:
    """Return the action that rewinds the run to its first version."""

    def act(actor: ProcessActor) -> str:
        actor.worker_runner().rewind(RUN, 1, shown=shown, by="kim")
        return "rewound"

    return act


def fork_once(actor: ProcessActor) -> str:
    """Fork the first version of the run, always as the same fork."""
    return actor.worker_runner().fork(RUN, 1, run_id=FORK)


def fork_denied(actor: ProcessActor) -> str:
    """Fork the version that waits, with the decision that its call does not run."""
    runner = actor.worker_runner()
    version = next(each.number for each in runner.history(RUN) if each.waits)
    [wait] = runner.look(RUN, version=version).waits
    return runner.fork(RUN, version, run_id=FORK, decisions={wait.id: Deny(by="lee")})


def erase_once(actor: ProcessActor) -> str:
    """Erase the run."""
    actor.decider_runner().erase(RUN)
    return "erased"


def planned_digest(race_round: Round) -> str:
    """Return the digest of the plan to rewind the run to its first version."""

    def plan(actor: ProcessActor) -> None:
        digest = actor.decider_runner().plan_rewind(RUN, 1).digest
        actor.workspace.write_value("digest", digest)

    race_round.run_in_child(plan)
    digest: str = race_round.workspace.read_value("digest")
    return digest


def kill_at_random(race_round: Round, action: RacerAction) -> Iterator[str]:
    """Do something in a process that dies at some operation; its claim ends."""
    number = race_round.rng.randint(1, 20)
    point = CrashPoint("operation", number, race_round.rng.choice(MOMENTS))
    workspace = race_round.workspace

    def work() -> None:
        action(ProcessActor(race_round.scenario, workspace, workspace.enter(point)))

    code = child_processes.run_in_child(work)
    if code not in (0, child_processes.KILLED):
        yield f"a process that should die {point} exited with {code}"
    workspace.clock.offset_seconds += LEASE_EXPIRED_SECONDS


# The end of a race ------------------------------------------------------------------


def settle(actor: ProcessActor, run_id: str, *, denies_all: bool) -> str:
    """Advance a run to its end, deny what happened before, and return its status."""
    for _ in range(MAX_ROUNDS):
        try:
            outcome = actor.worker_runner().resume(run_id)
        except RunBusy:
            actor.workspace.clock.offset_seconds += 31
            continue
        except (RunErased, RunNotFound) as error:
            return type(error).__name__
        if not isinstance(outcome, Suspended):
            return actor.decider_runner().look(run_id).status
        for wait in outcome.waits:
            names = actor.workspace.run_files.effect_names()
            happened = f"{wait.tool} {wait.arguments['what']}" in names
            verdict = true_decision(wait, happened)
            if denies_all or (happened and wait.kind == "approval"):
                verdict = Deny(by="kim")
            actor.decider_runner().decide(wait.id, verdict)
    return "endless"


def settled(
    race_round: Round,
    *,
    denies_all: bool = False,
    ends: tuple[str, ...] = ("finished",),
) -> Iterator[str]:
    """Advance the run and its fork to their ends; yield each violation."""

    def work(actor: ProcessActor) -> None:
        found = list[str]()
        fork = settle(actor, FORK, denies_all=True)
        run = settle(actor, RUN, denies_all=denies_all)
        if fork not in ("finished", "RunNotFound"):
            found.append(f"the fork is {fork}")
        if run not in ends:
            found.append(f"the run is {run}")
        lines = actor.workspace.run_files.effects()
        counts = Counter((line["tool"], line["what"]) for line in lines)
        found += [f"duplicate effect: {x}" for x, count in counts.items() if count > 1]
        found += [f"unasked in the fork: {x}" for x in lines if x["run"] == FORK]
        with suppress(RunErased, RunNotFound):
            audit = actor.decider_runner().audit(FORK, past=False)
            found += [
                f"moved to the fork: {x}" for x in audit if x.verdict == "approve"
            ]
        actor.sweep_leftovers()
        left = actor.workspace.run_files.keys("markers/", "waits/")
        found += [f"left: {x}" for x in left if x.endswith((f"@{RUN}", f"@{FORK}"))]
        actor.workspace.store_violations(found)

    race_round.workspace.store_violations(["nothing was checked"])
    race_round.run_in_child(work)
    yield from race_round.workspace.violations()


# Rewinds ----------------------------------------------------------------------------


def two_rewinds(race_round: Round) -> Iterator[str]:
    """Several people rewind a run that was shown to them: one of them does."""
    shown = planned_digest(race_round)
    replies = race_round.race([rewind_action(shown)] * 3)
    yield from unexpected_replies(replies, {"rewound", *LOST_REWINDS})
    if 1 != replies.count("rewound"):
        yield f"not one rewind won: {replies}"
    yield from settled(race_round)


def rewinds_one_after_another(race_round: Round) -> Iterator[str]:
    """Without a digest each rewind counts or is refused, beside sweeps."""
    replies = race_round.race([rewind_action()] * 3 + [sweep_once] * 2)
    yield from unexpected_replies(replies, {"rewound", SWEPT, *LOST_REWINDS})
    if "rewound" not in replies:
        yield f"no rewind won: {replies}"
    yield from settled(race_round)


def rewind_against_decide(race_round: Round) -> Iterator[str]:
    """After the rewind, an approval of before has no effect."""
    [wait_id] = wait_ids(race_round.workspace)
    shown = planned_digest(race_round)
    replies = race_round.race(
        [rewind_action(shown), decide_action(wait_id, 0), resume_once, sweep_once]
    )
    known = {"rewound", "decided approve kim0", "Cancelled", *LOST_REWINDS}
    others = [each for each in replies if not each.startswith("AlreadyDecided")]
    yield from unexpected_replies(others, known | WORKER_REPLIES)
    rewound = "rewound" in replies
    yield from settled(race_round, denies_all=rewound)
    if rewound and "pay 2" in race_round.workspace.run_files.effect_names():
        yield f"an approval of before the rewind had an effect: {replies}"


def rewind_against_workers(race_round: Round) -> Iterator[str]:
    """A rewind beside workers that make the approved call: nothing happens twice."""
    replies = race_round.race(
        [resume_once, rewind_action(), resume_once, sweep_once, rewind_action()]
    )
    yield from unexpected_replies(replies, {"rewound", *LOST_REWINDS, *WORKER_REPLIES})
    yield from settled(race_round)


def killed_rewind(race_round: Round) -> Iterator[str]:
    """A process dies in a rewind; a sweep, a resume or a rewind completes it."""
    yield from kill_at_random(race_round, rewind_action())
    finishers = [resume_once, sweep_once, rewind_action()]
    replies = race_round.race([race_round.rng.choice(finishers)])
    yield from unexpected_replies(replies, {"rewound", *WORKER_REPLIES})
    yield from settled(race_round)


# Forks ------------------------------------------------------------------------------


def forks_of_a_working_run(race_round: Round) -> Iterator[str]:
    """Equal forks are one fork, which asks about all that its source did."""
    replies = race_round.race([fork_once] * 3 + [resume_once, sweep_once])
    yield from unexpected_replies(replies, {FORK, *WORKER_REPLIES})
    if replies[:3] != [FORK] * 3:
        yield f"an equal fork was refused: {replies}"
    yield from settled(race_round)


def fork_against_erase(race_round: Round) -> Iterator[str]:
    """The fork of an erased run is whole, or it does not exist."""
    replies = race_round.race([fork_once, fork_once, erase_once])
    gone = {"RunErased", "RunNotFound"}
    yield from unexpected_replies(replies, {FORK, "erased", "RunBusy", *gone})
    ends = ("RunErased",) if "erased" in replies else ("finished",)
    yield from settled(race_round, ends=ends)


def killed_fork(race_round: Round) -> Iterator[str]:
    """A process dies in a fork with a decision; a repeat completes it once."""
    yield from kill_at_random(race_round, fork_denied)
    replies = race_round.race([fork_denied, sweep_once, fork_denied])
    yield from unexpected_replies(replies, {FORK, SWEPT})

    def check(actor: ProcessActor) -> None:
        lines = actor.decider_runner().audit(FORK, past=False)
        actor.workspace.write_value("verdicts", [x.verdict for x in lines])

    race_round.run_in_child(check)
    verdicts = race_round.workspace.read_value("verdicts")
    if verdicts != ["deny"]:
        yield f"the fork has the decisions {verdicts}"
    yield from settled(race_round)


def killed_erase_of_a_source(race_round: Round) -> Iterator[str]:
    """A process dies in the erasure of a source; its fork goes on."""
    yield from race_round_replies(race_round, [fork_once], {FORK})
    yield from kill_at_random(race_round, erase_once)
    yield from race_round_replies(
        race_round,
        [erase_once, fork_once],
        {"erased", FORK, "RunErased", "RunNotFound"},
    )
    yield from settled(race_round, ends=("RunErased",))


def race_round_replies(
    race_round: Round, actions: list[RacerAction], known: set[str]
) -> Iterator[str]:
    """Race, and yield the replies that no process may get."""
    yield from unexpected_replies(race_round.race(actions), known)


RACES_OF_THE_PAST: dict[str, tuple[RaceOfThePast, str, int]] = {
    "two rewinds": (two_rewinds, "one approval", 1),
    "rewinds one after another": (rewinds_one_after_another, "one approval", 1),
    "rewind against decide": (rewind_against_decide, "one approval", 1),
    "rewind against workers": (rewind_against_workers, "one approval", 2),
    "killed rewind": (killed_rewind, "one approval", 2),
    "forks of a working run": (forks_of_a_working_run, "one approval", 2),
    "fork against erase": (fork_against_erase, "one approval", 1),
    "killed fork": (killed_fork, "one approval", 2),
    "killed erase of a source": (killed_erase_of_a_source, "one approval", 1),
}
