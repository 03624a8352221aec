"""The variable PYTHONPATH of processes that a test starts."""

from __future__ import annotations

import os
from pathlib import Path

_STARTUP = Path(__file__).parent / "startup"


def python_path(*folders: Path | str) -> str:
    """Return the folders of modules, and that of a quick start of Python."""
    others = dict.fromkeys(map(str, folders))
    return os.pathsep.join({str(_STARTUP): None, **others})
