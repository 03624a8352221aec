"""Reading a docstring: what a tool is, and what each of its parameters is."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """What a docstring tells the model."""

    description: str
    parameter_descriptions: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring in the style of Google, NumPy or reStructuredText.

    One that describes no parameter is the description as a whole. Of any other, the
    summary, the text below it and what is returned are the description.
    """
    cleaned = inspect.cleandoc(text or "").strip()
    if "\n" not in cleaned:
        return Docstring(description=cleaned, parameter_descriptions={})
    import docstring_parser  # noqa: PLC0415 - a cold resume waits for it

    try:
        found = docstring_parser.parse(cleaned)
    except docstring_parser.ParseError:
        return Docstring(description=cleaned, parameter_descriptions={})
    parameters = {
        each.arg_name.lstrip("*"): each.description.strip()
        for each in found.params
        if each.description
    }
    if not found.params:
        return Docstring(description=cleaned, parameter_descriptions={})
    parts = [found.description]
    if found.returns and found.returns.description:
        parts.append(f"Returns: {found.returns.description}")
    description = "\n\n".join(part.strip() for part in parts if part)
    return Docstring(description=description, parameter_descriptions=parameters)
