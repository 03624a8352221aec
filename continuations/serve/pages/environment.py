"""Render HTML pages from templates, and read the files that they load.

Jinja2 is loaded by the first page. The style sheet and scripts have addresses with
their hashes.

A template gets views and dictionaries of texts, and makes no decisions beyond loops and
conditions. `base.html` needs `shell`, a `Shell` or `None`, in the context of every
template.

Every printed text has its invisible characters shown as escapes, and is HTML-escaped
after that, so a call cannot forge the page that shows it. A line end is invisible too:
print a text of several lines with the filter `lines`, in an element that keeps them.

A long text is printed as its beginning, with a link to the rest (`long_texts`). The
value of an attribute is printed whole, though. Two filters print without a link:
`whole`, for a `textarea`, and `short`, for titles and the words of links, whose pages
have the whole text.

Times are `TimeView`s, alone or in a tuple with texts: print one like a text, and it
becomes a `<time>` element. In a text of SVG, print it with the filter `svg`.
"""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from continuations.core.visible_text import escape_invisible, shorten
from continuations.present.times import TimeView
from continuations.serve.pages.long_texts import LongTexts, is_long
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Environment

# The loader reads from a wheel too. `pkgutil` would load three more modules.
_LOADER: Any = globals()["__loader__"]
_FOLDER = os.path.join(os.path.dirname(__file__), "assets")  # noqa: PTH118, PTH120 - pathlib is 2 ms cold
STYLE_SHEET = "console.css"
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@cache
def read_asset(name: str) -> bytes:
    """Return the bytes of an asset; raise `OSError` if there is no such file."""
    extension = name.rpartition(".")[2]
    if "/" in name or "\\" in name or extension not in _MEDIA_TYPES:
        raise FileNotFoundError(f"{name!r} is not an asset")
    data: bytes = _LOADER.get_data(os.path.join(_FOLDER, name))  # noqa: PTH118 - as above
    return data


@cache
def asset_path(name: str) -> str:
    """Return the path of an asset below the root of the console.

    The path contains a hash of the bytes, so clients may keep the file forever.
    """
    digest = sha256(read_asset(name)).hexdigest()
    return f"/assets/{digest[:16]}/{name}"


def media_type(name: str) -> str:
    """Return the media type of an asset."""
    return _MEDIA_TYPES[name.rpartition(".")[2]]


def style_text() -> str:
    """Return the style sheet, for pages that contain it."""
    return read_asset(STYLE_SHEET).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The frame of a page of the console. A signed link has pages without it.

    Attributes:
        root: The mount prefix of the console, without a slash at its end.
        person: The name of the identity that reads the page.
        csrf: The token that each form of the page posts as `csrf`.
        section: The entry of the navigation that is current: `inbox`, `runs`,
            `threads` or `grants`; empty for none.
        open_waits: How many waits wait for the person; `None`: not known.
        is_live: Whether the page hears of changes while it is open.
        poll_seconds: Seconds between two questions of a live page; 0: it gets events.
        scripts: Names of the scripts that the page loads.
        may_sign_out: Whether the session of the person is the console's own.
    """

    root: str
    person: str
    csrf: str
    section: str = ""
    open_waits: str | None = None
    is_live: bool = False
    poll_seconds: int = 0
    scripts: tuple[str, ...] = ()
    may_sign_out: bool = False

    def asset(self, name: str) -> str:
        """Return the address of an asset."""
        return self.root + asset_path(name)


_PACKAGE = "continuations.serve.pages"


# The long texts of the page that is being made.
_LONG_TEXTS: ContextVar[LongTexts | None] = ContextVar("long_texts", default=None)
_LINK_CHARS = 200
# The value of an attribute of a template, and the expressions in it.
_PRINT = r"\{\{ (?:[^}]|\}(?!\}))*? \}\}"
_ATTRIBUTE = re.compile(rf'="(?:[^"{{]|{_PRINT}|\{{%.*?%\}})*"')


def render(
    template: str, /, long_texts: LongTexts | None = None, **context: object
) -> str:
    """Return a page, or a fragment of a page, as HTML.

    Args:
        template: The name of the template, such as `wait.html`.
        long_texts: Prints the texts. Without it, each text is printed whole.
        **context: The names of the template, with their values.

    Returns:
        The HTML text.
    """
    token = _LONG_TEXTS.set(long_texts)
    try:
        return environment().get_template(template).render(**context)
    finally:
        _LONG_TEXTS.reset(token)


def _text_filters() -> dict[str, Callable[[str], Any]]:
    """Return the filters that print texts."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - HTML only

    def folded(text: str, *, keeps_lines: bool) -> Markup:
        texts = _LONG_TEXTS.get() or LongTexts()
        html = texts.html(text, keeps_lines=keeps_lines)
        return Markup(html)  # noqa: S704 - it is escaped

    def line(text: str) -> str:
        """Return a text on one line, with its invisible characters escaped."""
        if is_long(text):
            return folded(text, keeps_lines=False)
        return escape_invisible(text)

    def lines(text: str) -> Markup:
        """Return a text with its line ends, and other invisible characters escaped."""
        return folded(text, keeps_lines=True) if is_long(text) else whole(text)

    def whole(text: str) -> Markup:
        """Return the value of a field with its line ends, however long it is."""
        return Markup("\n").join(map(escape_invisible, text.split("\n")))

    def attribute(value: Any) -> Any:
        """Return the value of an attribute: a text of it is whole."""
        return escape(escape_invisible(value)) if type(value) is str else value

    short = partial(shorten, max_chars=_LINK_CHARS)
    return {
        "attribute": attribute,
        "line": line,
        "lines": lines,
        "whole": whole,
        "short": short,
        "is_folded": _is_folded,
    }


def _is_folded(text: str) -> bool:
    """Return whether the page that is being made shows only the beginning of a text."""
    texts = _LONG_TEXTS.get()
    return texts is not None and texts.query is not None and is_long(text)


def _whole_attribute(found: re.Match[str]) -> str:
    return re.sub(
        _PRINT, lambda each: f"{{{{ ({each[0][3:-3]})|attribute }}}}", found[0]
    )


@cache
def environment() -> Environment:
    """Return the environment of the templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - HTML only
    from markupsafe import Markup, escape  # noqa: PLC0415 - a part of Jinja2

    texts = _text_filters()

    def printable(value: object) -> Any:
        """Return what is printed for the value of an expression."""
        if isinstance(value, (Markup, StrictUndefined)):
            return value
        if isinstance(value, str):
            return texts["line"](value)
        if type(value) is int:
            return str(value)
        if isinstance(value, TimeView):
            return Markup(value.html)  # noqa: S704 - no character of it is special
        if isinstance(value, tuple):
            parts = cast("tuple[object, ...]", value)
            return Markup().join(escape(printable(part)) for part in parts)
        raise TypeError(f"a template printed a {type(value).__name__}; print a text")

    def svg(text: tuple[object, ...]) -> Markup:
        """Return a text with times, for an element of SVG."""
        return Markup().join(
            Markup(f"<tspan {part.attributes}>{part.text}</tspan>")  # noqa: S704 - as above
            if isinstance(part, TimeView)
            else escape(printable(part))
            for part in text
        )

    def asset_text(name: str) -> Markup:
        """Return the text of a file of this package, for a page that contains it."""
        return Markup(read_asset(name).decode())  # noqa: S704 - nobody else wrote it

    class Templates(Environment):
        """Templates whose attributes have no long text folded."""

        def preprocess(
            self, source: str, name: str | None = None, filename: str | None = None
        ) -> str:
            """Print each expression in an attribute with the filter `attribute`."""
            plain = super().preprocess(source, name, filename)
            return _ATTRIBUTE.sub(_whole_attribute, plain)

    made = Templates(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(texts)
    made.filters["svg"] = svg
    made.filters["asset_text"] = asset_text
    return made
