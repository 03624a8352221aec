"""Chromium with the accessibility rules of axe-core; `make test` installs axe from npm.

Where Chromium, playwright or axe is missing, the tests in a browser are not collected.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tests.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Generator

_AXE = Path(sys.prefix) / "axe/node_modules/axe-core/axe.min.js"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
NARROWEST = {"width": 320, "height": 640}

_RUN_AXE = """async (rules) => {
  const options = rules === null
    ? {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
                 "best-practice"]}
    : {runOnly: {type: "rule", values: rules}};
  const result = await axe.run(document, options);
  return result.violations.flatMap(each =>
    each.nodes.map(node => `${each.id}: ${node.target.join(" ")}: ${each.help}`));
}"""


def executable() -> str | None:
    """Return the path of Chromium on this machine."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def is_installed() -> bool:
    """Return whether this machine can test pages in a browser."""
    has_driver = find_spec("playwright") is not None
    return executable() is not None and has_driver and _AXE.exists()


@contextmanager
def run_browser() -> Generator[Any]:
    # A machine without playwright still checks the types of this module.
    sync_api: Any = import_module("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), headless=True, args=list(_ARGUMENTS)
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_tab(
    browser: Any, *, offline_is_expected: bool = False, **options: Any
) -> Generator[Any]:
    """Open a tab of a new person, and yield it; each message of the console fails.

    With `offline_is_expected`, the browser may report that it cannot reach the server.
    Other options are those of the context, such as `timezone_id`.
    """
    options = {"viewport": DESKTOP, "reduced_motion": "reduce", **options}
    context = browser.new_context(**options)
    messages: list[str] = []
    tab = context.new_page()

    def note(reported: Any) -> None:
        messages.append(str(getattr(reported, "text", reported)))

    tab.on("console", note)
    tab.on("pageerror", note)
    try:
        yield tab
    finally:
        context.close()
    # The browser reports each page with an error status.
    reported = ["the server responded"] + ["net::ERR_"] * offline_is_expected
    unexpected = [each for each in messages if not any(w in each for w in reported)]
    assert [] == unexpected


def keep_pictures(tab: Any) -> None:
    """Keep two pictures of a page, light and dark, in the folder KEEP_PICTURES."""
    folder = os.environ.get("KEEP_PICTURES")
    if not folder:
        return
    words = re.sub(r"[^a-z0-9]+", "-", tab.title().lower()).strip("-")[:60]
    # Pages of one run have the same title; their addresses differ.
    words += f"-{crc32(tab.url.split('/', 3)[-1].encode()) & 0xFFFF:04x}"
    for scheme, size in (("light", DESKTOP), ("dark", PHONE)):
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size(size)
        path = Path(folder) / f"{words}-{scheme}-{size['width']}.png"
        tab.screenshot(path=str(path), full_page=True)


def violations(tab: Any) -> list[str]:
    """Return the accessibility rules that a page breaks, in each mode and size.

    Only colors differ between light and dark. In the sample, pages take turns by their
    titles: a desktop, a dark phone, or the colors of a dark desktop. Each page is also
    checked for sideways scrolling on the narrowest phone. With KEEP_PICTURES=FOLDER,
    pictures of it stay there.
    """
    keep_pictures(tab)
    tab.evaluate(_AXE.read_text())
    found: list[str] = []
    checks: tuple[tuple[str, dict[str, int], list[str] | None], ...] = (
        ("light", DESKTOP, None),
        ("dark", PHONE, None),
        ("dark", DESKTOP, ["color-contrast"]),
    )
    turn = crc32(tab.title().encode())
    for scheme, size, rules in sample(checks, 3, turn):
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size(size)
        broken = tab.evaluate(_RUN_AXE, rules)
        found += [f"{scheme}, {size['width']} px: {each}" for each in broken]
    tab.set_viewport_size(NARROWEST)
    width = tab.evaluate("document.documentElement.scrollWidth")
    if width > NARROWEST["width"]:
        found.append(f"{NARROWEST['width']} px: the page is {width} px wide")
    tab.set_viewport_size(DESKTOP)
    tab.emulate_media(color_scheme="light")
    return found
