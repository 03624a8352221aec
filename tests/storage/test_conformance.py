"""Every store of ours keeps the contract."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from continuations_storage import FileStore, MemoryStore
from continuations_storage.conformance import SharedStoreContract, StoreContract
from continuations_storage.faults import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations_storage import Store


class TestMemoryStore(StoreContract):
    def make(self) -> Store:
        return MemoryStore()


class TestFileStore(SharedStoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def opener(self) -> Callable[[], Store]:
        return partial(FileStore, Path(tempfile.mkdtemp(dir=self.folder)) / "root")


class TestFaultyStoreWithoutFaults(StoreContract):
    """The wrapper itself changes nothing that it was not told to change."""

    def make(self) -> Store:
        return FaultyStore(MemoryStore())
