"""The form of a message: `<what failed>: <why>. <what to do next>.`"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.errors.scene import PRIVATE_TEXTS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.errors.case import Case, Observation

MAX_WORDS = 60
MAX_WORD_LENGTH = 160
_BAD_BEGINNING = re.compile(r"(What|Who|Whoever|It|Of)\b")
_NEXT_STEP = re.compile(r"[.?!;][\"'`)]?\s|:\s+\S+\s+\S+|\bmust\b|\bneeds?\b")
_ODD_WORDS = re.compile(
    r"\b(is none|are none|desk|door|wish|([oi]f|for|in) it(?=[.:;]))"
)


def faults(case: Case, seen: Observation) -> Iterator[str]:
    """Go through everything that is wrong with the message of a case."""
    text = seen.text.strip()
    if not text.endswith(".") and not case.is_list:
        yield "it does not end with a full stop"
    if _BAD_BEGINNING.match(text):
        yield f"it begins with {text.split(maxsplit=1)[0]!r}"
    if not _has_next_step(text):
        yield "it has no second sentence, so it does not say what to do next"
    if _word_count(text) > MAX_WORDS and not case.is_list:
        yield f"it has {_word_count(text)} words, more than {MAX_WORDS}"
    if any(len(word) > MAX_WORD_LENGTH for word in text.split()):
        yield f"it has a word of more than {MAX_WORD_LENGTH} letters"
    odd = _ODD_WORDS.search(text)
    if odd:
        yield f"it says {odd[0]!r}"
    for name in (*case.names, seen.run_id, seen.wait_id):
        # A key of a store has both parts of a wait's id, in another order.
        if name and not all(part in text for part in name.split("@")):
            yield f"it does not name {name!r}"
    yield from _leaks(text)


def _has_next_step(text: str) -> bool:
    return _NEXT_STEP.search(text) is not None


def _word_count(text: str) -> int:
    # An id, a path or a line of JSON is one word.
    return len(text.split())


def _leaks(text: str) -> Iterator[str]:
    for secret in (*SECRETS, *PRIVATE_TEXTS):
        if secret in text:
            yield f"it repeats {secret!r}"
