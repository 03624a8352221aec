"""Write results to standard output and notes to standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from continuations.present.escaping import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_lines(lines: Iterable[str]) -> None:
    """Write lines, already escaped, to standard output."""
    for line in lines:
        sys.stdout.write(f"{line}\n")


def write_note(text: str) -> None:
    """Write a note or an error to standard error, on one line."""
    typer.echo(escape_invisible(text), err=True)
