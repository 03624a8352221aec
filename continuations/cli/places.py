"""The `--store` and `--app` of the running command, for the commands that it names."""

from __future__ import annotations

import re
import shlex
from contextvars import ContextVar
from os import environ
from typing import TYPE_CHECKING

from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTIONS = ("--store", "--app")
# The options as they were typed, by their names.
_given: ContextVar[dict[str, list[str]]] = ContextVar("given")
# A command in the text of an error.
_QUOTED = re.compile(r"`(continuations (?:audit|history|runs|show|waiting)\b[^`]*)`")
# A line with the next command, and perhaps a remark in brackets.
_NEXT = re.compile(r"((?:next|  or): (continuations [^(]*[^( ]))( \(.*)?")
_NEEDS_AGENTS = re.compile(r"continuations (?:start|resume|sweep|chat|fork|rewind)\b")


def keep_places(words: Sequence[str]) -> None:
    """Keep the options of a command line that say where the runs are."""
    given: dict[str, list[str]] = {}
    for index, word in enumerate(words):
        name = word.partition("=")[0]
        if name in _OPTIONS:
            given[name] = [word] if "=" in word else [*words[index : index + 2]]
    _given.set(given)


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
