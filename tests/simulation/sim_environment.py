"""The environment of a schedule: one store, its network, and a record of events."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from continuations_storage import errors
from continuations_storage.contract import PAGE_SIZE
from tests.simulation.processes import ClockSample, Process, wall_time
from tests.simulation.seams.tools import first_name
from tests.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from continuations import Wait
    from continuations.authoring.tool.tool import Tool
    from continuations.core.rows.decisions import Verdict
    from continuations.past import Rewound
    from continuations_storage.contract import Changes
    from tests.simulation.fault_schedule import Deployment, FaultSchedule
    from tests.simulation.models.slow_provider import SlowProvider
    from tests.simulation.policy.tools import Recheck
    from tests.simulation.streams.actors import Screen
    from tests.simulation.threads.actors import SendAnswer, SentMessage


_ENQUEUE_PROBABILITY = 0.1


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A create or delete that changed the store."""

    at: float
    process: str
    verb: str
    key: str
    body: bytes = b""


@dataclass(slots=True)
class Effect:
    """An effect of a tool.

    Attributes:
        code: The tool, as deployed in its process.
        clock_sample: The clock reading on which its process relied.
        sent_at: The true time at which its process sent the call.
        began_at: The true time of the effect.
        stage: 0 for the tool's function, n for the n-th call of `on_answer`.
        answer: The answer that the `on_answer` function got, as canonical JSON.
    """

    process: str
    code: Tool[Any, Any]
    run_id: str
    call_id: str
    idempotency_key: str
    arguments: str
    fence: int
    attempt: int
    clock_sample: ClockSample
    sent_at: float
    began_at: float
    stage: int = 0
    answer: str | None = None

    @property
    def tool(self) -> str:
        """The first name of the tool."""
        return first_name(self.code.name)

    def __str__(self) -> str:
        call = f"{self.run_id} {self.call_id}"
        attempt = f"attempt {self.attempt} fence {self.fence}"
        if self.answer is not None:
            attempt += f" answer {self.answer}"
        return f"{self.tool}({self.arguments}) of {call} {attempt} by {self.process}"


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A request to a model; `clock_sample` and `began_at` are as in `Effect`."""

    process: str
    run_id: str
    frame_task: str
    turn: int
    agent: str
    messages: tuple[str, ...]
    clock_sample: ClockSample
    began_at: float

    def __str__(self) -> str:
        return f"turn {self.turn} of {self.run_id} {self.frame_task} by {self.process}"


@dataclass(frozen=True, slots=True)
class DecideResult:
    """The result, or the error, that a decider got."""

    process: str
    at: float
    wait_id: str
    verdict: Verdict
    result: object


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of a wait.

    Attributes:
        newest_version: The number of the run's newest version at that time.
        decided: Whether the wait had a decision at that time.
    """

    at: float
    process: str
    wait: Wait
    newest_version: int
    decided: bool


@dataclass(frozen=True, slots=True)
class RevokedGrant:
    """A revocation that a process got back as recorded."""

    process: str
    at: float
    run_id: str
    grant: str


@dataclass(frozen=True, slots=True)
class SignalList:
    """The signals that a listing of a run showed, and when the listing began."""

    run_id: str
    began_at: float
    at: float
    numbers: tuple[int, ...]


class SimStore:
    """The store that all processes share; it records every change."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.changes: list[StoreChange] = []
        # Called with the key of each create.
        self.on_create: list[Callable[[str], None]] = []
        self._sorted: list[str] = []
        self._makers: dict[str, tuple[str, int]] = {}

    def create(
        self, key: str, body: bytes, maker: tuple[str, int], at: float
    ) -> datetime:
        """Create an object; the same maker may send its request twice."""
        if key in self.bodies:
            if self._makers[key] == maker:
                return wall_time(at)
            raise errors.AlreadyExists(key)
        self.bodies[key] = body
        self._makers[key] = maker
        insort(self._sorted, key)
        self.changes.append(StoreChange(at, maker[0], "create", key, body))
        for tell in self.on_create:
            tell(key)
        return wall_time(at)

    def read(self, key: str) -> bytes:
        try:
            return self.bodies[key]
        except KeyError:
            raise errors.NotFound(key) from None

    def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> list[str]:
        start = max(
            bisect_left(self._sorted, prefix), bisect_right(self._sorted, after)
        )
        found: list[str] = []
        for key in self._sorted[start : start + limit]:
            if not key.startswith(prefix):
                break
            found.append(key)
        return found

    def commit(
        self, changes: Changes, maker: tuple[str, int], at: Callable[[], float]
    ) -> datetime:
        """Create the objects of changes, all in one moment."""
        if changes.between is not None:
            earliest, latest = changes.between
            if not earliest <= wall_time(at()) <= latest:
                raise errors.OutOfTime(changes.key)
        created = self.create(changes.key, changes.body, maker, at())
        for key, body in changes.also.items():
            if key not in self.bodies:
                self.create(key, body, maker, at())
        return created

    def is_first(self, key: str, prefix: str, maker: tuple[str, int]) -> bool:
        """Return whether a maker made a key, and it is the first one of a prefix."""
        is_first = not prefix or self.keys(prefix, limit=1) == [key]
        return is_first and key in self.bodies and self._makers[key] == maker

    def delete(self, key: str, process: str, at: float) -> None:
        if self.bodies.pop(key, None) is not None:
            del self._sorted[bisect_left(self._sorted, key)]
            self.changes.append(StoreChange(at, process, "delete", key))


@dataclass
class SimEnvironment:
    """One schedule: its store, processes and settings, and a record of all events.

    Attributes:
        seed: The seed of all random numbers.
        faults: The faults of the schedule.
        lease: The length of a claim in seconds.
        loop: The event loop, whose time is the true time.
        store: The store that all processes share.
        processes: All processes.
        effects: The effects of tools, in their order.
        model_turns: The requests to models, in their order.
        decide_results: The results of deciders, in their order.
        notifications: The notifications of waits, in their order.
        known_waits: The waits that a process was notified of or read, by id.
        unexpected_errors: Errors that the library must not raise here.
        expected_errors: Errors that are expected in this schedule, for example
            `Corrupt` if versions are damaged.
        tree_of_run: The tree of agents of each run id.
        allow_denials: Whether deciders deny and edit.
        decide_at_end: Whether the final sweeps also decide open waits.
        time_scale: A factor for the pauses of actors.
        max_attempts: The limit of attempts of every runner.
        listings_tell_time: Whether listings tell the store's time; creates always do.
        tools_wait: Whether the tools of a run wait.
        jobs: The call (run id, call id, stage) of each wait id that another system got.
        stops: The wait id and the true time of each call of an `on_cancel` function.
        provider: The provider of slow models, or `None` for models that always reply.
        thread_tree: The tree of the agents of the thread, or `None` without a thread.
        sent_messages: The messages that writers tried to send, in their order.
        summaries: The requests for a summary: the run, the number of its turns, and
            the true time of the clock reading on which the process relied.
        send_answers: The results of writers, in their order.
        people: The persons who decide, fork and send, or none: then each actor decides
            under its own name.
        requesters: The person who starts each run, if it is one.
        forked_by: The person who made each fork or adopted run.
        operators: Whether operators pause runs; the end of the schedule unpauses them.
        cancels_calls: Whether operators cancel calls.
        grants: Whether deciders give grants.
        revoked_grants: The revocations that were acknowledged, in their order.
        rechecks: The verdicts of the checks before approved calls.
        wrong_files: Requests to models that lacked the bytes of an attachment.
        arrival_listings: The process, the run id and the true time of each request to
            list what arrived for a run.
        sources: The run that each fork or adopted run was made of.
        adopted_versions: The version of the source whose bytes each adopted run is
            made of.
        changed_forks: The forks that differ from their sources.
        fork_messages: The changed messages of each fork, by the ids of frames.
        forks_began: When the newest attempt to make each fork or adopted run began.
        rewinds_asked: The run and the version of each rewind that was tried.
        rewound: The results of rewinds, in their order.
        signal_lists: The listings of signals, in their order.
        budgets: The cost that a run may reach, in units; no other run has a limit.
        deployment: The change of a deployment, if there is one.
        deployed_at: When each process gets the new code; none has it before, and a
            process that is not named has it from the start.
        has_commits: Whether the store makes several changes in one request.
        has_watches: Whether the store reports creates to those who watch a prefix.
        marker_listings: The process and its awake seconds of each listing of markers.
        served: The process, and its awake seconds at the begin and the end of each
            worker loop.
        codes_used: The deployments that each process used, with the true times.
        log: One line for each event: true time, process, event.
        closed: Whether the schedule is over.
    """

    seed: int
    faults: FaultSchedule
    lease: float = 30.0
    loop: VirtualLoop = field(default_factory=VirtualLoop)
    store: SimStore = field(default_factory=SimStore)
    processes: list[Process] = field(default_factory=list[Process])
    effects: list[Effect] = field(default_factory=list[Effect])
    model_turns: list[ModelTurn] = field(default_factory=list[ModelTurn])
    decide_results: list[DecideResult] = field(default_factory=list[DecideResult])
    notifications: list[Notification] = field(default_factory=list[Notification])
    known_waits: dict[str, Wait] = field(default_factory=dict[str, Any])
    unexpected_errors: list[str] = field(default_factory=list[str])
    expected_errors: tuple[type[Exception], ...] = ()
    tree_of_run: dict[str, str] = field(default_factory=dict[str, str])
    allow_denials: bool = True
    decide_at_end: bool = False
    time_scale: float = 1.0
    max_attempts: int = 5
    listings_tell_time: bool = False
    tools_wait: bool = False
    jobs: dict[str, tuple[str, str, int]] = field(
        default_factory=dict[str, tuple[str, str, int]]
    )
    stops: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    provider: SlowProvider | None = None
    screen: Screen | None = None
    charges: list[float] | None = None
    budgets: dict[str, int] = field(default_factory=dict[str, int])
    thread_tree: str | None = None
    sent_messages: list[SentMessage] = field(default_factory=list[Any])
    summaries: list[tuple[str, int, float]] = field(default_factory=list[Any])
    send_answers: list[SendAnswer] = field(default_factory=list[Any])
    people: tuple[str, ...] = ()
    requesters: dict[str, str] = field(default_factory=dict[str, str])
    forked_by: dict[str, str] = field(default_factory=dict[str, str])
    operators: bool = False
    cancels_calls: bool = False
    grants: bool = False
    revoked_grants: list[RevokedGrant] = field(default_factory=list[RevokedGrant])
    rechecks: list[Recheck] = field(default_factory=list[Any])
    wrong_files: list[str] = field(default_factory=list[str])
    arrival_listings: list[tuple[str, str, float]] = field(
        default_factory=list[tuple[str, str, float]]
    )
    sources: dict[str, str] = field(default_factory=dict[str, str])
    adopted_versions: dict[str, int] = field(default_factory=dict[str, int])
    fork_messages: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Any])
    forks_began: dict[str, float] = field(default_factory=dict[str, float])
    changed_forks: set[str] = field(default_factory=set[str])
    rewinds_asked: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    rewound: list[Rewound] = field(default_factory=list[Any])
    signal_lists: list[SignalList] = field(default_factory=list[SignalList])
    deployment: Deployment | None = None
    deployed_at: dict[str, float] = field(default_factory=dict[str, float])
    codes_used: dict[str, list[tuple[float, Deployment | None]]] = field(
        default_factory=dict[str, Any]
    )
    has_commits: bool = False
    has_watches: bool = False
    marker_listings: list[tuple[str, float]] = field(
        default_factory=list[tuple[str, float]]
    )
    served: list[tuple[str, float, float]] = field(
        default_factory=list[tuple[str, float, float]]
    )
    log: list[tuple[Any, ...]] = field(default_factory=list[Any])
    closed: bool = False
    _ticks: int = 0

    def new_process(self, name: str) -> Process:
        process = Process(self, name)
        self.processes.append(process)
        return process

    @property
    def next_timestamp(self) -> float:
        """The true time, plus some nanoseconds so that no two events have one time."""
        self._ticks += 1
        return self.loop.time() + self._ticks * 1e-9

    def run_and_sources(self, run_id: str) -> list[str]:
        """Return a run, the run that it is a fork of, and so on."""
        runs = [run_id]
        while runs[-1] in self.sources:
            runs.append(self.sources[runs[-1]])
        return runs

    def is_enqueued(self, run_id: str) -> bool:
        """Return whether a run is only stored when it is started."""
        # Random numbers of its own: the other draws of a seed stay the same.
        rng = random.Random(f"{self.seed}/enqueue/{run_id}")  # noqa: S311 - not for secrets
        return rng.random() < _ENQUEUE_PROBABILITY

    def code_of(self, process_name: str) -> Deployment | None:
        """Return the code change that a process has now, `None` for the first code."""
        deployed = self.loop.time() >= self.deployed_at.get(process_name, 0.0)
        return self.deployment if deployed else None

    def log_event(self, *what: Any) -> None:
        self.log.append((round(self.loop.time(), 6), *what))

    def close(self) -> None:
        """End the schedule and cancel the tasks of dead processes."""
        self.closed = True
        for process in self.processes:
            process.cancel_tasks()
        self.loop.run_until_idle()
        self.loop.close()
