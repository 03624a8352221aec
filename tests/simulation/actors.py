"""The actors of a schedule: a starter, workers, deciders, sweepers and some others.

Each actor is a process of its own. It crashes and freezes independently of the others.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from continuations import (
    Answer,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Deny,
    Grant,
    Wait,
)
from continuations.core import jsontext
from continuations.core.rows.decisions import Verdict
from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.engine.sweep.sweeping import SweepResult
from continuations.errors import (
    AgentChanged,
    Corrupt,
    FormatError,
    IllegalTransition,
    TranscriptInvalid,
)
from continuations.ledger import layout
from continuations.ledger.layout import is_thread_id
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor
from continuations.ledger.versions import Versions
from continuations.wire.records import WAIT
from tests.simulation.agents import deployed_root, find_tree
from tests.simulation.costs import charging
from tests.simulation.fault_schedule import Deployment
from tests.simulation.past.actors import is_fork
from tests.simulation.policy.tools import draw_grant
from tests.simulation.processes import Process
from tests.simulation.seams.tools import names_after
from tests.simulation.sim_environment import DecideResult, Notification, SimEnvironment
from tests.simulation.store_client import StoreClient
from tests.simulation.votes.tools import VOTERS
from tests.simulation.waits.tools import (
    WAITING_TOOLS,
    draw_answer,
    final_result,
    result_of,
)
from tests.simulation.workflows.trees import FLOW_ANSWER, FLOW_TREES

# How often a pause ends at a full beat, so that several actors act at the same time.
BEAT_PROBABILITY = 0.4
# Notes of calls that cannot run with the deployed code; approving them changes nothing.
_APPROVAL_FAILS = re.compile("could not run: |cannot be repeated as it was")
# Schedules damage nothing, so these errors would be bugs of the library.
_UNEXPECTED_ERRORS = (AgentChanged, FormatError, IllegalTransition, TranscriptInvalid)


class Actor:
    """A process with a runner."""

    def __init__(self, environment: SimEnvironment, name: str) -> None:
        self.environment = environment
        self.name = name
        self.process: Process = environment.new_process(name)
        self.rng = self.process.rng
        self.store_client = StoreClient(environment, self.process)
        self._runners: dict[Deployment | None, AsyncRunner] = {}

    @property
    def runner(self) -> AsyncRunner:
        """The runner with the code that is deployed in this process now."""
        environment = self.environment
        change = environment.code_of(self.name)
        environment.codes_used.setdefault(self.name, []).append(
            (environment.loop.time(), change)
        )
        if change not in self._runners:
            trees = dict.fromkeys(environment.tree_of_run.values())
            self._runners[change] = AsyncRunner(
                [deployed_root(tree, change) for tree in trees],
                store=self.store_client,
                lease=environment.lease,
                max_attempts=environment.max_attempts,
                prices=charging.PRICES if environment.budgets else None,
                notify=self.notify,
                clock=self.process,
                ids=self.process,
                renamed=names_after(change),
            )
        return self._runners[change]

    async def notify(self, wait: Wait) -> None:
        """Record that this process was notified of a wait."""
        environment = self.environment
        if environment.closed:
            return
        newest = newest_version_number(environment, wait.run_id)
        environment.log_event(self.name, "notified of", wait.id)
        environment.known_waits[wait.id] = wait
        environment.notifications.append(
            Notification(
                at=environment.next_timestamp,
                process=self.name,
                wait=wait,
                newest_version=newest,
                decided=layout.decision_key(wait.id) in environment.store.bodies,
            )
        )

    async def perform(
        self, label: str, operation: Callable[[], Awaitable[Any]]
    ) -> object:
        """Run one operation; returns its result, its error, or None if stopped.

        An error that the library must not raise here is recorded as unexpected.
        """
        stop_draw = self.process.draw_fault("caller_stops")
        self.process.cancelled_itself = False
        try:
            result: object = await self._run_or_stop(operation, stop_draw)
        except TimeoutError:
            result = None
        except ContinuationsError as error:
            result = error
            self._record_if_unexpected(error, label)
        except asyncio.CancelledError as error:
            if self.environment.closed or not self.process.cancelled_itself:
                raise
            # The code of a poison run cancelled the task of its caller.
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            result = error
        except Exception as error:  # noqa: BLE001 - a law reports it
            result = error
            self._record_unexpected(error, label)
        if isinstance(result, SweepResult):
            for run_error in (*result.errors.values(), *result.skipped.values()):
                self._record_if_unexpected(run_error, label)
        self.environment.log_event(self.name, label, "->", type(result).__name__)
        return result

    def _record_if_unexpected(self, error: Exception, label: str) -> None:
        is_expected = isinstance(error, self.environment.expected_errors)
        if isinstance(error, _UNEXPECTED_ERRORS) and not is_expected:
            self._record_unexpected(error, label)

    def _record_unexpected(self, error: Exception, label: str) -> None:
        self.environment.unexpected_errors.append(
            f"{self.name} got {error!r} from {label}"
        )

    async def _run_or_stop(
        self, operation: Callable[[], Awaitable[Any]], stop_draw: float | None
    ) -> object:
        """Run an operation, or stop it after some time, as Ctrl-C would."""
        if stop_draw is None:
            return await operation()
        return await asyncio.wait_for(operation(), stop_draw * stop_draw * 30)

    async def pause_randomly(self, seconds: float) -> None:
        """Pause for at most some seconds, sometimes until the next full beat."""
        environment = self.environment
        length = self.rng.random() * seconds * environment.time_scale
        if self.rng.random() < BEAT_PROBABILITY:
            beat = 15 * environment.time_scale
            length += beat - (environment.loop.time() + length) % beat
        await asyncio.sleep(length)


def newest_version_number(environment: SimEnvironment, run_id: str) -> int:
    """Return the number of a run's newest version, or 0."""
    keys = environment.store.keys(layout.versions_prefix(run_id), limit=1)
    return layout.newest_version_number(keys, run_id)


# Roles ------------------------------------------------------------------------------


async def act_as_starter(actor: Actor) -> None:
    """Start every run, up to three times."""
    for run_id in actor.environment.tree_of_run:
        if is_thread_id(run_id) or is_fork(run_id):
            continue  # its first message, or a fork, makes it
        for _ in range(3):
            result = await start_run(actor, run_id)
            failed = isinstance(result, ContinuationsError)
            if not failed and actor.rng.random() < 0.8:
                break
            await actor.pause_randomly(20)


async def start_run(actor: Actor, run_id: str) -> object:
    """Start or enqueue one run; returns the result or error. Others are resumed."""
    if is_thread_id(run_id) or is_fork(run_id):
        resume = partial(actor.runner.resume, run_id)
        return await actor.perform(f"resume {run_id}", resume)
    tree = actor.environment.tree_of_run[run_id]
    name = find_tree(tree).name
    root = deployed_root(tree, actor.environment.code_of(actor.name))
    task: Any = {} if root.is_workflow else "go"
    work = not actor.environment.is_enqueued(run_id)
    budget = charging.budget_of(actor.environment, run_id)
    by = actor.environment.requesters.get(run_id)
    return await actor.perform(
        f"{'start' if work else 'enqueue'} {run_id}",
        lambda: actor.runner.start(
            task, run_id=run_id, agent=name, work=work, budget=budget, by=by
        ),
    )


async def act_as_worker(actor: Actor) -> None:
    """Resume runs, or start them, which has the same effect."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(50)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        if actor.rng.random() < 0.3:
            await start_run(actor, run_id)
        else:
            await actor.perform(
                f"resume {run_id}", partial(actor.runner.resume, run_id)
            )


async def act_as_sweeper(actor: Actor) -> None:
    """Sweep several times."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(60)
        await actor.perform("sweep", actor.runner.sweep)


async def act_as_canceller(actor: Actor) -> None:
    """Cancel a run, once or twice."""
    for _ in range(actor.rng.randint(1, 2)):
        await actor.pause_randomly(120)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        cancel = partial(actor.runner.cancel, run_id, reason="enough")
        await actor.perform(f"cancel {run_id}", cancel)


async def act_as_repairer(actor: Actor) -> None:
    """Repair runs beside live workers, as `doctor --repair` does."""
    for _ in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(60)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        await actor.perform(f"repair {run_id}", partial(repair_run, actor, run_id))


async def repair_run(actor: Actor, run_id: str) -> object:
    now = actor.process.now()
    new_ulid = partial(actor.process.new_ulid, now)
    objects = Objects(actor.store_client)
    try:
        return await doctor.repair(objects, run_id, now=now, new_ulid=new_ulid)
    except Corrupt:
        if await Versions(objects, run_id).newest_number():
            raise
        return None  # its start died, and an event has ended a wait of the start


async def act_as_sender(actor: Actor) -> None:
    """Send one or two messages."""
    for number in range(actor.rng.randint(1, 2)):
        await actor.pause_randomly(60)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        text = f"{actor.name} says {number}"
        send = partial(actor.runner.send, run_id, text, by=person_of(actor))
        await actor.perform(f"send {run_id}", send)


async def act_as_decider(actor: Actor) -> None:
    """List the open waits and decide some of them, a few of them twice."""
    for _ in range(actor.rng.randint(2, 6)):
        await actor.pause_randomly(40)
        await actor.perform("waiting", lambda: _decide_listed(actor))


async def _decide_listed(actor: Actor) -> None:
    rng = actor.rng
    wait_ids = await list_wait_ids(actor)
    notified = [each.wait.id for each in actor.environment.notifications]
    source = rng.random()
    if notified and source < 0.3:
        # A link in a notification, whose wait may be decided already.
        wait_ids = [rng.choice(notified)]
    elif source > 0.8:
        run_id = rng.choice(list(actor.environment.tree_of_run))
        waits = (await actor.runner.look(run_id)).waits
        actor.environment.known_waits.update((wait.id, wait) for wait in waits)
        wait_ids = [wait.id for wait in waits]
    if not wait_ids:
        return
    for wait_id in [w for w in wait_ids if rng.random() < 0.7] or wait_ids[:1]:
        verdict = draw_verdict(actor, wait_id)
        await decide_wait(actor, wait_id, verdict)
        if rng.random() < 0.2:
            await decide_wait(actor, wait_id, verdict)


async def list_wait_ids(actor: Actor) -> list[str]:
    """List the open waits that a person may decide; all of them where tools wait."""
    kinds = WAIT_KINDS if actor.environment.tools_wait else None
    return [summary.id async for summary in actor.runner.waiting(kinds=kinds)]


def closing_verdicts(actor: Actor, wait_id: str) -> list[Verdict]:
    """Draw the verdicts after all faults, of each person if several decide a wait."""
    wait = known_wait(actor.environment, wait_id)
    if wait is None or wait.quorum is None:
        return [draw_verdict(actor, wait_id)]
    return [replace(draw_verdict(actor, wait_id), by=name) for name in VOTERS]


async def decide_wait(actor: Actor, wait_id: str, verdict: Verdict) -> object:
    """Decide a wait and record the result; returns it, or None if stopped."""
    result = await actor.perform(
        f"decide {wait_id}", lambda: actor.runner.decide(wait_id, verdict)
    )
    if result is not None:  # None: the caller stopped, and got no result
        at = actor.environment.next_timestamp
        actor.environment.decide_results.append(
            DecideResult(actor.name, at, wait_id, verdict, result)
        )
    return result


def draw_verdict(  # noqa: PLR0911 - one return for each kind of wait
    actor: Actor, wait_id: str
) -> Verdict:
    """Draw a verdict; for an unknown outcome, return the true one."""
    rng, by = actor.rng, person_of(actor) or actor.name
    draw = rng.random()
    if actor.environment.deployment and _approval_fails(actor, wait_id):
        return Deny(by=by) if draw < 0.5 else Answer(f"{by} did it", by=by)
    if wait_id.startswith("unknown"):
        return _true_verdict(actor, wait_id)
    wait = known_wait(actor.environment, wait_id)
    if wait is not None and wait.tool in WAITING_TOOLS and wait.kind != "approval":
        return draw_answer(actor, result_of(wait.tool, wait.arguments["what"]))
    if wait is not None and _is_of_workflow(actor, wait):
        return draw_answer(actor, FLOW_ANSWER)
    if not actor.environment.allow_denials or draw < 0.7:
        return Approve(by=by, remember=_drawn_grant(actor, wait))
    if draw < 0.8:
        return Deny(by=by, reason="no")
    if draw < 0.85:
        return Answer(f"{by} did it", by=by)
    # The schema refuses a number: that edit must not be recorded.
    return Approve(by=by, arguments={"what": rng.choice(["9", "8", 9])})


def _is_of_workflow(actor: Actor, wait: Wait) -> bool:
    """Return whether the code of a workflow waits by itself."""
    is_flow = actor.environment.tree_of_run.get(wait.run_id) in FLOW_TREES
    return is_flow and wait.kind in ("question", "event")


def person_of(actor: Actor) -> str | None:
    """Draw the person for whom an actor acts, where schedules have people."""
    people = actor.environment.people
    return actor.rng.choice(people) if people else None


def _drawn_grant(actor: Actor, wait: Wait | None) -> Grant | None:
    """Draw the grant that an approval gives, where deciders give grants."""
    if not actor.environment.grants or wait is None or wait.kind != "approval":
        return None
    return draw_grant(actor.rng, wait.tool, actor.process.now())


def _approval_fails(actor: Actor, wait_id: str) -> bool:
    """Return whether the note of a wait says that the deployed code cannot run it."""
    wait = known_wait(actor.environment, wait_id)
    return wait is not None and bool(_APPROVAL_FAILS.search(wait.note or ""))


def _true_verdict(actor: Actor, wait_id: str) -> Verdict:
    """Return the verdict that the recorded effects show to be true."""
    environment, by = actor.environment, actor.name
    wait = known_wait(environment, wait_id)
    if wait is None:
        return Deny(by=by)
    runs = environment.run_and_sources(wait.run_id)
    for effect in environment.effects:
        is_same = (effect.call_id, effect.stage) == (wait.call_id, wait.stage)
        if is_same and effect.run_id in runs:
            what = jsontext.parse(effect.arguments)["what"]
            result = result_of(effect.tool, what)
            return Answer(final_result(effect.tool, result), by=by)
    return Approve(by=by)


def known_wait(environment: SimEnvironment, wait_id: str) -> Wait | None:
    """Return a wait that has an object or that a process was notified of."""
    body = environment.store.bodies.get(f"waits/{wait_id}")
    if body is not None:
        return WAIT.decode(body, wait_id, wait_id.partition("@")[2])
    return environment.known_waits.get(wait_id)
