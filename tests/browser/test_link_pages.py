"""The pages of signed links in a real browser, over real HTTP.

Each page follows the rules of WCAG 2.2 A and AA and the best practices of axe-core, in
light, in dark and on a phone. No page scrolls sideways at 320 px.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from continuations import Deny, Finished
from tests.browser import chromium
from tests.browser.link_scenes import LinkScenes, run_server
from tests.sampling import sample

if chromium.is_installed():

    @pytest.fixture(scope="module")
    def scenes() -> Generator[LinkScenes]:
        """Serve the pages."""
        with run_server() as served:
            yield served

    def test_every_page_is_accessible(scenes: LinkScenes, browser: Any) -> None:
        """In light and dark, on a desktop and on a phone."""
        found: dict[str, list[str]] = {}
        with chromium.open_tab(browser) as tab:
            for name, url in sample([*scenes.urls().items()], 2):
                tab.goto(url)
                found[name] = chromium.violations(tab)

        assert {} == {name: broken for name, broken in found.items() if broken}

    def test_broken_page_is_noticed(scenes: LinkScenes, tab: Any) -> None:
        """The rules find a field without a label, faint text and a wide page."""
        tab.goto(f"{scenes.base_url}/d/not-a-token")
        tab.evaluate(
            "() => { const p = document.querySelector('p');"
            " p.innerHTML = '<input><b>faint</b>';"
            " p.lastChild.style.color = '#999'; p.style.width = '500px'; }"
        )

        found = " ".join(chromium.violations(tab))

        assert "light, 1280 px: label" in found
        assert "light, 1280 px: color-contrast" in found
        assert "320 px: the page is" in found

    def test_person_votes_sees_the_vote_and_ends_the_wait(
        scenes: LinkScenes, tab: Any
    ) -> None:
        """The first vote stands; the page offers a denial, and nothing else."""
        wait = scenes.transfer_wait("by-click")
        link = scenes.link(wait)
        tab.goto(link)
        tab.get_by_role("button", name="Approve").click()
        assert "Your vote is recorded." in tab.get_by_role("status").inner_text()

        # When the person comes back later
        tab.goto(link)
        assert ["Deny: nothing runs"] == tab.get_by_role("button").all_inner_texts()
        assert "Your vote cannot be changed." in tab.locator("main").inner_text()
        assert [] == chromium.violations(tab)
        tab.get_by_label("Reason: tell the agent why").fill("The account is wrong.")
        tab.get_by_role("button", name="Deny").click()

        # Then the wait has ended
        assert "Your decision is recorded" == tab.locator("h1").inner_text()
        assert [] == chromium.violations(tab)
        decision = scenes.runner_of().decide(
            wait.id, Deny(by="kim", reason="The account is wrong.")
        )
        assert "deny" == decision.kind

    def test_nested_question_is_answered_with_the_keyboard(
        scenes: LinkScenes, tab: Any
    ) -> None:
        """The browser keeps back a form with an empty field."""
        wait = scenes.calling("by-keys", "choose_laptop", person="Jane")
        tab.goto(scenes.link(wait))
        tab.get_by_label("Model").fill("T14")
        tab.get_by_role("button", name="Answer").press("Enter")
        assert "Which laptop does Jane get?" == tab.locator("h1").inner_text()

        tab.get_by_label("Model").press("Tab")
        for text in ("32", "Main 1", "Oslo"):
            tab.keyboard.type(text)
            tab.keyboard.press("Tab")
        tab.get_by_role("button", name="Answer").press("Enter")

        assert "Your decision is recorded" == tab.locator("h1").inner_text()
        end = scenes.runner_of("done", "done").resume("by-keys")
        assert isinstance(end, Finished)

    def test_refused_and_repeated_decisions_have_accessible_pages(
        scenes: LinkScenes, tab: Any
    ) -> None:
        """A refusal says what to do; the page of the other person shows who decided.

        The button is inactive as long as the first call may run. A page that is older,
        or a program, may still send the form.
        """
        wait = scenes.calling("refused", "charge", cents=7)
        tab.goto(scenes.link(wait))
        again = tab.get_by_role("button", name="It did not happen: run it")
        assert again.is_disabled()
        assert "Available from " in tab.locator("#approve-closed").inner_text()
        with tab.expect_navigation():
            tab.evaluate("document.querySelector('#approve').submit()")
        assert "Nothing was recorded" in tab.locator("main").inner_text()
        assert [] == chromium.violations(tab)

        tab.go_back()
        scenes.runner_of().decide(wait.id, Deny(by="lee", reason="I looked."))
        with tab.expect_navigation():
            tab.evaluate("document.querySelector('#approve').submit()")
        assert "Already decided" == tab.locator("h1").inner_text()
        assert "I looked." in tab.locator("main").inner_text()
        assert [] == chromium.violations(tab)
