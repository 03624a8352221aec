"""Trees on a terminal; the only importer of rich.

Nothing is ever cut or folded: what a terminal is too narrow for, it wraps itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.cli.stack_tree import Line

_STYLES = {
    "head": "bold",
    "agent": "bold cyan",
    "wait": "yellow",
    "busy": "magenta",
    "done": "green",
    "bad": "red",
}
_UNLIMITED_WIDTH = 1_000_000_000
_ASCII_BRANCHES = str.maketrans("├└│─", "|`|-")


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines; without colours where nobody looks."""
    console = _console()
    simple = not console.encoding.startswith("utf")
    for line in lines:
        lead = line.prefix.translate(_ASCII_BRANCHES) if simple else line.prefix
        # Text and not str: markup in what a model wrote is only letters.
        text = Text.assemble((lead, "dim"), (line.text, _STYLES.get(line.style, "")))
        console.print(text)


def _console() -> Console:
    # rich folds a line at the width that it knows of; an endless one it never does.
    return Console(width=_UNLIMITED_WIDTH, markup=False, highlight=False, emoji=False)
