"""Make the pictures of the console for the README and its page, in Chromium.

python -m tests.browser.pictures docs/images

Each page with a mock-up is shown beside it; `mockups/` has the mock-ups.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from continuations import Runner
from tests.browser import chromium
from tests.browser.web_demo import run_web_demo

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

    from tests.browser.web_demo import WebDemo

_MOCKUPS = Path(__file__).with_name("mockups")
_DESK: ViewportSize = {"width": 1120, "height": 700}
_PHONE: ViewportSize = {"width": 390, "height": 780}
_DESIGNED = ("inbox", "wait", "run")


class _View(NamedTuple):
    """How a page is shown, and what its pictures are called."""

    suffix: str
    size: ViewportSize
    colors: Literal["light", "dark"]


_LIGHT = _View("", _DESK, "light")
_VIEWS = (_LIGHT, _View("-dark", _DESK, "dark"), _View("-phone", _PHONE, "light"))


def make_pictures(images: Path) -> list[Path]:
    """Write the pictures of the pages and of the mock-ups; return the files."""
    made: list[Path] = []

    def take(address: str, name: str, view: _View) -> None:
        tab.set_viewport_size(view.size)
        tab.emulate_media(color_scheme=view.colors)
        tab.goto(address)
        # A page with a stream of events never becomes idle.
        tab.wait_for_load_state("load")
        file = images / f"{name}{view.suffix}.png"
        tab.screenshot(path=str(file))
        made.append(file)

    with (
        tempfile.TemporaryDirectory() as folder,
        run_web_demo(Path(folder)) as demo,
        chromium.run_browser() as browser,
        chromium.open_tab(browser) as tab,
    ):
        tab.goto(f"{demo.url}{demo.sign_in_path}")
        for name, path in _paths(demo, tab).items():
            for view in _VIEWS if name in _DESIGNED else (_LIGHT,):
                take(f"{demo.url}{path}", f"console-{name}", view)
        for name in _DESIGNED:
            take((_MOCKUPS / f"{name}.html").as_uri(), f"mockup-{name}", _LIGHT)
    return made


def _paths(demo: WebDemo, tab: Page) -> dict[str, str]:
    rows = Runner([], store=demo.store).worklist().waits
    payment = next(row.wait for row in rows if row.wait.tool == "transfer")
    tab.goto(f"{demo.url}/threads")
    thread = tab.locator("main a[href*='/threads/']").first.get_attribute("href")
    assert thread is not None
    return {
        "inbox": "/inbox",
        "wait": f"/waits/{payment.id}",
        "run": f"/runs/{payment.run_id}",
        "runs": "/runs",
        "thread": thread,
    }


if __name__ == "__main__":
    for picture in make_pictures(Path(sys.argv[1])):
        sys.stdout.write(f"{picture}\n")
