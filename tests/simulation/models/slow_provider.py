"""A provider that limits requests, and that computes some replies in the background.

It is outside of all processes: no simulated crash loses what it knows. Its behaviour
follows from the seed and from how often a turn was asked. After the faults have stopped
it replies at once.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.errors import ModelError
from continuations.models.interface import LostReply, PendingReply
from tests.simulation.processes import current_process

if TYPE_CHECKING:
    from tests.simulation.actors import Actor
    from tests.simulation.families import Role
    from tests.simulation.processes import ClockSample
    from tests.simulation.sim_environment import SimEnvironment

EventKind: TypeAlias = Literal["refused", "pending", "polled", "lost"]
# A worker repeats a request for 30 s; this is longer, so it gives up at once.
_RETRY_AFTER = (31.0, 45.0, 90.0)
_POLL_AFTER = (5.0, 20.0, 40.0)
_REFUSED, _PENDING = 0.3, 0.65
_POLL_REFUSED, _NOT_READY, _LOST = 0.15, 0.35, 0.5


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """One answer of the provider; the times are as in `Effect`.

    Attributes:
        reply_id: Id of the pending reply; empty for a request that was refused.
    """

    kind: EventKind
    process: str
    run_id: str
    frame_task: str
    turn: int
    reply_id: str
    clock_sample: ClockSample
    at: float

    def __str__(self) -> str:
        turn = f"turn {self.turn} of {self.run_id} {self.frame_task}"
        return f"{self.kind} {self.reply_id} ({turn}) by {self.process}"


@dataclass
class SlowProvider:
    """The provider of one schedule.

    Attributes:
        events: Its answers without a reply, in their order. A reply to a request is in
            `SimEnvironment.model_turns` only.
    """

    seed: int
    events: list[ProviderEvent] = field(default_factory=list[ProviderEvent])
    _asked: Counter[str] = field(default_factory=Counter[str])
    _lost: set[str] = field(default_factory=set[str])

    def answer(self, run_id: str, task: str, turn: int) -> PendingReply | None:
        """Return when to look for the reply, or `None` for a reply at once.

        Raises `ModelError` if the request is refused.
        """
        name = f"{run_id}/{task}/{turn}"
        self._asked[name] += 1
        reply_id = f"{name}/{self._asked[name]}"
        rng = self._draws(reply_id)
        draw = rng.random()
        if self._is_idle or draw >= _PENDING:
            return None
        if draw < _REFUSED:
            self._record("refused", run_id, task, turn, "")
            raise _limited(rng)
        self._record("pending", run_id, task, turn, reply_id)
        seconds = rng.choice(_POLL_AFTER)
        return PendingReply(id=reply_id, poll_after=timedelta(seconds=seconds))

    def poll(
        self, reply_id: str, run_id: str, task: str, turn: int
    ) -> PendingReply | LostReply | None:
        """Return `None` if a reply is ready; raises `ModelError` at a limit."""
        self._asked[reply_id] += 1
        rng = self._draws(f"{reply_id}/{self._asked[reply_id]}")
        self._record("polled", run_id, task, turn, reply_id)
        draw = rng.random()
        if reply_id not in self._lost and (self._is_idle or draw >= _LOST):
            return None
        if draw < _POLL_REFUSED and not self._is_idle:
            raise _limited(rng)
        if draw < _NOT_READY and reply_id not in self._lost:
            seconds = rng.choice(_POLL_AFTER)
            return PendingReply(id=reply_id, poll_after=timedelta(seconds=seconds))
        self._lost.add(reply_id)
        self._record("lost", run_id, task, turn, reply_id)
        return LostReply(reason="simulated loss")

    @property
    def _is_idle(self) -> bool:
        return current_process().environment.faults.stopped

    def _draws(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/provider/{name}")  # noqa: S311 - not for secrets

    def _record(
        self, kind: EventKind, run_id: str, task: str, turn: int, reply_id: str
    ) -> None:
        process = current_process()
        environment = process.environment
        event = ProviderEvent(
            kind=kind,
            process=process.name,
            run_id=run_id,
            frame_task=task,
            turn=turn,
            reply_id=reply_id,
            clock_sample=process.clock_sample,
            at=environment.next_timestamp,
        )
        self.events.append(event)
        environment.log_event(process.name, "provider", event)


def _limited(rng: random.Random) -> ModelError:
    return ModelError(
        "simulated limit", retryable=True, retry_after=rng.choice(_RETRY_AFTER)
    )


# Trees whose models are slow: sub-agents side by side, below each other, and waits.
SLOW_TREES = ("turns", "one", "deep", "wide", "approved_agent", "ask_deep", "jobs")


def draw_slow_models(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Let the models of a schedule be slow; draw the webhooks of their provider."""
    environment.provider = SlowProvider(environment.seed)
    return [(f"webhook{n}", act_as_webhook) for n in range(rng.randint(0, 2))]


async def act_as_webhook(actor: Actor) -> None:
    """Wake the runs, as a provider does whose reply is ready."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(60)
        for run_id in actor.environment.tree_of_run:
            wake = partial(actor.runner.wake, run_id, by=actor.name)
            await actor.perform(f"wake {run_id}", wake)
