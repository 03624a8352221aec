"""Make the pictures of the console for the README and its page, in Chromium.

python -m tests.browser.pictures docs/images
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from continuations import Runner
from tests.browser import chromium
from tests.browser.web_demo import run_web_demo

if TYPE_CHECKING:
    from typing import Literal

    from playwright.sync_api import ViewportSize

_DESK: ViewportSize = {"width": 1120, "height": 700}
_PHONE: ViewportSize = {"width": 390, "height": 780}


def make_pictures(images: Path) -> list[Path]:
    """Write the pages in light, one in dark and one on a phone; return the files."""
    made: list[Path] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_web_demo(Path(folder)) as demo,
        chromium.run_browser() as browser,
        chromium.open_tab(browser) as tab,
    ):
        tab.goto(f"{demo.url}{demo.sign_in_path}")
        rows = Runner([], store=demo.store).worklist().waits
        payment = next(row.wait for row in rows if row.wait.tool == "transfer")
        wait, run = f"/waits/{payment.id}", f"/runs/{payment.run_id}"
        pictures: tuple[
            tuple[str, str, ViewportSize, Literal["light", "dark"]], ...
        ] = (
            ("inbox", "/inbox", _DESK, "light"),
            ("wait", wait, _DESK, "light"),
            ("run", run, _DESK, "light"),
            ("wait-dark", wait, _DESK, "dark"),
            ("inbox-phone", "/inbox", _PHONE, "light"),
        )
        for name, path, size, colors in pictures:
            tab.set_viewport_size(size)
            tab.emulate_media(color_scheme=colors)
            tab.goto(f"{demo.url}{path}")
            file = images / f"console-{name}.png"
            # A page with a stream of events never becomes idle.
            tab.wait_for_load_state("load")
            tab.screenshot(path=str(file))
            made.append(file)
    return made


if __name__ == "__main__":
    for picture in make_pictures(Path(sys.argv[1])):
        sys.stdout.write(f"{picture}\n")
