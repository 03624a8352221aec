"""Schedules in which versions are damaged, and a doctor repairs the runs."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from functools import partial

import pytest

from continuations.errors import Corrupt
from continuations.ledger import layout
from tests.simulation.actors import Actor, newest_version_number, repair_run
from tests.simulation.decisions.laws import effects_of
from tests.simulation.evidence import Evidence
from tests.simulation.fault_schedule import FAULT_KINDS, FaultSchedule
from tests.simulation.laws import LAWS, broken_laws
from tests.simulation.schedule import HORIZON_SECONDS, draw_actors, sweep_until_idle
from tests.simulation.sim_environment import Effect, SimEnvironment
from tests.simulation.virtual_loop import NO_PROCESS

SEEDS = int(os.environ.get("REPAIR_SEEDS", "60"))
CHUNKS = 10
# Laws that damage may break, each with the reason. Lost versions held facts that no
# other object holds, and the doctor closes waits of a run that continues. All other
# laws hold as if nothing had been damaged.
EXCUSED_LAWS = {
    "turn_asked_once": "the reply is lost",
    "finished_never_runs_again": "the result of a repeatable call is lost",
    "idempotency_key_stable": "an attempt is lost, and its number is used again",
    "approval_not_too_old": "the start of the call is lost",
    "approved_call_runs_or_waits_again": "the turn of the call is lost",
    "executed_equals_approved": "a later wait is lost; see `unapproved_effects`",
    "refused_never_runs": "the end of the run is lost; see `effects_after_refusal`",
    "tool_before_a_wait_never_runs_again": "the wait of a repeatable tool is lost",
    "early_answer_counts_as_start": "the wait that the answer ended is lost",
    "answered_by_its_wait_only": "a wait that only lost versions had is gone",
    "ended_by_its_decision": "a wait that only lost versions had is gone",
    "cancelled_with_its_run": "the doctor closes waits and opens new ones",
    "notified_after_commit": "the wait is lost while a process is about to notify",
    "only_able_workers_postpone": "damage is found before the clock is checked",
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_repair_of_lost_versions_repeats_no_effect(chunk: int) -> None:
    """Promise 5: after a repair only a decision lets an acting call run again."""
    for seed in range(chunk, SEEDS, CHUNKS):
        evidence = run_damaged_schedule(seed)

        broken = broken_laws(evidence)
        assert {} == {law: broken[law] for law in broken.keys() - EXCUSED_LAWS}, seed
        assert [] == [
            *effects_after_refusal(evidence),
            *unapproved_effects(evidence),
        ], seed


def test_schedules_with_damage_contain_damage() -> None:
    """Without damage the schedules would show nothing."""
    logs = [run_damaged_schedule(seed).environment.log for seed in range(20)]

    assert 10 <= sum(any("damages" in line for line in log) for log in logs)
    assert EXCUSED_LAWS.keys() < set(LAWS)


def effects_after_refusal(evidence: Evidence) -> Iterator[Effect]:
    """Yield the effects of calls that were denied or had expired before.

    The refusal may be lost. Then the call may run after a later approval.
    """
    for record in evidence.waits.values():
        if record.wait.rules.call_state == "parked":
            continue  # its tool ran before
        if record.decision is not None and record.decision.kind in ("deny", "expire"):
            for effect in effects_of(evidence, record):
                began_at = effect.clock_sample.true_time
                approved = any(
                    later.decision is not None
                    and later.decision.kind == "approve"
                    and later.wait.call_id == record.wait.call_id
                    and record.decided_at < later.decided_at < began_at
                    for later in evidence.waits.values()
                )
                if began_at > record.decided_at and not approved:
                    yield effect


def unapproved_effects(evidence: Evidence) -> Iterator[Effect]:
    """Yield the effects that needed an approval before them and had none.

    After a loss every call that acts needs one: the same call may have run before.
    """
    approvals = [
        (record.wait.run_id, record.wait.call_id, record.decided_at)
        for record in evidence.waits.values()
        if record.decision is not None and record.decision.kind == "approve"
    ]
    for effect in evidence.environment.effects:
        needs_approval = effect.code.approval is not None or (
            _is_after_repair(effect) and effect.tool != "look"
        )
        if needs_approval and not any(
            (effect.run_id, effect.call_id) == (run_id, call_id)
            and at < effect.clock_sample.true_time
            for run_id, call_id, at in approvals
        ):
            yield effect


def _is_after_repair(effect: Effect) -> bool:
    # A repair skips more numbers than any of these runs uses.
    return int(effect.call_id.removeprefix("c")) >= 1 << 20


def run_damaged_schedule(seed: int) -> Evidence:
    """Run a schedule in which versions of one run are damaged, once."""
    faults = FaultSchedule(seed, FAULT_KINDS, frozenset())
    environment = SimEnvironment(seed, faults)
    environment.expected_errors = (Corrupt,)
    rng = random.Random(f"{seed}/damage")  # noqa: S311 - not for secrets
    draw_actors(environment, rng)
    originals: dict[str, bytes] = {}
    when = rng.random() * HORIZON_SECONDS / 2 * environment.time_scale
    environment.loop.call_later(
        when, damage_versions, environment, rng, originals, context=NO_PROCESS
    )
    for number in range(2):
        actor = Actor(environment, f"doctor{number}")
        actor.process.run(_repair_repeatedly(actor, 4, 60 * environment.time_scale))
    environment.loop.run_until_idle()
    environment.faults.stopped = True
    last = Actor(environment, "doctor")
    last.process.run(_repair_repeatedly(last, 3, 61))
    environment.loop.run_until_idle()
    sweep_until_idle(environment)
    environment.close()
    # The lost versions are part of the evidence.
    environment.store.bodies.update(originals)
    return Evidence(environment)


def damage_versions(
    environment: SimEnvironment, rng: random.Random, originals: dict[str, bytes]
) -> None:
    """Damage one version of a run, or it and all later ones; never the first."""
    newest = newest_version_number(environment, "r0")
    if newest < 2:
        return
    first = rng.randint(2, newest)
    last = newest if rng.random() < 0.5 else first
    for number in range(first, last + 1):
        key = layout.version_key("r0", number)
        body = originals[key] = environment.store.bodies[key]
        environment.store.bodies[key] = body[:-1] + bytes([body[-1] ^ 1])
        environment.log_event("-", "damages", key)


async def _repair_repeatedly(actor: Actor, rounds: int, seconds: float) -> None:
    for _ in range(rounds):
        await asyncio.sleep(seconds)
        for run_id in actor.environment.tree_of_run:
            await actor.perform(f"repair {run_id}", partial(repair_run, actor, run_id))
