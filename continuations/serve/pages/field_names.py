"""The names of the fields of typed forms: `value:KIND:POINTER`.

The pointer is a JSON Pointer (RFC 6901) into the value, with invisible characters and
`%` percent-encoded. The kind says how the text of the field is read:

    text      the text itself
    number    a number
    json      JSON, for choices, lists and everything else
    object    an object whose parts have fields of their own
    flag      false; the checkbox `checked` after it makes it true
    checked   JSON that replaces a `flag`
    list      a list; each checkbox `item` after it adds a value
    item      JSON of one value of a `list`; its last step is the number of the choice

`text?`, `number?` and `json?` are left out of the value if the field is empty.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from continuations.core.visible_text import escape_invisible

PREFIX = "value:"
MAX_DEPTH = 5


def field_name(kind: str, pointer: str) -> str:
    """Return the name of a field."""
    return f"{PREFIX}{kind}:{pointer}"


def below(pointer: str, step: str) -> str:
    """Return the pointer of a part of a value, without invisible characters."""
    escaped = step.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{''.join(map(_visible, escaped))}"


def steps_of(pointer: str) -> list[str]:
    """Return the steps of a pointer."""
    return [
        unquote(step, errors="surrogatepass").replace("~1", "/").replace("~0", "~")
        for step in pointer.split("/")[1:]
    ]


def _visible(char: str) -> str:
    """Return a character, percent-encoded if a page would show it as an escape."""
    if char != "%" and escape_invisible(char) == char:
        return char
    return quote(char, safe="", errors="surrogatepass")
