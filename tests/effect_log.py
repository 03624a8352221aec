"""What cannot be argued with: files to which every effect and every turn adds a line.

The outcome that a call returns proves nothing about what happened; a line in a file
outside does. One `write` to a file opened with O_APPEND is never mixed with another's,
and it stands also if the process is killed right after.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

EFFECTS_VARIABLE = "TEST_EFFECTS"
TURNS_VARIABLE = "TEST_TURNS"


def append_line(variable: str, **line: Any) -> None:
    """Add a line to the ledger that an environment variable names."""
    path = os.environ[variable]
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return what a ledger says so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
