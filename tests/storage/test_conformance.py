"""Every store of this package passes the conformance suite."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from continuations_storage import (
    AlreadyExists,
    FileStore,
    MemoryStore,
    SQLiteStore,
    Store,
)
from continuations_storage.conformance import SharedStoreContract, StoreContract
from continuations_storage.faults import FaultyStore


class TestMemoryStore(StoreContract):
    def make(self) -> Store:
        return MemoryStore()


class TestFileStore(SharedStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def opener(self) -> Callable[[], Store]:
        return partial(FileStore, Path(tempfile.mkdtemp(dir=self.folder)) / "root")


@pytest.mark.usefixtures("only_named_files")
class TestFileStoreWithNamedFiles(TestFileStore):
    """As on NFS, FUSE and macOS."""

    @pytest.fixture
    def only_named_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


class TestSQLiteStore(SharedStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def opener(self) -> Callable[[], Store]:
        return partial(SQLiteStore, Path(tempfile.mkdtemp(dir=self.folder)) / "runs.db")


class TestFaultyStoreWithoutFaults(StoreContract):
    """A wrapper without a plan changes nothing."""

    def make(self) -> Store:
        return FaultyStore(MemoryStore())


class CheckThenAct(MemoryStore):
    """Looks first and writes later, like some emulators of S3."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        if await self.keys(key, limit=1) == [key]:
            raise AlreadyExists(key)
        await asyncio.sleep(0)
        await self.delete(key)
        return await super().create(key, body)


class CheckThenActContract(StoreContract):
    def make(self) -> Store:
        return CheckThenAct()


def test_suite_detects_a_store_that_checks_and_then_acts() -> None:
    suite = CheckThenActContract()

    # Without a race, the store looks correct.
    suite.test_second_create_of_a_key_raises_already_exists()
    with pytest.raises(AssertionError):
        suite.test_exactly_one_of_racing_tasks_creates_a_key()
