"""Make the pictures of the console for the README, in Chromium.

python -m tests.browser.pictures docs/images
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from continuations import Runner
from tests.browser import chromium
from tests.browser.web_demo import run_web_demo

_SIZE = {"width": 1120, "height": 700}


def make_pictures(images: Path) -> list[Path]:
    """Write the inbox, a wait and its run of the demonstration; return the files."""
    made: list[Path] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_web_demo(Path(folder)) as demo,
        chromium.run_browser() as browser,
        chromium.open_tab(browser) as tab,
    ):
        tab.set_viewport_size(_SIZE)
        tab.goto(f"{demo.url}{demo.sign_in_path}")
        rows = Runner([], store=demo.store).worklist().waits
        payment = next(row.wait for row in rows if row.wait.tool == "transfer")
        for name, path in (
            ("inbox", "/inbox"),
            ("wait", f"/waits/{payment.id}"),
            ("run", f"/runs/{payment.run_id}"),
        ):
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
