"""All cases, in the order in which a reader meets them.

A file of `cases/` has areas (`= title`), code that several cases share (`@name`), and
cases: `- id | error | word | word`. The error is a class or the kind of what is shown;
the message must have the words. Below are up to three pieces of code:

- `given` runs before; it may begin with a `@name`.
- `fails` makes the error.
- `works` is the next step that the message names; it succeeds.
"""

from __future__ import annotations

import builtins
import re
import textwrap
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

from tests.errors import names
from tests.errors.case import Area, Case

FILES = (
    "declaring",
    "running",
    "deciding",
    "runs",
    "interop",
    "stores",
    "commands",
    "serving",
    "messages",
)
# Behind the error: the text is a list or a report, or ends with a command or with a
# text of the application. No full stop ends it, and it may be long.
LIST = " (list)"
_KNOWN_NAMES = SimpleNamespace(**{**vars(builtins), **names.exported()})


_ENTRY = re.compile(r"^(- |@)(.+)\n((?:(?!- |@).*\n)*)", re.MULTILINE)
_CODE = re.compile(r"^(\w+):(.*)\n((?:(?!\w+:).*\n)*)", re.MULTILINE)


def read_areas(text: str) -> Iterator[Area]:
    """Go through the areas of a file."""
    shared: dict[str, str] = {}
    for part in re.split(r"^= ", text, flags=re.MULTILINE)[1:]:
        title, _, entries = part.partition("\n")
        cases: list[Case] = []
        for mark, head, body in _ENTRY.findall(entries):
            if mark == "@":
                shared[f"@{head}"] = _joined("", body)
            else:
                cases.append(_read_case(head, body, shared))
        yield Area(title, tuple(cases))


def _read_case(head: str, body: str, shared: Mapping[str, str]) -> Case:
    case_id, error, *words = head.split(" | ")
    kind = error.removesuffix(LIST)
    code = {
        key: _joined(shared.get(first.strip(), first), rest)
        for key, first, rest in _CODE.findall(body)
    }
    return Case(
        case_id,
        kind if " " in kind else attrgetter(kind)(_KNOWN_NAMES),
        code["fails"],
        code["works"],
        code.get("given", ""),
        tuple(words),
        is_list=kind != error,
    )


def _joined(first: str, rest: str) -> str:
    return f"{first.strip()}\n{textwrap.dedent(rest)}".strip()


_FOLDER = Path(__file__).with_name("cases")
AREAS = tuple(
    area for name in FILES for area in read_areas((_FOLDER / f"{name}.txt").read_text())
)
CASES = tuple(case for area in AREAS for case in area.cases)
