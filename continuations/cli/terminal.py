"""Print lines with colors, in rich.

No line is cut. `print_folded` folds lines at the width of a terminal; elsewhere a
narrow terminal wraps them by itself.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.text import Text

    from continuations.cli.stack_tree import Line
    from continuations.serve.pages.inbox_view import InboxRow

_STYLES = {
    "head": "bold",
    "agent": "bold cyan",
    "wait": "yellow",
    "busy": "magenta",
    "done": "green",
    "bad": "red",
    "thought": "dim",
    "copy": "cyan",
}
# rich folds lines at the width of the console, so the console gets a huge one.
_UNLIMITED_WIDTH = 1_000_000_000
# Nothing is readable in less.
_MIN_WIDTH = 20
_FAR_INDENT = "    "
# The branch characters of a line, for the lines below it.
_BELOW = str.maketrans("├└─", "│  ")
_ASCII_BRANCHES = str.maketrans("├└│─", "|`|-")


# A pipe that gets JSON or plain text needs no rich, and it takes 40 ms to load.


def _text(text: str = "", style: str = "") -> Text:
    # A Text, because rich would interpret markup in a str that a model wrote.
    from rich.text import Text  # noqa: PLC0415

    return Text(text, style)


def _console(width: int) -> Console:
    from rich.console import Console  # noqa: PLC0415

    # Without a height, rich takes 80 columns for TERM=dumb.
    height = shutil.get_terminal_size().lines
    return Console(
        width=width, height=height, markup=False, highlight=False, emoji=False
    )


def _style(line: Line) -> str:
    return _STYLES.get(line.style, "")


def print_part(line: Line) -> None:
    """Print the beginning of a line, or more of it, at once."""
    text = _text(line.prefix + line.text, _style(line))
    _console(_UNLIMITED_WIDTH).print(text, end="")
    sys.stdout.flush()


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines; with colors only if standard output is a terminal."""
    console = _console(_UNLIMITED_WIDTH)
    for line in lines:
        text = _text().append(_branches(console, line.prefix), "dim")
        console.print(text.append(line.text, _style(line)))


def print_folded(lines: Iterable[Line]) -> None:
    """Print lines; on a terminal, folded between words at its width.

    The second line of a text is indented, so that it cannot pass for another line. Text
    to copy, as an id or a command, is never folded: the terminal breaks it by itself.
    """
    if not sys.stdout.isatty():
        print_lines(lines)
        return
    console = _folding_console()
    for line in lines:
        _print_folded(console, line)


def _folding_console() -> Console:
    return _console(max(shutil.get_terminal_size().columns, _MIN_WIDTH))


def _print_folded(console: Console, line: Line) -> None:
    style = _style(line)
    for text in line.text.split("\n"):
        if line.style == "copy":
            copied = _text().append(_branches(console, line.prefix), "dim")
            console.print(copied.append(text, style), soft_wrap=True)
            continue
        words = text.lstrip(" ")
        lead = line.prefix + " " * (len(text) - len(words))
        below = _below(lead)
        if len(lead) > console.width // 2:
            console.print(_text(_branches(console, lead.rstrip()), "dim"))
            lead = below = _FAR_INDENT
        width = console.width - len(below)
        for row in _text(words, style).wrap(console, width) or [_text()]:
            row.rstrip()
            start = _text(_branches(console, lead), "dim")
            console.print(start.append_text(row), soft_wrap=True)
            lead = below


def _below(lead: str) -> str:
    """Return the beginning of the second line of a text."""
    found = "".join(sign if sign == "│" else " " for sign in lead.translate(_BELOW))
    return f"{found}  "


def _branches(console: Console, prefix: str) -> str:
    is_utf = console.encoding.startswith("utf")
    return prefix if is_utf else prefix.translate(_ASCII_BRANCHES)


_TONES = {"is-wait": "yellow", "is-odd": "bold red"}
_INDENT = "  "


def print_inbox(title: str, rows: Iterable[InboxRow], others: Sequence[str]) -> None:
    """Print the title, each wait, and the waits that need no person.

    Texts of models and people are escaped, and never read as markup. The second line of
    a text is indented, so that it cannot pass for a row. An id is never folded.
    """
    console = _folding_console()
    console.print(_escaped(title, "bold"))
    for row in rows:
        console.print()
        tone = _TONES.get(row.kind.tone, "cyan")
        console.print(_text(row.kind.word, tone))
        _print_indented(console, _escaped(row.title, "bold"))
        due = _text(row.due, "bold red" if row.is_soon else "")
        if row.then:
            due.append(f", {escape_invisible(row.then)}", "dim")
        _print_indented(console, due)
        for fact in row.facts:
            _print_indented(console, _escaped(fact, "dim"))
        # The terminal breaks an id by itself, so that it can be copied whole.
        console.print(_escaped(f"{_INDENT}{row.wait_id}", "cyan"), soft_wrap=True)
    if others:
        console.print()
        for line in others:
            console.print(_escaped(line, "dim"))


def _print_indented(console: Console, text: Text) -> None:
    for line in text.wrap(console, console.width - len(_INDENT)):
        line.rstrip()
        console.print(_text(_INDENT).append_text(line))


def _escaped(text: str, style: str) -> Text:
    return _text(escape_invisible(text), style)
