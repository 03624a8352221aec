"""Print the errors as a table: `python -m tests.errors [words of ids or areas]`."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.errors.case import Case, observe
from tests.errors.catalogue import AREAS
from tests.errors.scene import Scene

_WIDTH = 100
_CODE = "    >>> "


def main(words: list[str]) -> None:
    """Print the cases whose id or area contains one of the words, or all of them."""
    logging.disable(logging.CRITICAL)
    out = sys.stdout
    for area in AREAS:
        shown = [
            case
            for case in area.cases
            if not words or any(word in f"{case.id} {area.title}" for word in words)
        ]
        if shown:
            out.write(f"\n{area.title}\n{'=' * len(area.title)}\n")
        for case in shown:
            out.write(f"\n{case.id}\n{textwrap.indent(case.code, _CODE)}\n")
            for line in _result(case).splitlines():
                out.write(f"{_wrapped(line)}\n")


def _result(case: Case) -> str:
    with tempfile.TemporaryDirectory() as folder, Scene(Path(folder)) as scene:
        try:
            seen = observe(case, scene)
        except Exception as error:  # noqa: BLE001 - goes into the table
            return f"BROKEN: {error!r}"
        return f"{seen.name}: {seen.text}".replace(folder, "/folder")


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line,
        _WIDTH,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, for example `head`, has ended. At exit Python would flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
