"""Print the inbox on a terminal: colors, and lines folded at its width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from continuations.cli.terminal import folding_console
from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from continuations.serve.pages.inbox_view import InboxRow

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
