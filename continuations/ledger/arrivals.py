"""What comes to a run from outside: decisions, messages, the wish to cancel."""

from __future__ import annotations

from asyncio import gather
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.ledger.objects import NotFound
from continuations.wire.records import (
    decode_cancel_request,
    decode_decision,
    decode_inbox_message,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.decisions import Decision
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.ledger.objects import Objects
    from continuations.wire.records import CancelRequest, InboxMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What a run has not yet taken in; decisions are by the id of their wait."""

    decisions: Mapping[str, Decision] = field(default_factory=dict[str, "Decision"])
    inbox_messages: tuple[InboxMessage, ...] = ()
    cancel_request: CancelRequest | None = None

    @property
    def marker_keys(self) -> tuple[str, ...]:
        """The keys of the markers that were made for them."""
        made = [decision.marker for decision in self.decisions.values()]
        made += [letter.marker for letter in self.inbox_messages]
        if self.cancel_request is not None:
            made.append(self.cancel_request.marker)
        return tuple(key for key in made if key is not None)


async def read_arrivals(
    objects: Objects, state: RunState, keys: tuple[str, ...] | None = None
) -> Arrivals:
    """Return what came since a version: one listing, or none where it is known.

    Then a read for each.
    """
    run = state.run
    if keys is None:
        prefix = layout.arrivals_prefix(run.id)
        keys = tuple([key async for key in objects.all_keys(prefix)])
    names = [layout.decided_wait_id(key, run.id) for key in keys]
    decided = [state.waits[name] for name in names if name and name in state.waits]
    numbers = sorted(
        number
        for key in keys
        if (number := layout.inbox_message_number(key)) is not None
        and number > run.last_inbox_number
    )
    cancelled = layout.cancel_request_key(run.id) in keys
    decisions, letters, cancellation = await gather(
        gather(*(_read_matching_decision(objects, wait) for wait in decided)),
        gather(*(_read_listed_message(objects, run.id, number) for number in numbers)),
        read_cancel_request(objects, run.id) if cancelled else _no_cancel_request(),
    )
    return Arrivals(
        decisions={decision.wait_id: decision for decision in decisions},
        inbox_messages=tuple(letters),
        cancel_request=cancellation,
    )


async def list_decided_wait_ids(objects: Objects, run_id: str) -> list[str]:
    """Return the ids of all waits of a run that were ever decided."""
    prefix = layout.arrivals_prefix(run_id)
    names = [layout.decided_wait_id(k, run_id) async for k in objects.all_keys(prefix)]
    return [name for name in names if name is not None]


async def read_decision(objects: Objects, wait_id: str) -> Decision | None:
    """Return the decision of a wait, or `None`; raises `Corrupt`."""
    name = layout.parse_wait_id(wait_id)
    key = layout.decision_key(wait_id)
    try:
        decision = decode_decision(await objects.read(key), key, name.run_id)
    except NotFound:
        return None
    if decision.wait_id != wait_id:
        msg = f"{key} holds the decision of another wait. It was left untouched."
        raise Corrupt(msg, wait_id=wait_id)
    return decision


async def read_cancel_request(objects: Objects, run_id: str) -> CancelRequest | None:
    """Return the wish to end a run, or `None`."""
    key = layout.cancel_request_key(run_id)
    try:
        return decode_cancel_request(await objects.read(key), key, run_id)
    except NotFound:
        return None


async def _read_matching_decision(objects: Objects, wait: Wait) -> Decision:
    decision = await read_decision(objects, wait.id)
    if decision is None or decision.digest != wait.digest:
        msg = (
            f"The decision of {wait.id} was made for another call than this. Nothing "
            "ran. Compare its digest with the wait's, and cancel the run if in doubt."
        )
        raise Corrupt(msg, run_id=wait.run_id, wait_id=wait.id)
    return decision


async def _read_listed_message(
    objects: Objects, run_id: str, number: int
) -> InboxMessage:
    try:
        return await read_inbox_message(objects, run_id, number)
    except NotFound:
        key = layout.inbox_message_key(run_id, number)
        msg = f"{key} was listed, and is gone. Restore it; nothing was changed."
        raise Corrupt(msg, run_id=run_id) from None


async def read_inbox_message(
    objects: Objects, run_id: str, number: int
) -> InboxMessage:
    """Return a message of the inbox; raises `NotFound` or `Corrupt`."""
    key = layout.inbox_message_key(run_id, number)
    letter = decode_inbox_message(await objects.read(key), key, run_id)
    if letter.number != number:
        msg = f"{key} holds message {letter.number}. It was left untouched."
        raise Corrupt(msg, run_id=run_id)
    return letter


async def _no_cancel_request() -> None:
    return None
