"""Make text of models, tools and people safe to show; see `core.visible_text`."""

from __future__ import annotations

from continuations.core.visible_text import escape_invisible

__all__ = ["escape_invisible", "indent_escaped"]


def indent_escaped(text: str, indent: str = "  ") -> str:
    """Return a text with each line indented and its invisible characters escaped.

    The indentation separates the text from the lines around it, which it could imitate.
    """
    return "\n".join(indent + escape_invisible(line) for line in text.split("\n"))
