"""A log of effects for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import effect_log
from tests.run_environment import RunEnvironment


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnvironment:
    """Return an empty environment, whose logs this process writes to as well."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    return RunEnvironment(tmp_path)
