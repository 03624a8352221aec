"""A folder with a store for each test of the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effect_log
from tests.cli.command_line import CommandLine, unload_test_modules


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    """Return the command line in an empty folder; the environment names a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("CONTINUATIONS_STORE", "file:runs")
    monkeypatch.setenv("CONTINUATIONS_BY", "kim")
    monkeypatch.delenv("CONTINUATIONS_APP", raising=False)
    monkeypatch.setenv("COLUMNS", "40")  # no output may depend on a wide terminal
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    command_line = CommandLine(tmp_path, capsys)
    yield command_line
    command_line.end_processes()
    unload_test_modules()
