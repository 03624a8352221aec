"""Print lines with colors, in rich.

No line is cut. `print_folded` folds lines at the width of a terminal; elsewhere a
narrow terminal wraps them by itself.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def print_part(line: Line) -> None:
    """Print the beginning of a line, or more of it, at once."""
    _console().print(Text(line.prefix + line.text, _STYLES.get(line.style, "")), end="")
    sys.stdout.flush()


def _console() -> Console:
    return Console(width=_UNLIMITED_WIDTH, markup=False, highlight=False, emoji=False)


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines; with colors only if standard output is a terminal."""
    console = _console()
    for line in lines:
        prefix = _branches(console, line.prefix)
        # A Text, because rich would interpret markup in a str that a model wrote.
        text = Text.assemble((prefix, "dim"), (line.text, _STYLES.get(line.style, "")))
        console.print(text)


def print_folded(lines: Iterable[Line]) -> None:
    """Print lines; on a terminal, folded between words at its width.

    The second line of a text is indented, so that it cannot pass for another line. Text
    to copy, as an id or a command, is never folded: the terminal breaks it by itself.
    """
    if not sys.stdout.isatty():
        print_lines(lines)
        return
    console = folding_console()
    for line in lines:
        _print_folded(console, line)


def folding_console() -> Console:
    """Return a console with the width of the terminal, also of a dumb one."""
    console = Console(markup=False, highlight=False, emoji=False)
    # rich takes 80 columns for TERM=dumb.
    console.width = max(shutil.get_terminal_size().columns, _MIN_WIDTH)
    return console


def _print_folded(console: Console, line: Line) -> None:
    style = _STYLES.get(line.style, "")
    for text in line.text.split("\n"):
        if line.style == "copy":
            copied = Text.assemble((_branches(console, line.prefix), "dim"))
            console.print(copied.append(text, style), soft_wrap=True)
            continue
        words = text.lstrip(" ")
        lead = line.prefix + " " * (len(text) - len(words))
        below = _below(lead)
        if len(lead) > console.width // 2:
            console.print(Text(_branches(console, lead.rstrip()), "dim"))
            lead = below = _FAR_INDENT
        width = console.width - len(below)
        for row in Text(words, style).wrap(console, width) or [Text()]:
            row.rstrip()
            start = Text(_branches(console, lead), "dim")
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
    console = folding_console()
    console.print(_text(title, "bold"))
    for row in rows:
        console.print()
        tone = _TONES.get(row.kind.tone, "cyan")
        console.print(Text(row.kind.word, tone))
        _print_indented(console, _text(row.title, "bold"))
        due = Text(row.due, "bold red" if row.is_soon else "")
        if row.then:
            due.append(f", {escape_invisible(row.then)}", "dim")
        _print_indented(console, due)
        for fact in row.facts:
            _print_indented(console, _text(fact, "dim"))
        # The terminal breaks an id by itself, so that it can be copied whole.
        console.print(_text(f"{_INDENT}{row.wait_id}", "cyan"), soft_wrap=True)
    if others:
        console.print()
        for line in others:
            console.print(_text(line, "dim"))


def _print_indented(console: Console, text: Text) -> None:
    for line in text.wrap(console, console.width - len(_INDENT)):
        line.rstrip()
        console.print(Text(_INDENT).append_text(line))


def _text(text: str, style: str) -> Text:
    return Text(escape_invisible(text), style)
