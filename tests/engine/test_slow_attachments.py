"""Attachments in a slow store: nothing is named, or sent, before it may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations.attachments import Image
from continuations.core.messages import Message
from continuations.core.model_protocol import ModelRequest
from continuations.core.rows.attachments import digest_of
from continuations.engine.journal.file_storing import MemoryFiles, with_files
from continuations.errors import StoreError, StoreUnavailable
from continuations.ledger.objects import Objects
from continuations.ledger.repair.run_files import RunFiles
from continuations_storage.errors import Unavailable
from tests.stores import OneByOneStore

PHOTO = Image(b"PNG", "image/png")


class SlowStore(OneByOneStore):
    """A store whose first create fails when `may_fail` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.creates = 0
        self.may_fail = asyncio.Event()

    async def create(self, key: str, body: bytes) -> Any:
        """Fail the first create; each later one lets it fail."""
        self.creates += 1
        if self.creates == 1:
            await self.may_fail.wait()
            raise Unavailable(key, "out of service")
        self.may_fail.set()
        return await super().create(key, body)


async def test_call_does_not_rely_on_the_create_of_another_call() -> None:
    """The create of the other call may fail; both return the same attachment."""
    store = SlowStore()
    files = RunFiles(Objects(store), "r1", "nonce")
    first, second = await asyncio.gather(
        files.add([PHOTO]), files.add([PHOTO]), return_exceptions=True
    )
    assert isinstance(first, StoreError)
    assert second is None
    assert 1 == len(await store.keys("runs/r1/x/", "", 9))


async def test_failed_attachment_is_created_by_a_repeat() -> None:
    """It counts for the limit, but not as stored."""
    store = SlowStore()
    store.may_fail.set()
    files = RunFiles(Objects(store), "r1", "nonce")
    with pytest.raises(StoreUnavailable):
        await files.add([PHOTO])
    await files.add([PHOTO])
    assert 1 == len(await store.keys("runs/r1/x/", "", 9))


async def test_request_waits_for_the_claim_after_the_attachments_were_read() -> None:
    """The process may have been frozen while it read them."""
    files = MemoryFiles({PHOTO.digest: PHOTO.data})
    message = {"role": "user", "content": [PHOTO.attachment.part]}
    request = ModelRequest(messages=(Message.from_mapping(message),))
    answers = [True, False, False]
    asked = 0

    def may_request() -> bool:
        nonlocal asked
        asked += 1
        return answers.pop()

    filled = await with_files(request, files, may_request)

    assert 3 == asked
    assert {digest_of(PHOTO.data): PHOTO.data} == dict(filled.files)
