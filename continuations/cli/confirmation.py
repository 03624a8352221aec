"""Ask a person at a terminal before a command does what cannot be undone."""

from __future__ import annotations

import typer

from continuations.cli import FAILED, INTERRUPTED
from continuations.cli.output import write_note
from continuations.core.visible_text import escape_invisible


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
