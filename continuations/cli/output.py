"""Write results to standard output, as text or JSON, and notes to standard error.

A command that the output names has the `--store` and `--app` of the running one.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import sys
import textwrap
from contextvars import ContextVar
from os import environ
from typing import TYPE_CHECKING

import typer

from continuations.cli import FAILED, INTERRUPTED
from continuations.core.visible_text import escape_invisible
from continuations.engine.sync import portal
from continuations.ledger.arrivals.recorded_decisions import (
    decided_wait_ids,
    read_decision,
)
from continuations.ledger.objects import Objects
from continuations_storage.url import without_password

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from continuations import Continuation
    from continuations.core.messages import Detail
    from continuations.ledger.missing_code import MissingCode
    from continuations.results import Decision
    from continuations_storage import Store

_OPTIONS = ("--store", "--app")
# The options as they were typed, by their names.
_given: ContextVar[dict[str, list[str]]] = ContextVar("given")
# A command in the text of an error.
_QUOTED = re.compile(r"`(continuations (?:audit|history|runs|show|waiting)\b[^`]*)`")
# A line with the next command, and perhaps a remark in brackets.
_NEXT = re.compile(r"((?:next|  or): (continuations [^(]*[^( ]))( \(.*)?")
_NEEDS_AGENTS = re.compile(r"continuations (?:start|resume|sweep|chat|fork|rewind)\b")


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


def keep_places(words: Sequence[str]) -> None:
    """Keep the options of a command line that say where the runs are."""
    given: dict[str, list[str]] = {}
    for index, word in enumerate(words):
        name = word.partition("=")[0]
        if name in _OPTIONS:
            own = [word] if "=" in word else words[index : index + 2]
            given[name] = [*map(_printable, own)]
    _given.set(given)


def _printable(word: str) -> str:
    name, equals, value = word.partition("=")
    if name in _OPTIONS:
        return f"{name}{equals}{without_password(value)}"
    return without_password(word)


def with_places(text: str) -> str:
    """Return a text whose commands in backquotes have the kept options."""
    return _QUOTED.sub(lambda found: f"`{found[1]}{_places(found[1])}`", text)


def line_with_places(line: str) -> str:
    """Return a line; a command that it names as the next one has the kept options."""
    found = _NEXT.fullmatch(line)
    if found is None:
        return line
    return f"{found[1]}{escape_invisible(_places(found[2]))}{found[3] or ''}"


def _places(command: str) -> str:
    given = dict(_given.get({}))
    has_store = "--store" in given or "CONTINUATIONS_STORE" in environ
    if has_store and not _NEEDS_AGENTS.match(command):
        given.pop("--app", None)
    words = [word for option in given.values() for word in option]
    return f" {shlex.join(words)}" if words else ""


def write_json(value: object) -> None:
    """Write one line of JSON in ASCII: every invisible character is a JSON escape."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True) + "\n")


def detail_of(*, transcript: bool) -> Detail:
    """Return which texts a command prints, by its option `--transcript`."""
    return "transcript" if transcript else "texts"


def recorded_decisions(store: Store, run: Continuation) -> dict[str, Decision]:
    """Return the recorded decisions of the waits of a version, by wait id."""
    return portal.run_until_complete(_read_decisions(store, run))


async def _read_decisions(store: Store, run: Continuation) -> dict[str, Decision]:
    decided = await decided_wait_ids(store, run)
    wait_ids = [wait.id for wait in run.waits if wait.id in decided]
    objects = Objects(store)
    decisions = await asyncio.gather(
        *(read_decision(objects, wait_id) for wait_id in wait_ids)
    )
    pairs = zip(wait_ids, decisions, strict=True)
    return {wait_id: decision for wait_id, decision in pairs if decision is not None}


def worker_lacked(store: Store, run: Continuation) -> MissingCode | None:
    """Return what a worker lacked that left the newest version to others."""
    from continuations.ledger import missing_code  # noqa: PLC0415 - one command needs it

    version = run.run_state.run.id, run.version
    return portal.run_until_complete(missing_code.read(Objects(store), *version))


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
