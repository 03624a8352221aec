"""The parts that a runner works with; each is made, and imported, on first use."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from continuations.engine.ports import EventSinks, check_on_event
from continuations.ledger import layout
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from continuations.authoring.agent.agent import Agent
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.waits import Wait
    from continuations.engine.events.word_carrier import WordCarrier
    from continuations.engine.events.word_hub import WordHub
    from continuations.engine.ports import EventSink, OnEvent, Ports
    from continuations.engine.requests.run_requests import RunRequests
    from continuations.engine.start.run_description import RunDescription
    from continuations.engine.sweep.sweeping import Sweeper, SweepMemory
    from continuations.engine.work_observers import WorkObserver
    from continuations.engine.worker.worker_factory import WorkerFactory
    from continuations.engine.worker_options import (
        RunOptions,
        ShouldPause,
        WorkerOptions,
    )
    from continuations.ledger.arrivals.wait_slots import GroupsOf
    from continuations.ledger.objects import Objects
    from continuations.ledger.repair.retention import Retention
    from continuations.ledger.store_clock import StoreClock

# A process that only decides should start fast: it imports neither the engine nor the
# agents.
# ruff: noqa: PLC0415


# Methods of other packages, and the name of the method here.
_FOREIGN_METHODS = {
    "run": "start(input, run_id=...)",
    "run_sync": "start(input, run_id=...)",
    "invoke": "start(input, run_id=...)",
    "ainvoke": "start(input, run_id=...) of AsyncRunner",
    "run_streamed": "stream(input, run_id=...)",
    "approve": "decide(wait_id, Approve(by=...))",
    "reject": "decide(wait_id, Deny(by=..., reason=...))",
}


def missing_attribute(runner: object, name: str) -> AttributeError:
    """Return the error for a name that a runner does not have."""
    msg = f"{type(runner).__name__} has no attribute {name!r}."
    if name in _FOREIGN_METHODS:
        msg += f" Call {_FOREIGN_METHODS[name]}."
    return AttributeError(msg, name=name, obj=runner)


def check_retention(retention: Any) -> Retention | None:
    """Return a valid retention or `None`; raises `InvalidInput`."""
    if retention is None:
        return None
    # Few runners have one.
    from continuations.errors import InvalidInput
    from continuations.ledger.repair.retention import Retention

    if isinstance(retention, Retention):
        return retention
    msg = f"retention must be Retention(...) or None, got {type(retention).__name__}."
    raise InvalidInput(f"{msg} Pass Retention(finished=timedelta(days=90)).")


T = TypeVar("T")


class RunnerParts:
    """Makes workers, sweepers and run requests of one store and its agents."""

    def __init__(
        self,
        agents: Agent | Sequence[Agent],
        objects: Objects,
        ports: Ports,
        options: WorkerOptions,
        retention: Retention | None = None,
    ) -> None:
        options.check_lease(objects.time_resolution)
        self._agents = agents
        self._objects = objects
        self._ports = ports
        self._options = options
        self._retention = retention
        self._probed = False
        # They get the events of the runs that they listen to, while this runner works.
        self.observers: list[EventSink] = []
        self._work_observer: WorkObserver | None = None
        if agents != []:
            # Invalid agents raise here, not at the first resume.
            _ = self._worker_factory

    @property
    def _has_agents(self) -> bool:
        return self._agents != []

    @cached_property
    def _worker_factory(self) -> WorkerFactory:
        return self._make_worker_factory()

    def _make_worker_factory(self) -> WorkerFactory:
        from continuations.engine.worker.worker_factory import WorkerFactory

        return WorkerFactory(
            self._agents,
            self._objects,
            self._ports,
            self._options,
            lambda: self.word_carrier,
        )

    def _make_sweeper(self, run_options: RunOptions) -> Sweeper:
        from continuations.engine.sweep.sweeping import Sweeper

        self._worker_factory.check_context(run_options.context)
        return Sweeper(
            self._objects,
            self._ports,
            self._worker_factory.make_worker,
            self._sweep_memory,
            self._store_clock(),
            run_options,
            self._retention,
        )

    @cached_property
    def _sweep_memory(self) -> SweepMemory:
        from continuations.engine.sweep.sweeping import SweepMemory

        return SweepMemory(self._ports.clock)

    @cached_property
    def word_carrier(self) -> WordCarrier | None:
        """The words of this runner in its store; `None` if the store carries none."""
        from continuations.engine.events.word_carrier import WordCarrier

        return WordCarrier.of_store(self._objects.store)

    @cached_property
    def _word_hub(self) -> WordHub:
        """The words of threads; made for the first follower."""
        from continuations.engine.events.word_hub import WordHub

        hub = WordHub(self.word_carrier)
        self.observers.append(hub)
        return hub

    def _run_options(
        self, context: Any, should_pause: ShouldPause | None
    ) -> RunOptions:
        """Return one call's options; a subclass may choose other defaults."""
        from continuations.engine.worker_options import RunOptions

        return RunOptions.from_arguments(
            context=context, should_pause=should_pause, observer=self._work_observer
        )

    def _listening(
        self, run_options: RunOptions, on_event: OnEvent | None
    ) -> AbstractAsyncContextManager[RunOptions]:
        """Return the options of work whose events the listeners get, if there are any.

        Raises `InvalidInput` if `on_event` is not a function.
        """
        functions = on_event, self._ports.on_event
        return with_listeners(run_options, *functions, observers=self.observers)

    def _within(self, connection: object, method: str) -> Self:
        """Return this runner inside the open transaction of an application.

        It notifies no one: the transaction may be rolled back. The worker that goes on
        sends the notices.
        """
        from continuations.ledger.objects import objects_within

        inside = type(self).__new__(type(self))
        inside.__dict__.update(
            self.__dict__,
            _objects=objects_within(self._objects.store, connection, method),
            _ports=replace(self._ports, notify=None),
        )
        for name in ("_worker_factory", "_sweep_memory", "_word_hub", "word_carrier"):
            inside.__dict__.pop(name, None)
        return inside

    def _if_intact(self, result: T) -> T:
        """Return a result, unless the transaction of an application has failed.

        Some steps after a record ignore errors of the store. In a transaction, such an
        error also takes back the record.
        """
        check: Callable[[], None] | None
        check = getattr(self._objects.store, "check_intact", None)
        if self._objects.in_transaction and check is not None:
            self._objects.translated(check)
        return result

    async def _with_notice(
        self, found: list[Wait], result: Decision | Vote
    ) -> Decision | Vote:
        """Send the notice of a decision; `found` is empty if no one takes notices."""
        if found:
            from continuations.engine.journal.notice_sending import send_decision

            await send_decision(self._ports, found[-1], result)
        return result

    def _run_description(self, **arguments: object) -> RunDescription:
        from continuations.engine.start.run_description import RunDescription

        return RunDescription.from_arguments(**arguments)

    def _requests_of(self, run_id: str) -> RunRequests:
        """Return the requests to a run; raises `InvalidId`."""
        run_id = layout.check_run_id(run_id)
        from continuations.engine.requests.run_requests import RunRequests

        return RunRequests(
            objects=self._objects,
            ports=self._ports,
            options=self._options,
            run_id=run_id,
        )

    @property
    def _groups_function(self) -> GroupsOf | None:
        return self._groups_of if self._ports.groups else None

    async def _groups_of(self, name: str) -> tuple[str, ...]:
        """Return the groups of a person, from the application's function."""
        from continuations.authoring import callables
        from continuations.ledger.arrivals.wait_slots import checked_groups

        assert self._ports.groups is not None  # noqa: S101 - asked before
        return checked_groups(await callables.call(self._ports.groups, name))

    async def _probe_once(self) -> None:
        if not self._probed:
            await self._objects.probe()
            self._probed = True

    def _store_clock(self) -> StoreClock:
        from continuations.ledger.store_clock import StoreClock

        return StoreClock(self._ports.clock)

    def _new_ulid(self) -> str:
        return self._ports.ids.new_ulid(self._ports.clock.now())


def with_listeners(
    run_options: RunOptions,
    *functions: OnEvent | None,
    observers: Sequence[EventSink] | None = None,
) -> AbstractAsyncContextManager[RunOptions]:
    """Return the options of work with its listeners and observers, if there are any.

    Raises `InvalidInput` if one is not a function.
    """
    listeners: list[OnEvent] = []
    for function in functions:
        check_on_event(function)
        if function is not None:
            listeners.append(function)
    if not listeners and observers is None:
        return nullcontext(run_options)
    if not listeners and observers is not None:
        # An observer may come while the work goes on.
        return nullcontext(replace(run_options, events=EventSinks(observers)))
    from continuations.engine.events.event_listeners import listening

    return listening(run_options, listeners, observers or ())
