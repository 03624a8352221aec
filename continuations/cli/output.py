"""Write results to standard output and notes to standard error."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import typer

from continuations.cli.places import line_with_places
from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_lines(lines: Iterable[str]) -> None:
    """Write lines, already escaped, to standard output."""
    for line in lines:
        sys.stdout.write(f"{line_with_places(line)}\n")


def write_note(text: str) -> None:
    """Write a note or an error to standard error.

    It is one line for programs. On a terminal, long text is wrapped between words.
    """
    line = escape_invisible(text)
    if sys.stderr.isatty():
        line = wrap_text(line, shutil.get_terminal_size().columns)
    typer.echo(line, err=True)


def wrap_text(line: str, width: int) -> str:
    """Return a line wrapped between words; an id is never broken.

    The indentation of the second line and those after it keeps foreign text from
    imitating other lines.
    """
    return textwrap.fill(
        line,
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
