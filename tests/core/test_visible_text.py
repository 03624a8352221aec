"""Invisible characters are shown as escapes, and JSON keeps its value."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations.core.visible_text import escape_invisible, indent_escaped

TEXTS = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b]text[/b] \\n", "plain [b]text[/b] \\n"),
        ("Zoë 日本 😀", "Zoë 日本 😀"),
        ("a\tb\nc\r", r"a\tb\nc\r"),
        ("\x1b[2J\x00\x7f\x9b", r"\u001b[2J\u0000\u007f\u009b"),
        ("\u202e\u2066\u200f", r"\u202e\u2066\u200f"),
        ("\u200b\u200d\u2060\ufeff\u00ad", r"\u200b\u200d\u2060\ufeff\u00ad"),
        ("\u2028\u2029\u00a0\u3000", r"\u2028\u2029\u00a0\u3000"),
        ("\u3164\u034f\ufe0f\u2800", r"\u3164\u034f\ufe0f\u2800"),
        ("\U000e0041\U000e0100", r"\udb40\udc41\udb40\udd00"),
        ("\ud800", r"\ud800"),
    ],
)
def test_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert shown == escape_invisible(text)


@given(TEXTS)
def test_escaped_text_has_only_visible_characters(text: str) -> None:
    for char in escape_invisible(text):
        assert char.isprintable()
        assert unicodedata.category(char)[0] != "C"


@given(st.recursive(TEXTS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3)))
def test_escaping_keeps_the_json_value(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)

    assert value == json.loads(escape_invisible(text))


@given(TEXTS)
def test_every_line_is_indented(text: str) -> None:
    lines = indent_escaped(text).split("\n")

    assert text.count("\n") + 1 == len(lines)
    assert all(line.startswith("  ") for line in lines)
