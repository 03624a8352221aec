"""Print trees with colors; the only module that imports rich.

No line is cut or folded by this module: a narrow terminal wraps it by itself.
"""

from __future__ import annotations

import sys
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
    "thought": "dim",
}
# rich folds lines at the width of the console, so the console gets a huge one.
_UNLIMITED_WIDTH = 1_000_000_000
_ASCII_BRANCHES = str.maketrans("├└│─", "|`|-")


def print_part(line: Line) -> None:
    """Print the beginning of a line, or more of it, at once."""
    _console().print(Text(line.prefix + line.text, _STYLES.get(line.style, "")), end="")
    sys.stdout.flush()


def _console() -> Console:
    return Console(width=_UNLIMITED_WIDTH, markup=False, highlight=False, emoji=False)


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines; with colors only if standard output is a terminal."""
    console = _console()
    ascii_only = not console.encoding.startswith("utf")
    for line in lines:
        prefix = line.prefix.translate(_ASCII_BRANCHES) if ascii_only else line.prefix
        # A Text, because rich would interpret markup in a str that a model wrote.
        text = Text.assemble((prefix, "dim"), (line.text, _STYLES.get(line.style, "")))
        console.print(text)
