"""Ask a person at a terminal before a command does what cannot be undone."""

from __future__ import annotations

import typer

from continuations.cli import FAILED
from continuations.cli.output import write_note
from continuations.present.escaping import escape_invisible


def confirm(question: str, refused: str) -> None:
    """Ask on standard error; end the command if the answer is not yes.

    Args:
        question: The question.
        refused: The note that follows another answer than yes.
    """
    if not typer.confirm(escape_invisible(question), err=True):
        write_note(refused)
        raise typer.Exit(FAILED)
