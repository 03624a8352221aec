"""The packages of npm that tests use: without one of them, CI would leave tests out."""

from __future__ import annotations

import os
import re
from pathlib import Path

MAKEFILE = Path(__file__).parent.parent / "Makefile"


def test_ci_has_all_packages_of_npm() -> None:
    """On another machine, tests leave out what npm's registry did not give."""
    [listed] = re.findall(
        r"^NPM_PACKAGES := (.*?[^\\])$",
        MAKEFILE.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    folders = re.findall(r"\.venv/(\w+)/package\.json", listed)
    missing = [
        each
        for each in folders
        if not (MAKEFILE.parent / ".venv" / each / "node_modules").is_dir()
    ]
    assert len(folders) > 1
    assert not (os.environ.get("CI") and missing), missing
