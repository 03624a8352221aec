"""Attachments while a run works: results of tools, and requests to models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from continuations.core.attachment_parts import MAX_RUN_BYTES, Attachment
from continuations.core.changes.events import CallRaised, CallReturned
from continuations.core.rows.attachments import (
    attachments_of,
    attachments_of_run,
    check_total,
    content_of,
)
from continuations.engine.journal.journal import StoreJournal, retry_while_claimed
from continuations.errors import AttachmentsTooLarge, Corrupt, InvalidInput
from continuations.ledger.repair.run_files import RunFiles
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from continuations.core.model_protocol import ModelRequest
    from continuations.core.rows.attachments import Content, ResultWithFiles
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Ports
    from continuations.ledger.claims import Clock
    from continuations.ledger.objects import Objects


_CLAIM_CHECK_SECONDS = 0.05


class AttachedFiles(Protocol):
    """The attachments of one run."""

    @property
    def data(self) -> Mapping[str, bytes]:
        """The bytes that this process has, by digest."""
        ...

    async def add(self, contents: Sequence[Content]) -> None:
        """Keep attachments; raises `InvalidInput` or a `StoreError`."""
        ...

    async def read(self, attachments: Iterable[Attachment]) -> Mapping[str, bytes]:
        """Return bytes by digest; raises `Corrupt` or a `StoreError`."""
        ...


class MemoryFiles:
    """The attachments of a run without a store.

    Attributes:
        data: The bytes by digest.
    """

    def __init__(self, data: Mapping[str, bytes] | None = None) -> None:
        self.data = dict(data or {})

    async def add(self, contents: Sequence[Content]) -> None:
        """Keep attachments; raises `InvalidInput`."""
        check_total(contents, {key: len(each) for key, each in self.data.items()})
        self.data.update({each.digest: each.data for each in contents})

    async def read(self, attachments: Iterable[Attachment]) -> Mapping[str, bytes]:
        """Return bytes by digest; raises `Corrupt`."""
        wanted = {each.digest for each in attachments}
        missing = sorted(wanted - self.data.keys())
        if missing:
            raise Corrupt(
                f"The continuation lacks an attachment: {missing[0]}. No request was "
                "sent. Resume the run in the store that has it."
            )
        return {digest: self.data[digest] for digest in wanted}


def open_files(objects: Objects | None, run: RunRow) -> AttachedFiles:
    """Return the attachments of a run, in memory if it has no store."""
    if objects is None:
        return MemoryFiles()
    from continuations.ledger.repair.run_files import RunFiles  # noqa: PLC0415 - not without a store

    return RunFiles.of(objects, run)


async def with_files(
    request: ModelRequest, files: AttachedFiles, may_request: Callable[[], bool]
) -> ModelRequest:
    """Return a request with the bytes of its attachments, once it may be sent.

    The store may be slow, and the process may freeze meanwhile. Then the claim must be
    renewed before the request.
    """
    data = await files.read(attachments_of(request.messages))
    while not may_request():  # noqa: ASYNC110 - a claim's renewal has no event
        await asyncio.sleep(_CLAIM_CHECK_SECONDS)
    return replace(request, files=data)


@dataclass(frozen=True, slots=True)
class _ClaimTime:
    """The time that is left of a claim."""

    clock: Clock
    until: datetime

    @property
    def seconds_left(self) -> float:
        return (self.until - self.clock.now()).total_seconds()


async def stored_result(
    files: AttachedFiles,
    call: CallRow,
    result: ResultWithFiles,
    ports: Ports,
    claim_end: datetime | None,
) -> CallReturned | CallRaised:
    """Store the attachments of a result; return the event that refers to them.

    While the store is down, the worker tries again until its claim ends. Raises a
    `StoreError`. Then the outcome of the call is not known.
    """
    claim = None if claim_end is None else _ClaimTime(ports.clock, claim_end)
    try:
        await retry_while_claimed(
            lambda: files.add(result.contents), claim, ports, None
        )
    except InvalidInput as error:
        text = (
            f"ERROR: the tool ran, but its result cannot be stored: {error} Its "
            "effects remain."
        )
        return CallRaised(call_id=call.id, code="result", content=text)
    return CallReturned(
        call_id=call.id, content=result.text, parts_json=result.parts_json
    )


async def give_files(
    objects: Objects,
    journal: StoreJournal,
    state: RunState,
    source: RunRow,
    files: Mapping[str, bytes],
) -> None:
    """Create the attachments of a new run, before its first version.

    They come from `files`, or from the run `source` in the same store. A marker is
    created first. Raises `InvalidInput` if some are in neither of them, or if they have
    too many bytes together.
    """
    attachments = attachments_of_run(state)
    if not attachments:
        return
    missing = [each for each in attachments if each.digest not in files]
    try:
        read = await RunFiles.of(objects, source).read(missing)
    except Corrupt as error:
        msg = (
            f"run {state.run.id} was not created: an attachment of run {source.id} is "
            f"not in this store. {error} Use the store of that run."
        )
        raise InvalidInput(msg, run_id=source.id) from error
    known = {**read, **files}
    await journal.ensure_guarded()
    contents = [content_of(each, known[each.digest]) for each in attachments]
    try:
        await RunFiles.of(objects, state.run).add(contents)
    except AttachmentsTooLarge as error:
        msg = (
            f"run {state.run.id} was not created: the attachments of run {source.id} "
            f"have too many bytes together for one run. At most {MAX_RUN_BYTES} are "
            "allowed. Fork an earlier version, or pass `messages` with fewer of them."
        )
        raise AttachmentsTooLarge(msg, run_id=source.id) from error


async def take_back_files(objects: Objects, state: RunState) -> None:
    """Delete the attachments of a run whose id another process had taken before."""
    if attachments_of_run(state):
        await RunFiles.of(objects, state.run).delete()
