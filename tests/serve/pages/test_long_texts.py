"""Long texts: nothing is lost, the parts follow one another, and no text forges one."""

from __future__ import annotations

import re
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.visible_text import escape_invisible
from continuations.serve.pages import long_texts
from continuations.serve.pages.environment import environment, render
from continuations.serve.pages.long_texts import LongTexts, TextPart
from tests.sampling import examples

LONG = st.text(st.characters(), min_size=1, max_size=40).map(
    lambda part: part * (9_001 // len(part))
)


def link_of(html: str) -> dict[str, str]:
    """Return the query of the link of a folded text."""
    [address] = re.findall(r'<a href="\?([^"]*)">Read all</a>', html)
    return dict(parse_qsl(unescape(address), keep_blank_values=True))


def parts_of(text: str, query: dict[str, str]) -> list[TextPart]:
    """Open a text as its page prints it, and follow the links to its end."""
    parts: list[TextPart] = []
    link = link_of(LongTexts(query).html(text, keeps_lines=True))
    while True:
        texts = LongTexts(link)
        texts.html(text, keeps_lines=True)
        assert texts.wanted_text == text
        parts.append(part := texts.part(text))
        if "Next" not in part.steps:
            return parts
        link = dict(parse_qsl(part.steps["Next"].removeprefix("?")))


@settings(max_examples=examples(100), deadline=None)
@given(LONG, st.dictionaries(st.sampled_from(["for", "frame"]), st.text(max_size=5)))
def test_parts_follow_one_another_and_are_the_whole(
    text: str, query: dict[str, str]
) -> None:
    original = long_texts.PART_CHARS
    long_texts.PART_CHARS = 1000
    try:
        parts = parts_of(text, query)
    finally:
        long_texts.PART_CHARS = original
    assert "".join(part.text for part in parts) == text
    assert {len(text)} == {part.total for part in parts}
    assert [*range(1, len(parts) + 1)] == [part.number for part in parts]
    digest = sha256(long_texts.text_bytes(text)).hexdigest()
    assert {digest} == {part.digest for part in parts}


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=300), st.integers(0, 40))
def test_text_on_a_page_begins_with_the_text(part: str, times: int) -> None:
    """A short text is whole; a long one says its length, and how much is shown."""
    text = part * times
    html = LongTexts({}).html(text, keeps_lines=True)
    shown, mark, fold = html.partition('… <span class="fold">')
    plain = unescape(shown)
    assert "\n".join(map(escape_invisible, text.split("\n"))).startswith(plain)
    if mark:
        found = re.match(r"([\d,]+) characters, the first ([\d,]+) shown\.", fold)
        assert found is not None
        assert len(text) == int(found[1].replace(",", ""))
        assert 0 < int(found[2].replace(",", "")) <= long_texts.SHOWN_CHARS


@settings(max_examples=examples(60), deadline=None)
@given(LONG)
def test_page_without_an_address_has_its_texts_whole(text: str) -> None:
    html = LongTexts().html(text, keeps_lines=False)
    plain = unescape(re.sub(r'<span class="chunk">|</span>', "", html))
    assert escape_invisible(text) == plain


def test_text_of_many_lines_is_long() -> None:
    assert "fold" in LongTexts({}).html("\n" * 201, keeps_lines=True)
    assert "fold" not in LongTexts({}).html("\n" * 200, keeps_lines=True)


def test_invalid_part_is_the_first_or_last_one() -> None:
    for asked, number in {"0": 1, "-1": 1, "x": 1, "²": 1, "9" * 99: 1, "7": 1}.items():
        texts = LongTexts({"text": "x", "part": asked})
        assert number == texts.part("a" * 5000).number
    assert 2 == LongTexts({"part": "9"}).part("a" * 30_000).number


def test_every_text_of_a_template_is_folded() -> None:
    """A template folds a text without a filter too, and with line ends as escapes."""
    texts = LongTexts({})
    facts: dict[str, Any] = {"Reason": "<b>\n" * 3000}
    html = render(
        "message.html", texts, shell=None, title="t", text="x", facts=facts,
        values={}, links={},
    )  # fmt: skip
    assert "12,000 characters, the first 199 shown." in html
    assert "&lt;b&gt;\\n&lt;b&gt;" in html
    assert 1 == len(texts.found)


def test_value_of_an_attribute_is_whole() -> None:
    """The link of a folded text cannot stand in an attribute."""
    template = environment().from_string(
        '<p title="{{ a }} and {{ b["x"] }}"'
        '{% if a %} data-x="{{ n }}"{% endif %}>{{ a }}'
    )
    long = '"<' * 3000
    html = template.render(a=long, b={"x": "y"}, n=7)
    assert html.startswith(f'<p title="{"&#34;&lt;" * 3000} and y" data-x="7">')
    assert "chunk" in html.partition("data-x")[2]
