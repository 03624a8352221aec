"""The system calls of a create on files, counted and not timed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from continuations_storage import FileStore


async def test_create_looks_once_at_each_folder_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each system call, another thread may take the interpreter."""
    calls: Counter[str] = Counter()

    def count(name: str) -> None:
        function = getattr(os, name)

        def counted(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(os, name, counted)

    store = FileStore(tmp_path)
    await store.create("runs/a/v/1", b"x")
    for name in ("stat", "open", "mkdir"):
        count(name)
    await store.create("runs/a/in/d", b"x")

    # The root, "runs" and "a" are still the open ones. "in" is missing, so it is made
    # and opened; then the file.
    assert {"stat": 3, "open": 3, "mkdir": 1} == calls
