"""A world for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine import ledgers
from tests.engine.world import World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return an empty world, whose ledgers this process writes to as well."""
    monkeypatch.setenv(ledgers.EFFECTS, str(tmp_path / "effects"))
    monkeypatch.setenv(ledgers.TURNS, str(tmp_path / "turns"))
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    return World(tmp_path)
