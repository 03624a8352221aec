"""The methods of AsyncRunner about events: of a run, to a run, or to all that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.doors import PYTHON, Door
from continuations.engine.batches import Flattened
from continuations.engine.runner_parts import RunnerParts
from continuations.ledger import layout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.core.run_stream import StreamEvent
    from continuations.ledger.published_events import Publication

# A process that only decides should start fast.
# ruff: noqa: PLC0415


class AsyncEvents(RunnerParts):
    """Reads the events of a run, sends signals, and publishes; needs no agents."""

    def events(
        self, run_id: str, *, after: str = "", follow: bool = False
    ) -> AsyncIterator[StreamEvent]:
        """Iterate over what happened in a run: messages, calls, waits, its end.

        The events are derived from the stored versions, in any process and as often as
        you like. Nothing is stored for them, and no agents are needed. See
        `continuations.events` for their types.

        Each version is read once, and each decision once. An iteration after a cursor
        reads at most log2(versions) + 1 versions more. While nothing happens,
        `follow=True` reads the key of the next version, each 0.2 seconds at first and
        each 5 seconds later.

        Args:
            run_id: Id of the run, also of a thread.
            after: The `cursor` of an event: return only later ones. Default: all.
            follow: With True, wait for what happens next, also while a wait is open.
                The iteration ends when the run ends or the thread rests.

        Returns:
            An asynchronous iterator over the events, in their order.

        Raises:
            InvalidId: `run_id` is invalid.
            InvalidInput: `after` is not a cursor of the run.
            RunNotFound: The store has no such run; raised during the iteration, as the
                errors below.
            RunErased: The run was erased.
            Corrupt: A version or decision is damaged, and the run was not repaired.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Continue after the last cursor.
        """
        from continuations.engine.event_reading import Cursor, read_events

        layout.check_run_id(run_id)
        place = Cursor.parse(after)
        found = read_events(
            self._objects, self._ports.sleep, run_id, place, follow=follow
        )
        return Flattened(found)

    async def signal(
        self,
        run_id: str,
        name: str,
        data: Any = None,
        *,
        by: str | None = None,
        id: str | None = None,  # noqa: A002 - the name in the public API
        door: Door = PYTHON,
    ) -> int:
        """Send a signal to a run: it ends a wait that `wait_for(name)` opened.

        The oldest such wait takes the signal, whatever its key, at the next resume or
        sweep. The data of the signal is the answer. A signal that comes before its wait
        is kept. A signal never queues behind a message.

        If the data does not fit the type of the wait, the wait is opened again, and its
        note says why. The signal is then used up.

        Args:
            run_id: Id of the run.
            name: Name of the event, 1 to 200 characters.
            data: Any JSON value.
            by: Name of the sender, for the record.
            id: Your id of this signal. A repeated call with the same id, name and data
                sends one signal. Such a call reads all signals of the run.
            door: The way by which the signal came, for the audit.

        Returns:
            The number of the signal, from 1.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, an argument is invalid, or no wait has
                taken 100 signals of the run. Or the id names another signal.
            StoreError: The store failed. The signal may be recorded: repeat the call
                with an `id`.
        """
        layout.check_run_id(run_id)
        requests = self._run_requests(run_id)
        return await requests.signal(name, data, by=by, signal_id=id, door=door)

    async def publish(
        self,
        name: str,
        data: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
        id: str | None = None,  # noqa: A002 - the name in the public API
        door: Door = PYTHON,
    ) -> Publication:
        """Publish an event for all runs that wait for it with `wait_for(name, key=…)`.

        A wait matches if its name and its key are equal to those of the event. A wait
        without a key takes events without a key. Each wait takes the oldest event that
        its run has not taken, also one that was published up to 24 hours before the
        wait was opened. The data of the event is the answer. Events are deleted after
        two days, by a sweep.

        If the data does not fit the type of the wait, the wait is opened again, and its
        note says why. A crash leaves the event published or not. If it is published, a
        sweep ends the waits that this call left open.

        Args:
            name: Name of the event, 1 to 200 characters.
            data: Any JSON value.
            key: Key of the event, for example an order number. `None`: no key.
            by: Name of the publisher, for the record.
            id: Your id of this event. A repeated call with the same id, name, key and
                data records one event, as long as the first one is kept.
            door: The way by which the event came, for the audit.

        Returns:
            The id of the event, and the runs whose waits this call ended. They continue
            at the next resume or sweep.

        Raises:
            InvalidInput: An argument is invalid, or the id names another event.
            StoreError: The store failed. The event may be published: repeat the call
                with an `id`.
        """
        from continuations.engine import request_checks
        from continuations.ledger.published_events import EventPublisher

        publisher = EventPublisher(
            objects=self._objects,
            clock=self._ports.clock,
            new_ulid=self._ports.ids.new_ulid,
        )
        return await publisher.publish(
            request_checks.event_name(name),
            request_checks.event_key(key),
            request_checks.json_text(data),
            by=request_checks.checked_person("by", by),
            own_id=request_checks.own_id(id),
            door=door,
        )
