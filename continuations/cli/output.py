"""Write results to standard output and notes to standard error."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import typer

from continuations.cli import FAILED, INTERRUPTED
from continuations.cli.places import line_with_places
from continuations.present.escaping import escape_invisible

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


def confirm(question: str, refused: str) -> None:
    """Ask on standard error; end the command if the answer is not yes.

    Ctrl-C and the end of the input are no answer.

    Args:
        question: The question.
        refused: The note that follows another answer than yes.
    """
    code = FAILED
    try:
        if typer.confirm(escape_invisible(question), err=True):
            return
    except typer.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            code = INTERRUPTED
        write_note("")  # the cursor stands behind the question
    write_note(refused)
    raise typer.Exit(code)
