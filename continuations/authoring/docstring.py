"""Read the descriptions of a tool and of its parameters from a docstring."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The descriptions in a docstring."""

    description: str
    parameter_descriptions: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring in the style of Google, NumPy or reStructuredText.

    A docstring without parameters is the description as a whole. Otherwise the
    description consists of the summary, the text below it and the returned value.
    """
    cleaned = inspect.cleandoc(text or "").strip()
    if "\n" not in cleaned:
        return Docstring(description=cleaned, parameter_descriptions={})
    import docstring_parser  # noqa: PLC0415 - slow to import

    try:
        parsed = docstring_parser.parse(cleaned)
    except docstring_parser.ParseError:
        return Docstring(description=cleaned, parameter_descriptions={})
    parameters = {
        each.arg_name.lstrip("*"): each.description.strip()
        for each in parsed.params
        if each.description
    }
    if not parsed.params:
        return Docstring(description=cleaned, parameter_descriptions={})
    parts = [parsed.description]
    if parsed.returns and parsed.returns.description:
        parts.append(f"Returns: {parsed.returns.description}")
    description = "\n\n".join(part.strip() for part in parts if part)
    return Docstring(description=description, parameter_descriptions=parameters)
