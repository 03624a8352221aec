"""Print every error as a table: `python -m tests.errors [words of ids or areas]`."""

from __future__ import annotations

import logging
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.errors.case import NothingRaised, dedent, observe
from tests.errors.catalogue import AREAS
from tests.errors.scene import Scene

_WIDTH = 100


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
            with tempfile.TemporaryDirectory() as folder:
                try:
                    seen = observe(case, Scene(Path(folder)))
                except (NothingRaised, Exception) as error:  # noqa: BLE001 - goes into the table
                    out.write(f"\n{case.id}\n    BROKEN: {error!r}\n")
                    continue
            out.write(f"\n{case.id}\n")
            out.write(textwrap.indent(dedent(case.code), "    >>> ") + "\n")
            text = f"{seen.name}: {seen.text}".replace(folder, "/folder")
            for line in text.splitlines():
                out.write(
                    textwrap.fill(
                        line,
                        _WIDTH,
                        initial_indent="    ",
                        subsequent_indent="        ",
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
                    + "\n"
                )


if __name__ == "__main__":
    main(sys.argv[1:])
