"""Make text of models, tools and people safe to show.

A call must not forge the text that shows it. Control characters move the cursor,
bidirectional characters reorder a line, and zero-width characters hide a difference.
All of them are shown as JSON escapes, so JSON text keeps its value.
"""

from __future__ import annotations

import unicodedata

_SHORT_ESCAPES = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}

# Zero-width characters of visible categories: Unicode's Default_Ignorable_Code_Point,
# and the empty braille pattern.
_ZERO_WIDTH = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | {*range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
)
_TAGS = range(0xE0000, 0xE1000)


def escape_invisible(text: str) -> str:
    r"""Return a text on one line, with invisible characters as `\n` or `\u202e`.

    JSON text keeps its value.

    Args:
        text: The text.

    Returns:
        The text with escapes.
    """
    if text.isascii() and text.isprintable():
        return text
    # A long text has few different characters.
    return text.translate({ord(char): _escape_char(char) for char in {*text}})


def escape_beginning(text: str, max_chars: int) -> str:
    r"""Return the beginning of a text, escaped, in at most so many characters.

    No escape is cut: `\u20` would not be the text of any character.
    """
    escaped = escape_invisible(text[:max_chars])
    if len(escaped) <= max_chars:
        return escaped
    escaped = ""
    for char in map(escape_invisible, text):
        if len(escaped) + len(char) > max_chars:
            break
        escaped += char
    return escaped


def _escape_char(char: str) -> str:
    if not _is_invisible(char):
        return char
    return _SHORT_ESCAPES.get(char) or "".join(
        f"\\u{unit:04x}" for unit in _utf16_units(ord(char))
    )


def shorten(text: str, max_chars: int) -> str:
    """Return a text with at most so many characters, and its length if it is cut."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}… ({len(text):,} characters)"


def _is_invisible(char: str) -> bool:
    # C*: control, format (bidirectional, zero-width), surrogate, private, unassigned.
    # Z*: line separators, and every space except U+0020.
    kind = unicodedata.category(char)[0]
    if kind == "C" or (kind == "Z" and char != " "):
        return True
    return ord(char) in _ZERO_WIDTH or ord(char) in _TAGS


def _utf16_units(code_point: int) -> tuple[int, ...]:
    # JSON escapes a character above U+FFFF as two surrogates.
    if code_point < 0x10000:  # noqa: PLR2004 - the basic plane
        return (code_point,)
    high, low = divmod(code_point - 0x10000, 0x400)
    return (0xD800 + high, 0xDC00 + low)


def indent_escaped(text: str, indent: str = "  ") -> str:
    """Return a text with each line indented and its invisible characters escaped.

    The indentation separates the text from the lines around it, which it could imitate.
    """
    return "\n".join(indent + escape_invisible(line) for line in text.split("\n"))
