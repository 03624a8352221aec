"""Bugs of attachments: named before they exist, not counted, not sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from continuations.core.changes.events import CallRaised, CallReturned
from continuations.core.rows.attachments import Content, ResultWithFiles
from continuations.core.rows.calls import CallRow
from continuations.core.rows.state import RunState
from continuations.engine.journal import file_storing
from continuations.engine.requests.run_requests import MessagePost
from continuations.errors import StoreError
from continuations.ledger.objects import Objects
from continuations.ledger.repair import run_files
from continuations.ledger.repair.run_files import RunFiles
from tests.simulation.families import ATTACHMENTS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    returns,
    skip,
)

mutant = mutants_of(ATTACHMENTS)


@mutant("no_message_lacks_its_attachment", "no_foreign_errors")
def result_is_stored_without_its_attachments() -> Patches:
    """A result is stored without its attachments."""

    async def stored_result(
        call: CallRow, result: ResultWithFiles
    ) -> CallReturned | CallRaised:
        return CallReturned(
            call_id=call.id, content=result.text, parts_json=result.parts_json
        )

    yield patch(file_storing.stored_result, stored_result)


@mutant("no_message_lacks_its_attachment", "no_foreign_errors")
def message_is_posted_before_its_attachments() -> Patches:
    """A message is posted before its attachments."""
    yield skip(MessagePost.store_attachments)


@mutant("no_message_lacks_its_attachment", "no_foreign_errors")
def failed_create_of_an_attachment_counts() -> Patches:
    """An attachment counts as stored although its create failed."""

    async def _create(original: Original) -> None:
        with suppress(StoreError):
            await original()

    yield patch(RunFiles._create, _create)


@mutant("attachments_are_kept_once_within_the_limit")
def attachments_of_others_are_not_counted() -> Patches:
    """A process counts only the attachments that it added itself."""
    yield returns(RunFiles._list_sizes, {})


@mutant("models_get_the_bytes_of_attachments")
def request_lacks_the_bytes_of_attachments() -> Patches:
    """A request to a model lacks the bytes of its attachments."""
    yield gives_back(file_storing.with_files, "request")


@mutant("nothing_starts_without_claim")
def claim_is_not_checked_after_reading_attachments() -> Patches:
    """A request is sent although the claim ended while attachments were read."""

    async def with_files(original: Original) -> Any:
        return await original(may_request=lambda: True)

    yield patch(file_storing.with_files, with_files)


@mutant("no_message_lacks_its_attachment", "no_foreign_errors")
def attachment_in_progress_counts_as_stored() -> Patches:
    """An attachment that another call is creating counts as stored."""

    async def add(
        original: Original, self: RunFiles, contents: Sequence[Content]
    ) -> None:
        sizes = self._sizes or {}
        await original(contents=[each for each in contents if each.digest not in sizes])

    yield patch(RunFiles.add, add)


@mutant("no_message_lacks_its_attachment", "no_foreign_errors")
def a_fork_lacks_the_attachments_of_its_source() -> Patches:
    """A fork is created without the attachments of its source."""
    yield skip(file_storing.give_files)


@mutant("no_message_lacks_its_attachment")
def a_repeated_fork_deletes_the_attachments() -> Patches:
    """A repeat of a fork deletes the attachments of the fork that exists."""

    async def take_back_files(objects: Objects, state: RunState) -> None:
        for key in await objects.keys(run_files.files_prefix(state.run.id)):
            await objects.delete(key)

    yield patch(file_storing.take_back_files, take_back_files)
