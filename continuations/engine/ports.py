"""The engine's connections to the machine: clocks, sleep, new ids and `notify`.

They are parameters, so that a test can replay a schedule.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from continuations.core import ulid
from continuations.errors import InvalidInput
from continuations.value_class import dataclass
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from continuations.core.reading.live_events import RunEvent
    from continuations.core.reading.notices import Notice
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.ledger.arrivals.arrivals import Arrivals
    from continuations.ledger.claims import Clock
    from continuations.wire.arrivals import InboxMessage

    Notify = Callable[[Wait], Awaitable[None] | None]
    OnNotice = Callable[[Notice], Awaitable[None] | None]
    Groups = Callable[[str], Awaitable[Collection[str]] | Collection[str]]
    Sleep = Callable[[float], Awaitable[None]]
    CallbackUrl = Callable[[str], str]
    OnEvent = Callable[[RunEvent], Awaitable[None] | None]


# CLOCK_BOOTTIME includes the time in which the machine sleeps. macOS does not have it;
# there CLOCK_MONOTONIC includes that time.
_ELAPSED_CLOCK_ID = getattr(
    time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None)
)


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Return the wall clock's time, in whole milliseconds, UTC."""
        now = datetime.now(UTC)
        return now - timedelta(microseconds=now.microsecond % 1000)

    def elapsed(self) -> float:
        """Return seconds of a clock that runs while the machine sleeps."""
        return (
            time.monotonic()
            if _ELAPSED_CLOCK_ID is None
            else time.clock_gettime(_ELAPSED_CLOCK_ID)
        )


class IdGenerator(Protocol):
    """A source of ids that cannot be guessed."""

    def new_ulid(self, now: datetime) -> str:
        """Return a new ULID of a time, lower case."""
        ...


class EventSink(Protocol):
    """Takes the events of runs, on the event loop that works on them."""

    def put(self, event: RunEvent) -> None:
        """Take an event; never wait, and never raise."""
        ...

    def listens(self, run_id: str) -> bool:
        """Return whether it takes the events of a run that is worked on from now."""
        ...


@runtime_checkable
class KeepsWords(Protocol):
    """A sink that keeps the words of present turns for late followers."""

    def released(self, run_id: str) -> None:
        """Drop the words of a run: a reply that was not stored is not shown again."""
        ...


class SystemIdGenerator:
    """ULIDs from the operating system's randomness."""

    def new_ulid(self, now: datetime) -> str:
        """Return a new ULID."""
        return ulid.encode_ulid(to_milliseconds(now), os.urandom(ulid.RANDOM_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The clocks, the id generator and the notify function, as one value.

    Attributes:
        clock: The wall clock and the elapsed clock.
        ids: Makes new ids.
        notify: Called with each new wait once it is stored, or `None`.
        groups: Returns the groups of a person, or `None`.
        sleep: Waits for a number of seconds. A clock with a method `sleep` brings its
            own, so that a test does not wait.
        callback_url: Returns the URL to which another system sends the result of a
            wait, or `None`.
        on_event: Gets the events of the runs while they are worked on, or `None`.
        sent_notices: The ids of the last notices that `on_notice` took.
    """

    clock: Clock = field(default_factory=SystemClock)
    ids: IdGenerator = field(default_factory=SystemIdGenerator)
    notify: Notify | None = None
    groups: Groups | None = None
    sleep: Sleep = asyncio.sleep
    callback_url: CallbackUrl | None = None
    on_event: OnEvent | None = None
    sent_notices: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def on_notice(self) -> OnNotice | None:
        """The method of `notify` that takes notices, or `None`."""
        return getattr(self.notify, "on_notice", None)

    @classmethod
    def with_defaults(
        cls,
        *,
        clock: Clock | None,
        ids: IdGenerator | None,
        notify: Notify | None,
        callback_url: CallbackUrl | None = None,
        groups: Groups | None = None,
        on_event: OnEvent | None = None,
    ) -> Ports:
        """Return ports, with the machine's for each `None`; raises `InvalidInput`."""
        for name, port, methods in (
            ("clock", clock, ("now", "elapsed")),
            ("ids", ids, ("new_ulid",)),
        ):
            missing = [method for method in methods if not hasattr(port, method)]
            if port is not None and missing:
                raise InvalidInput(
                    f"{name} must have the method {missing[0]}(), got an object of "
                    f"type {type(port).__name__} without it."
                )
        given = (notify, getattr(notify, "on_notice", None), callback_url, groups)
        for function, (what, advice) in zip(given, _FUNCTIONS, strict=True):
            if function is not None and not callable(function):
                raise InvalidInput(f"{what}, got {type(function).__name__}.{advice}")
        check_on_event(on_event)
        return cls(
            clock=clock or SystemClock(),
            ids=ids or SystemIdGenerator(),
            notify=notify,
            groups=groups,
            sleep=getattr(clock, "sleep", asyncio.sleep),
            callback_url=callback_url,
            on_event=on_event,
        )


# The rule of each port that is called, and the advice after an error about it.
_FUNCTIONS = (
    ("notify must be a function or coroutine function that takes a Wait", ""),
    (
        "notify.on_notice must be a method that takes a Notice",
        " Rename the attribute.",
    ),
    (
        "callback_url must be a function that returns the URL for a wait id",
        " Pass Links(...).callback_url.",
    ),
    (
        (
            "groups must be a function or coroutine function that takes the name of a "
            "person and returns the names of their groups"
        ),
        "",
    ),
)


def check_on_event(function: object) -> None:
    """Raise `InvalidInput` unless the value is a function of an event, or `None`."""
    if function is None:
        return
    from continuations.authoring import callables  # noqa: PLC0415 - few runners have a listener

    if not callables.is_observer(function):
        raise InvalidInput(
            "on_event must be a function, plain or async, with one parameter, got "
            f"{callables.shown(function)}. Declare def on_event(event)."
        )


class EventSinks:
    """Hands each event to the sinks of some work and to the observers of its runner.

    An observer may come while the work goes on, for example while a server sweeps. It
    gets the events of the runs that the work begins after that.
    """

    def __init__(
        self, observers: Sequence[EventSink], sinks: Iterable[EventSink] = ()
    ) -> None:
        self._sinks = tuple(sinks)
        self._observers = observers

    def put(self, event: RunEvent) -> None:
        """Hand an event on."""
        for sink in (*self._sinks, *self._observers):
            sink.put(event)

    def listens(self, run_id: str) -> bool:
        """Return whether one of the sinks takes the events of a run."""
        return any(each.listens(run_id) for each in (*self._sinks, *self._observers))

    def released(self, run_id: str) -> None:
        """Tell those that keep words that no worker works on a run now."""
        for sink in (*self._sinks, *self._observers):
            if isinstance(sink, KeepsWords):
                sink.released(run_id)


class Journal(Protocol):
    """Keeps the versions of a run for a run loop."""

    @property
    def version_number(self) -> int:
        """The number of the last version that was committed."""
        ...

    @property
    def can_start_action(self) -> bool:
        """Whether enough of the claim is left to start a call."""
        ...

    @property
    def seconds_to_renewal(self) -> float | None:
        """Seconds until the claim must be renewed; `None` for never."""
        ...

    @property
    def claim_end(self) -> datetime | None:
        """When the claim ends unless it is renewed; `None` without a claim."""
        ...

    async def commit(self, state: RunState, *, progressed: bool) -> Arrivals:
        """Commit a running state; return new requests of operators."""
        ...

    async def read_next_message(self, state: RunState) -> InboxMessage | None:
        """Return the next unread message of a thread that can take it, or `None`."""
        ...

    async def read_messages(self, numbers: Sequence[int]) -> Arrivals:
        """Return unread messages that were listed before."""
        ...

    async def read_late_arrivals(self, state: RunState) -> Arrivals:
        """Return unread messages and requests, before the run may finish."""
        ...

    async def close_cancelled_waits(
        self, state: RunState, by_reason: Mapping[str, Sequence[Wait]]
    ) -> None:
        """Close waits that operators ended, by the reasons."""
        ...
