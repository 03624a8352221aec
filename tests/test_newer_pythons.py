"""The interpreters that `make test-newer` finds, and what it does without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import newer_pythons

NEXT = sys.version_info.minor + 1
SCRIPT = "#!/bin/sh\necho {version}\n"


@pytest.fixture(autouse=True)
def machine_without_pythons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    for name in ("NEWER_PYTHONS", "REQUIRE_NEWER_PYTHON", "NEWEST_PYTHON_ONLY"):
        monkeypatch.delenv(name, raising=False)


def install(path: Path, version: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.format(version=version))
    path.chmod(0o755)
    return str(path)


def install_with_pyenv(folder: Path, version: str) -> str:
    path = folder / "pyenv" / "versions" / version / "bin" / "python3"
    return install(path, ".".join(version.split(".")[:2]))


@pytest.mark.parametrize(("older", "newer"), [("9", "10"), ("0rc2", "0")])
def test_newest_patch_release_is_used(tmp_path: Path, older: str, newer: str) -> None:
    """3.14.10 is newer than 3.14.9, and 3.14.0 is newer than its candidates."""
    install_with_pyenv(tmp_path, f"3.{NEXT}.{older}")
    newest = install_with_pyenv(tmp_path, f"3.{NEXT}.{newer}")

    assert {f"3.{NEXT}": newest} == newer_pythons.interpreters()


def test_minor_releases_are_ordered_by_number(tmp_path: Path) -> None:
    """The last minor release that is looked for is included."""
    last = newer_pythons.LAST_MINOR
    for minor in (last, NEXT, 2):
        install_with_pyenv(tmp_path, f"3.{minor}.0")

    assert [f"3.{NEXT}", f"3.{last}"] == list(newer_pythons.interpreters())


def test_newest_version_alone_is_used_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NEWEST_PYTHON_ONLY", "1")
    for minor in (NEXT, NEXT + 1):
        install_with_pyenv(tmp_path, f"3.{minor}.0")

    assert [f"3.{NEXT + 1}"] == list(newer_pythons.interpreters())


def test_interpreter_that_cannot_run_is_skipped_with_a_message(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = tmp_path / "missing"
    folder = tmp_path / "folder"
    folder.mkdir()
    shim = install(tmp_path / "shim", "not selected")
    good = install(tmp_path / "good", f"3.{NEXT}")
    asked = os.pathsep.join(map(str, (missing, folder, shim, good)))
    monkeypatch.setenv("NEWER_PYTHONS", asked)

    assert {f"3.{NEXT}": good} == newer_pythons.interpreters()
    messages = capsys.readouterr().err
    for path in (missing, folder, shim):
        assert f"skipped {path}: " in messages


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 0),
        ({"NEWER_PYTHONS": "/no/python"}, 1),
        ({"REQUIRE_NEWER_PYTHON": "1"}, 1),
    ],
)
def test_machine_without_a_newer_python_is_told_loudly(
    environment: dict[str, str], expected: int
) -> None:
    """A run that tested nothing never looks like a run that passed."""
    done = subprocess.run(
        [sys.executable, newer_pythons.__file__, "--version"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (expected, "") == (done.returncode, done.stdout)
    assert "WARNING: no test ran on a newer Python" in done.stderr
