"""The forms of a page as a browser fills and posts them, and the markup of its main."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class PageForms(HTMLParser):
    """The posted fields of each form, by the id of the form."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: dict[str, dict[str, str]] = {}
        self._form: dict[str, str] = {}
        self._select = self._area = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one field."""
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value") or ""
        if tag == "form":
            self._form = self.forms[given.get("id") or ""] = {}
        elif "form" in given:
            self._form = self.forms[given["form"] or ""]
        if tag == "input":
            is_choice = given.get("type") in ("checkbox", "radio")
            if is_choice and "checked" not in given:
                return
            assert name not in self._form
            self._form[name] = value
        elif tag == "select":
            self._select, self._form[name] = name, ""
        elif tag == "option" and "selected" in given:
            self._form[self._select] = value
        elif tag == "textarea":
            self._area, self._form[name] = name, ""

    def handle_data(self, data: str) -> None:
        """Read the text of a textarea."""
        if self._area:
            self._form[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        """End a textarea; a browser drops its first line end and posts CR LF."""
        if tag == "textarea":
            text = self._form[self._area].removeprefix("\n")
            self._form[self._area] = text.replace("\n", "\r\n")
            self._area = ""


def main_of(html: str) -> str:
    """Return the markup of the main part, without line ends between elements."""
    [main] = re.findall(r"<main[^>]*>(.*)</main>", html, re.DOTALL)
    return re.sub(r">\s+<", "><", main.strip())


def without_navigation(main: str) -> str:
    """Return a main part without navigation, tokens, and what only the run tells."""
    main = re.sub(r"<nav\b.*?</nav>", "", main, flags=re.DOTALL)
    main = re.sub(r'<input type="hidden" name="csrf"[^>]*>', "", main)
    main = re.sub(r'<section [^>]*="started">.*?</section>', "", main, flags=re.DOTALL)
    main = re.sub(r"</?a\b[^>]*>", "", main)
    titled = r'<dd>[^<]*<span class="mono muted">([^<]*)</span></dd>'
    return re.sub(titled, r"<dd>\1</dd>", main)
