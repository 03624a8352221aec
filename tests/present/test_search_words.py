"""Laws of a search: each word of a query is looked for, whole or as a part."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from continuations.present.search_words import SearchWords, search_text

PARTS = st.lists(st.text("aB1-._ \u00df\n", max_size=8), max_size=4)
WORDS = st.lists(st.text("aB1-._\u00df(*", min_size=1, max_size=5), max_size=4)


def is_found(word: str, text: str) -> bool:
    """Return whether a word is in a text, by its definition."""
    if len(word) > 2:
        return word in text
    places = (found.start() for found in re.finditer(f"(?={re.escape(word)})", text))
    return any(
        not text[max(at - 1, 0) : at].isalnum()
        and not text[at + len(word) : at + len(word) + 1].isalnum()
        for at in places
    )


@given(parts=PARTS, words=WORDS)
def test_each_word_is_found_and_short_ones_as_a_whole(
    parts: list[str], words: list[str]
) -> None:
    text = search_text(parts)
    folded = " ".join(words).casefold().split()
    found = SearchWords.of_query(" ".join(words)).are_in(text)
    assert found == all(is_found(word, text) for word in folded)


@given(text=st.text(min_size=1, max_size=50))
def test_a_text_is_found_by_itself(text: str) -> None:
    assert SearchWords.of_query(text).are_in(search_text([text]))


def test_query_is_cut_and_an_empty_one_finds_everything() -> None:
    assert SearchWords.of_query("x" * 1_000_000).query == "x" * 200
    assert not SearchWords.of_query("  ")
    assert SearchWords.of_query("").are_in("")
