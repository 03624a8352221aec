"""Texts of models, tools and people, made safe to look at.

A card that shows a call must not be forged by the call: control characters move the
cursor, bidirectional ones reorder a line, zero-width ones hide a difference. All of
them are shown as the JSON escapes that stand for them, so JSON stays the same JSON.
"""

from __future__ import annotations

import unicodedata

_SHORT_ESCAPES = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}

# Characters of no width that are not of a category which is hidden as a whole:
# Unicode's Default_Ignorable_Code_Point, and the braille pattern without a dot.
_ZERO_WIDTH = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
    | {*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)}
)


def escape_invisible(text: str) -> str:
    r"""Return a text on one line, with what cannot be seen as `\n` or `\u202e`.

    JSON text stays JSON text of the same value.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape_char, text))


def indent_escaped(text: str, indent: str = "  ") -> str:
    """Return a text of several lines, each of them indented and visible.

    The indentation tells them from lines of ours, which they could imitate.
    """
    return "\n".join(indent + escape_invisible(line) for line in text.split("\n"))


def _escape_char(char: str) -> str:
    if not _is_invisible(char):
        return char
    return _SHORT_ESCAPES.get(char) or "".join(
        f"\\u{unit:04x}" for unit in _utf16_units(ord(char))
    )


def _is_invisible(char: str) -> bool:
    # C*: control, format (bidi and zero-width), surrogate, private, unassigned.
    # Z*: every space but the plain one, and the line separators.
    kind = unicodedata.category(char)[0]
    return kind == "C" or (kind == "Z" and char != " ") or ord(char) in _ZERO_WIDTH


def _utf16_units(code_point: int) -> tuple[int, ...]:
    # JSON spells what lies beyond the basic plane as two surrogates.
    if code_point < 0x10000:  # noqa: PLR2004 - the end of the basic plane
        return (code_point,)
    high, low = divmod(code_point - 0x10000, 0x400)
    return (0xD800 + high, 0xDC00 + low)
