"""Long texts on pages: their beginnings, and the whole in parts.

A page shows the beginning of a text that is longer than `MAX_CHARS`, its length, and a
link. The link is the address of the page with the digest of the text. To answer it, the
page is made again for the same person, and its text with that digest is shown in parts
or downloaded. So rights and withheld texts hold for each part, and a text that is not
on the page has no address.
"""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from continuations.core.visible_text import escape_invisible
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A text up to these limits is shown whole. Reasons and answers of people are shorter.
MAX_CHARS, MAX_LINES = 4000, 200
# The beginning of a longer text, and the size of its parts.
SHOWN_CHARS, SHOWN_LINES, PART_CHARS = 2000, 50, 20_000
TEXT_FIELD, PART_FIELD, WHOLE = "text", "part", "whole"
_DIGEST_CHARS = 32
# As `html.escape`: the import of `html` takes 2 % of a cold decision.
_HTML_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)


def html_line(text: str) -> str:
    """Return a whole text on one line as HTML, with invisible characters escaped."""
    return escape_invisible(text).translate(_HTML_ESCAPES)


def html_lines(text: str) -> str:
    """Return a whole text with its line ends as HTML."""
    return "\n".join(map(html_line, text.split("\n")))


def digest_of(text: str) -> str:
    """Return the SHA-256 of the bytes of a text, as its download has them."""
    return sha256(text_bytes(text)).hexdigest()


def text_bytes(text: str) -> bytes:
    r"""Return the bytes of a text; a lone surrogate is an escape, such as `\ud800`."""
    return text.encode(errors="backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """One part of a long text, for its page.

    Attributes:
        text: The characters of the part.
        first: Number of the first one, from 1.
        last: Number of the last one.
        total: How many characters the text has.
        number: Number of the part, from 1.
        count: How many parts there are.
        digest: The SHA-256 of the whole text.
        steps: The relative addresses of other parts, by their words.
        whole: The relative address of the download.
    """

    text: str
    first: int
    last: int
    total: int
    number: int
    count: int
    digest: str
    steps: Mapping[str, str]
    whole: str


@dataclass(frozen=True, slots=True)
class LongTexts:
    """Prints the texts of one page, and knows those that it did not print whole.

    Attributes:
        query: The query of the page; `None` for a page without an address, such as the
            result of a form. Such a page has its texts whole.
        found: The long texts of the page, by the beginnings of their digests.
    """

    query: Mapping[str, str] | None = None
    found: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def wanted(self) -> str | None:
        """The text that the reader opens, by its digest; `None` for the page itself."""
        return None if self.query is None else self.query.get(TEXT_FIELD)

    @property
    def wants_whole(self) -> bool:
        """Whether the reader downloads the text."""
        return self.query is not None and self.query.get(PART_FIELD) == WHOLE

    def html(self, text: str, *, keeps_lines: bool) -> str:
        """Return a text as HTML; a long one is its beginning, its length and a link.

        Args:
            text: The text.
            keeps_lines: Whether it has its line ends. Otherwise they are escaped.
        """
        print_text = html_lines if keeps_lines else html_line
        if not is_long(text):
            return print_text(text)
        if self.query is None:
            return "".join(
                f'<span class="chunk">{print_text(part)}</span>'
                for part in _slices(text, SHOWN_CHARS)
            )
        key = digest_of(text)[:_DIGEST_CHARS]
        self.found[key] = text
        shown = _beginning(text)
        words = f"{len(text):,} characters, the first {len(shown):,} shown."
        return (
            f'{print_text(shown)}… <span class="fold">{words} '
            f'<a href="{html_line(self._address(key, 1))}">Read all</a></span>'
        )

    @property
    def wanted_text(self) -> str | None:
        """The text that the reader opens; `None` if the page does not have it."""
        return self.found.get(self.wanted or "")

    def part(self, text: str) -> TextPart:
        """Return the part of a text that the reader opens: the first one by default."""
        key = digest_of(text)[:_DIGEST_CHARS]
        count = -(-len(text) // PART_CHARS)
        asked = (self.query or {}).get(PART_FIELD, "")
        is_number = asked.isascii() and asked.isdigit()
        number = min(max(int(asked[:9]), 1), count) if is_number else 1
        begin = (number - 1) * PART_CHARS
        shown = text[begin : begin + PART_CHARS]
        steps = {"First": 1, "Previous": number - 1, "Next": number + 1, "Last": count}
        return TextPart(
            text=shown,
            first=begin + 1,
            last=begin + len(shown),
            total=len(text),
            number=number,
            count=count,
            digest=digest_of(text),
            steps={
                word: self._address(key, step)
                for word, step in steps.items()
                if 0 < step <= count and step != number
            },
            whole=self._address(key, WHOLE),
        )

    def _own_query(self) -> dict[str, str]:
        fields = {**(self.query or {})}
        for name in (TEXT_FIELD, PART_FIELD):
            fields.pop(name, None)
        return fields

    def _address(self, key: str, part: int | str) -> str:
        """Return the address of a part, relative to that of the page."""
        fields = {**self._own_query(), TEXT_FIELD: key, PART_FIELD: str(part)}
        return f"?{urlencode(fields)}"

    @property
    def page_address(self) -> str:
        """The relative address of the page itself."""
        return f"?{urlencode(self._own_query())}"


def is_long(text: str) -> bool:
    """Return whether a page shows only the beginning of a text."""
    return len(text) > MAX_CHARS or text.count("\n") > MAX_LINES


def _beginning(text: str) -> str:
    lines = text[:SHOWN_CHARS].split("\n", SHOWN_LINES)
    return "\n".join(lines[:SHOWN_LINES])


def _slices(text: str, size: int) -> Iterator[str]:
    return (text[begin : begin + size] for begin in range(0, len(text), size))
