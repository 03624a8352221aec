"""Text that compresses as written English does, the same in every run.

Random bytes would flatter a ratio to the compressed conversation, repeated ones would
spoil it: so the words are drawn as languages have them, few often and many seldom.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random

_SYLLABLES = "ba ce di fo gu han jel kin lor mun per quet ras sol tin ver wal zor".split()
_MADE = Random(81)  # noqa: S311 - made-up words, not secrets
_WORDS = [
    "".join(_MADE.choices(_SYLLABLES, k=_MADE.choice((1, 1, 2, 2, 3))))
    for _ in range(3000)
]
_ZIPF = list(accumulate(1 / rank for rank in range(1, len(_WORDS) + 1)))


def prose(seed: int, size: int) -> str:
    """Return exactly `size` characters of made-up prose."""
    words = Random(seed).choices(_WORDS, cum_weights=_ZIPF, k=size)  # noqa: S311
    return " ".join(words)[:size]
