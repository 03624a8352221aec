"""Logs of a run: messages, signals, requests of operators, revocations of grants.

Each kind has a log of its own under `runs/{run}/in/`. The numbers of a log begin at 1
and have no gaps; the process that creates a number first has it.
"""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from continuations.core.ulid import is_ulid
from continuations.errors import Corrupt, RunNotFound
from continuations.ledger import layout, markers
from continuations.ledger.objects import AlreadyExists, NotFound, gather_all
from continuations.value_class import dataclass, replace
from continuations.wire import arrivals
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import InboxMessage, Revocation, Signal
    from continuations.wire.records import Record

A = TypeVar("A", bound="InboxMessage | OperatorRequest | Revocation | Signal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalLog(Generic[A]):
    """One kind of arrival with dense numbers.

    Attributes:
        letter: The first letter of the keys.
        noun: The name in errors.
        record: The table of the stored objects.
        last_taken: Returns the number of the last one that a run has taken in.
        marker_reason: The reason of the marker of a new one; "" if no worker must act.
        lost: The words of an error for an arrival whose run was erased meanwhile.
        id_letter: The first letter of the keys of senders' own ids; "" without any.
        id_record: The table of the objects under these keys, if there are any.
        is_valid: Whether an object can be one of this kind.
    """

    letter: str
    noun: str
    record: Record[A]
    last_taken: Callable[[RunRow], int]
    marker_reason: str = ""
    lost: str = ""
    id_letter: str = ""
    id_record: Record[arrivals.FirstNumber] = arrivals.MESSAGE_ID
    is_valid: Callable[[A], bool] = lambda _: True

    # Keys -------------------------------------------------------------------

    def prefix(self, run_id: str) -> str:
        """Return the prefix of the keys in a run."""
        return f"{layout.arrivals_prefix(run_id)}{self.letter}-"

    def key(self, run_id: str, number: int) -> str:
        """Return the key of an arrival."""
        return layout.numbered_key(self.letter, run_id, number)

    def number_in(self, key: str) -> int | None:
        """Return the number in a key, or `None` for the key of something else."""
        return layout.number_in(self.letter, key)

    def new_numbers(self, keys: Iterable[str], run: RunRow) -> list[int]:
        """Return the numbers in keys that a run has not taken in, in their order."""
        last = self.last_taken(run)
        return sorted(
            number for key in keys if (number := self.number_in(key) or 0) > last
        )

    def is_awaited_by(self, state: RunState, number: int) -> bool:
        """Return whether a run has not taken in an arrival, or keeps it for later."""
        kept = state.run.signals if self.letter == layout.SIGNAL else ()
        return number > self.last_taken(state.run) or number in {k.number for k in kept}

    # Reading ----------------------------------------------------------------

    async def numbers(self, objects: Objects, run_id: str, after: int = 0) -> list[int]:
        """List the numbers after one."""
        first = self.key(run_id, after) if after else ""
        keys = objects.all_keys(self.prefix(run_id), first)
        numbers = [self.number_in(key) async for key in keys]
        return [number for number in numbers if number is not None]

    async def read(self, objects: Objects, run_id: str, number: int) -> A:
        """Return an arrival; raises `NotFound` or `Corrupt`."""
        key = self.key(run_id, number)
        arrival = self.record.decode(await objects.read(key), key, run_id)
        if arrival.number != number or not self.is_valid(arrival):
            msg = (
                f"{key} is damaged: it contains {self.noun} {arrival.number}, with id "
                f"{arrival.id[:60]}. It was not changed. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=run_id)
        return arrival

    async def read_listed(self, objects: Objects, run_id: str, number: int) -> A:
        """Return an arrival that exists; raises `Corrupt` if it is missing."""
        try:
            return await self.read(objects, run_id, number)
        except NotFound:
            msg = (
                f"{self.key(run_id, number)} is missing, although it or a later one "
                "was listed. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=run_id) from None

    async def read_if_there(
        self, objects: Objects, run_id: str, number: int
    ) -> A | None:
        """Return an arrival, or `None`."""
        with suppress(NotFound):
            return await self.read(objects, run_id, number)
        return None

    async def read_all(
        self, objects: Objects, run_id: str, numbers: Iterable[int]
    ) -> list[A]:
        """Return arrivals that exist; raises `Corrupt` if one is missing."""
        reads = (self.read_listed(objects, run_id, number) for number in numbers)
        return await gather_all(reads)

    async def read_from(
        self, objects: Objects, run_id: str, number: int
    ) -> tuple[A, ...]:
        """Return the arrivals from a number on; without any, this costs one read."""
        found: list[A] = []
        while True:
            following = number + len(found)
            arrival = await self.read_if_there(objects, run_id, following)
            if arrival is None:
                return tuple(found)
            found.append(arrival)

    # Posting ----------------------------------------------------------------

    async def next_number(self, objects: Objects, run_id: str, taken: int) -> int:
        """Return the first free number; `taken` exists for certain, or is 0."""
        if objects.lists_whole_folders:
            following = self.key(run_id, taken + 1)
            if not await objects.exists(following):
                return taken + 1
        numbers = await self.numbers(objects, run_id, taken)
        return max(numbers, default=taken) + 1

    async def append(
        self,
        objects: Objects,
        run_id: str,
        arrival: A,
        number: int,
        *,
        nonce: str = "",
        is_repeat: Callable[[A, A], bool] = lambda first, other: first.id == other.id,
        behind: Callable[[A, A], A] = lambda arrival, _: arrival,
    ) -> A:
        """Create an arrival under the first free number from one on; return it.

        A crash leaves the arrival posted, with a marker that is due, or not posted.

        Args:
            objects: The store.
            run_id: Id of the run.
            arrival: The arrival; its number and marker are not known yet.
            number: The lowest number that it can have.
            nonce: Random text for the marker.
            is_repeat: Whether the arrival under a number that was taken is this one,
                posted before. It is returned instead.
            behind: Returns the arrival as it is after another one, which came first.

        Raises:
            RunNotFound: The run was erased meanwhile.
            Corrupt, FormatError: Another arrival cannot be read.
            StoreError: The arrival may or may not be posted.
        """
        while True:
            posted, marker_key = await self._with_marker(
                objects, run_id, replace(arrival, number=number), nonce
            )
            try:
                await objects.create(
                    self.key(run_id, number), self.record.encode(posted, run_id)
                )
            except AlreadyExists:
                first = await self._read_first(objects, run_id, number, marker_key)
                if is_repeat(first, arrival):
                    return first
                arrival = behind(arrival, first)
                number += 1
            else:
                return posted

    async def _with_marker(
        self, objects: Objects, run_id: str, arrival: A, nonce: str
    ) -> tuple[A, str]:
        """Create the marker of an arrival; return the arrival with it, and its key.

        The time of the arrival is that of the store, if the marker's create tells it.
        """
        if not self.marker_reason:
            return arrival, ""
        marker = markers.for_arrival(run_id, self.marker_reason, arrival.number, nonce)
        at = await markers.create(objects, marker) or arrival.at
        changes: dict[str, Any] = {"marker": marker.key, "at": whole_milliseconds(at)}
        return replace(arrival, **changes), marker.key

    async def _read_first(
        self, objects: Objects, run_id: str, number: int, marker_key: str
    ) -> A:
        """Return the arrival that has a number; delete the marker of another one."""
        first: A | None = None
        try:
            first = await self.read(objects, run_id, number)
            return first  # noqa: TRY300 - `finally` needs it, too
        except NotFound:
            msg = f"{self.lost.format(run_id)}: the run was erased meanwhile."
            raise RunNotFound(msg, run_id=run_id) from None
        finally:
            if marker_key and getattr(first, "marker", None) != marker_key:
                await objects.delete(marker_key)

    # Senders' own ids -------------------------------------------------------

    def id_key(self, run_id: str, own_id: str) -> str:
        """Return the key that keeps the lowest number of an arrival with an own id."""
        return layout.own_id_key(self.id_letter, run_id, own_id)

    async def lowest_number(
        self, objects: Objects, run_id: str, own_id: str
    ) -> int | None:
        """Return the lowest number that an arrival with an own id can have, if kept."""
        key = self.id_key(run_id, own_id)
        try:
            return self.id_record.decode(await objects.read(key), key, run_id).number
        except NotFound:
            return None

    async def find(self, objects: Objects, run_id: str, own_id: str) -> A | None:
        """Return the arrival with an id that its sender chose, or `None`."""
        number = await self.lowest_number(objects, run_id, own_id)
        if not number:
            return None
        while (found := await self.read_if_there(objects, run_id, number)) is not None:
            if found.id == own_id:
                return found
            number += 1
        return None

    async def keep_lowest(
        self,
        objects: Objects,
        run_id: str,
        own_id: str,
        number: int,
        *,
        taken: int = 0,
    ) -> int:
        """Keep the lowest number that an arrival can have; return the first one kept.

        Every repeat begins there, so all of them meet the arrival that was posted.
        `taken` is a number that exists for certain, or 0.
        """
        key = self.id_key(run_id, own_id)
        try:
            await objects.create(
                key, self.id_record.encode(arrivals.FirstNumber(number), run_id)
            )
        except AlreadyExists:
            first = await self.lowest_number(objects, run_id, own_id) or 0
            # Others may have posted since the number was found.
            free = await self.next_number(objects, run_id, taken)
            if not 0 < first <= free:
                msg = (
                    f"{key} is damaged: it says that its {self.noun} has at least "
                    f"number {first}, and run {run_id} has {free - 1} of them. "
                    "Nothing was sent. Restore it from a backup."
                )
                raise Corrupt(msg, run_id=run_id) from None
            return first
        return number


MESSAGES: ArrivalLog[InboxMessage] = ArrivalLog(
    letter=layout.MESSAGE,
    noun="message",
    record=arrivals.MESSAGE,
    last_taken=attrgetter("last_inbox_number"),
    marker_reason="m",
    lost="The message to run {} was not sent",
    id_letter="i",
    id_record=arrivals.MESSAGE_ID,
)
SIGNALS: ArrivalLog[Signal] = ArrivalLog(
    letter=layout.SIGNAL,
    noun="signal",
    record=arrivals.SIGNAL,
    last_taken=attrgetter("last_signal_number"),
    marker_reason="s",
    lost="The signal to run {} was not sent",
    id_letter="h",
    id_record=arrivals.SIGNAL_ID,
)
REQUESTS: ArrivalLog[OperatorRequest] = ArrivalLog(
    letter=layout.OPERATOR_REQUEST,
    noun="request",
    record=arrivals.OPERATOR_REQUEST,
    last_taken=attrgetter("last_operator_number"),
    marker_reason="o",
    lost="Nothing was asked of run {}",
    is_valid=lambda request: is_ulid(request.id),
)
REVOCATIONS: ArrivalLog[Revocation] = ArrivalLog(
    letter=layout.REVOCATION,
    noun="revocation",
    record=arrivals.REVOCATION,
    last_taken=attrgetter("last_revocation_number"),
    lost="No grant of run {} was revoked",
)
LOGS: tuple[ArrivalLog[Any], ...] = (MESSAGES, SIGNALS, REQUESTS, REVOCATIONS)
