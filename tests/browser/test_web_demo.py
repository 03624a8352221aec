"""examples/web_demo in Chromium: a decision, and the run goes on by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from continuations import Runner
from tests.browser import chromium
from tests.browser.web_demo import run_web_demo

if chromium.is_installed():

    def test_second_vote_pays_the_invoice_and_the_run_ends(
        tmp_path: Path, browser: Any
    ) -> None:
        """The page of the wait asks; the worker in the same process resumes the run."""
        with run_web_demo(tmp_path) as demo, chromium.open_tab(browser) as tab:
            tab.goto(f"{demo.url}{demo.sign_in_path}")
            title = "Send €12,400.00 from Operations to Meridian Freight GmbH"
            tab.get_by_role("link", name=title).click()
            tab.get_by_role("button", name="Approve").click()
            tab.wait_for_url("**/waits/**")

            runner = Runner([], store=demo.store)
            # The events end when the run has ended.
            assert [*runner.events("inv-20931", follow=True)]
            assert "finished" == runner.look("inv-20931").status
            tab.goto(f"{demo.url}/inbox")
            assert title not in tab.content()
