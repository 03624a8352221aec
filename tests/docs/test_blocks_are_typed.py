"""Every Python block of the README and of docs/ passes mypy and pyright, both strict.

A reader copies the blocks into projects that are checked so. All blocks are written to
one folder and checked together.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.replay import ROOT

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# (\w+)\.py\n")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYRIGHT = {
    "typeCheckingMode": "strict",
    "reportMissingTypeStubs": False,
    "extraPaths": [
        str(ROOT),
        str(ROOT / "storage"),
        str(ROOT / "docs" / "snippets"),
        str(ROOT / "typings"),
    ],
    "venvPath": str(ROOT),
    "venv": ".venv",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a module for each block."""
    folder = tmp_path_factory.mktemp("blocks")
    for page in PAGES:
        label = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        for number, block in enumerate(_BLOCK.findall(page.read_text("utf-8")), 1):
            if "--8<--" in block:  # a file of docs/snippets, which is checked itself
                continue
            named = _NAME.match(block)
            name = named[1] if named else f"{label}_{number}"
            path = folder / f"{name}.py"
            assert not path.exists(), f"two blocks are named {name}.py"
            path.write_text(block, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    return folder


def test_blocks_are_found(folder: Path) -> None:
    names = {path.stem for path in folder.glob("*.py")}

    assert {"support", "docs_how_to_approvals_1"} <= names
    assert 20 <= len(names)


def _run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_blocks_pass_mypy_strict(folder: Path) -> None:
    """The settings are those of `make check`, so its cache saves 15 seconds."""
    assert "" == _run("mypy", str(folder), MYPYPATH=str(folder))


def test_blocks_pass_pyright_strict(folder: Path) -> None:
    assert "" == _run("pyright", "--project", str(folder))
