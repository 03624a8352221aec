"""A run environment for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import effect_log
from tests.run_environment import RunEnvironment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> RunEnvironment:
    """Return an empty environment, whose logs this process writes to as well."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    is_marked = request.node.get_closest_marker("fresh_interpreters") is not None
    return RunEnvironment(tmp_path, fresh_interpreters=is_marked)
