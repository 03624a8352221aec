"""The inbox of the console in a real browser: keys, live rows, and foreign pages."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from continuations import Deny, Wait
from continuations.errors import AlreadyDecided
from tests.browser import chromium
from tests.browser.wait_scenes import CALLS, WaitScenes, run_console
from tests.sampling import sample


def _is_open(scenes: WaitScenes, wait: Wait) -> bool:
    try:
        scenes.decider.wait(wait.id)
    except AlreadyDecided:
        return False
    return True


if chromium.is_installed():

    @pytest.fixture
    def scenes() -> Generator[WaitScenes]:
        """Serve the console."""
        with run_console() as served:
            yield served

    @pytest.fixture
    def tab(scenes: WaitScenes, browser: Any) -> Generator[Any]:
        """Open a tab of a new person; the server ends after it."""
        assert scenes.base_url
        with chromium.open_tab(browser) as opened:
            yield opened

    def test_pages_are_accessible_and_keep_to_their_policy(
        scenes: WaitScenes, tab: Any
    ) -> None:
        """A tab fails if its page reports anything, such as a forbidden style."""
        tab.goto(f"{scenes.base_url}/inbox")
        found = {"empty": chromium.violations(tab)}
        scenes.examined()
        denied = scenes.open("refund", "denied")
        scenes.decider.decide(denied.id, Deny(by="kim", reason="The order is wrong."))
        paths = {
            "inbox": "/inbox",
            "filtered": "/inbox?for=all&kind=question&q=laptop",
            "nothing": "/inbox?q=nothing-like-this",
            "decided": "/inbox/decided",
            "others": "/inbox/others",
            "keys": "/keys",
            "unknown page": "/nothing",
            "unknown run": "/runs/nothing",
        }
        for name, path in sample([*paths.items()], 2):
            tab.goto(scenes.base_url + path)
            found[name] = chromium.violations(tab)

        assert {} == {name: broken for name, broken in found.items() if broken}

    def test_wait_is_found_and_opened_by_keyboard_alone(
        scenes: WaitScenes, tab: Any
    ) -> None:
        scenes.examined()
        tab.goto(f"{scenes.base_url}/inbox")
        assert len(CALLS) == tab.locator(".waits li").count()
        for key in ("j", "j", "k"):
            tab.keyboard.press(key)
        title = tab.evaluate("document.activeElement.textContent")
        assert tab.locator(".waits h3 a").first.inner_text() == title

        tab.keyboard.press("Enter")

        tab.wait_for_url("**/waits/*")
        assert title in tab.locator("h1").inner_text()
        tab.keyboard.press("g")
        tab.keyboard.press("i")
        tab.wait_for_url("**/inbox")
        tab.keyboard.press("/")
        assert "q" == tab.evaluate("document.activeElement.id")

    def test_keys_can_be_switched_off(scenes: WaitScenes, tab: Any) -> None:
        scenes.open("laptop")
        tab.goto(f"{scenes.base_url}/keys")
        tab.get_by_label("Turn the keys off").check()
        tab.goto(f"{scenes.base_url}/inbox")
        tab.keyboard.press("j")
        assert "BODY" == tab.evaluate("document.activeElement.tagName")

    def test_new_wait_appears_and_the_focus_is_never_replaced(
        scenes: WaitScenes, tab: Any
    ) -> None:
        scenes.open("laptop")
        tab.goto(f"{scenes.base_url}/inbox")
        scenes.open("refund")
        tab.locator(".waits li").nth(1).wait_for()

        tab.keyboard.press("j")
        kept = tab.evaluate_handle("document.activeElement")
        scenes.open("campaign")
        tab.locator("#live[data-stale]").wait_for(state="attached")
        assert tab.evaluate("each => each === document.activeElement", kept)
        assert 2 == tab.locator(".waits li").count()

        tab.locator("#q").focus()

        tab.locator(".waits li").nth(2).wait_for()

    def test_inbox_works_without_script(scenes: WaitScenes, browser: Any) -> None:
        scenes.examined()
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(f"{scenes.base_url}/inbox")
        page.fill("#q", "laptop")
        page.get_by_role("button", name="Filter").click()
        assert 1 == page.locator(".waits li").count()
        page.locator(".waits h3 a").click()
        assert "laptop" in page.locator("h1").inner_text()
        context.close()

    def test_form_of_a_foreign_page_is_refused(
        scenes: WaitScenes, browser: Any
    ) -> None:
        """The browser sends the cookies of the console, and the console refuses."""
        wait = scenes.open("refund")
        context = browser.new_context()
        page = context.new_page()
        foreign = (
            f'<form method="post" action="{scenes.url(wait)}">'
            f'<input name="shown" value="{wait.digest}">'
            '<button name="decision" value="approve">go</button></form>'
        )

        def serve_foreign(route: Any) -> None:
            route.fulfill(body=foreign, content_type="text/html")

        page.route("http://attacker.example/", serve_foreign)
        page.goto("http://attacker.example/")
        with page.expect_navigation() as navigation:
            page.click("button")
        assert 403 == navigation.value.status
        assert wait.id == scenes.decider.wait(wait.id).id
        context.close()

    @pytest.mark.parametrize("size", [chromium.DESKTOP, chromium.PHONE])
    def test_blind_clicks_decide_one_wait(
        scenes: WaitScenes, tab: Any, size: dict[str, int]
    ) -> None:
        """The reply to a decision has nothing to press at the place of the button."""
        tab.set_viewport_size(size)
        waits = [scenes.open("refund", f"blind-{number}") for number in range(5)]
        tab.goto(f"{scenes.base_url}/inbox")
        tab.locator(".waits h3 a").first.click()
        button = tab.get_by_role("button", name="Approve")
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        for _ in range(5):
            tab.mouse.click(*place)
            tab.wait_for_timeout(1100)

        assert 4 == sum(_is_open(scenes, wait) for wait in waits)
        assert "Recorded: Approved" in tab.locator("main").inner_text()

    def test_press_that_does_nothing_is_explained(scenes: WaitScenes, tab: Any) -> None:
        """Within the first second after a decision, and at its place later."""
        for number in range(2):
            scenes.open("refund", f"said-{number}")
        tab.goto(f"{scenes.base_url}/inbox")
        tab.locator(".waits h3 a").first.click()
        tab.get_by_role("button", name="Approve").click()
        tab.get_by_role("heading", level=1, name="Recorded").wait_for()
        tab.evaluate("document.querySelector('a[href$=inbox]').click()")
        note = tab.locator("#pressed")
        assert "Press again in a second." in note.inner_text()
        assert "status" == note.get_attribute("role")
        assert [] == chromium.violations(tab)
        assert "Recorded" in tab.locator("h1").inner_text()
        note.wait_for(state="detached")
        tab.get_by_role("link", name="Inbox").first.click()
        tab.wait_for_url("**/inbox")

    def test_finger_goes_on_at_the_place_of_the_decision(
        scenes: WaitScenes, browser: Any
    ) -> None:
        """A finger has no pointer that leaves the place; it decides nothing again."""
        waits = [scenes.open("refund", f"finger-{number}") for number in range(3)]
        with chromium.open_tab(
            browser, viewport=chromium.PHONE, has_touch=True, is_mobile=True
        ) as tab:
            tab.goto(f"{scenes.base_url}/inbox")
            tab.locator(".waits h3 a").first.tap()
            # The button stands where the next page has its link.
            tab.get_by_role("button", name="Approve").evaluate(
                "each => scrollBy(0, each.getBoundingClientRect().top - 245)"
            )
            for title in ("Recorded", "Refund"):
                tab.touchscreen.tap(60, 265)
                tab.get_by_role("heading", level=1, name=title).wait_for()
                # At once, it presses nothing.
                tab.touchscreen.tap(60, 265)
                tab.wait_for_timeout(1100)
        assert 2 == sum(_is_open(scenes, wait) for wait in waits)

    def test_counts_of_an_open_inbox_follow(scenes: WaitScenes, tab: Any) -> None:
        waits = [scenes.open("refund", f"counted-{number}") for number in range(3)]
        tab.goto(f"{scenes.base_url}/inbox")
        tab.get_by_role("heading", name="3 decisions wait for you").wait_for()
        scenes.decider.decide(waits[0].id, Deny(by="kim"))
        tab.get_by_role("heading", name="2 decisions wait for you").wait_for()
        assert ["For you 2", "Everybody 2", "Decided"] == (
            tab.locator(".tabs a").all_inner_texts()
        )
        assert "2" == tab.locator(".count").inner_text()

    def test_repeated_keys_decide_one_wait(scenes: WaitScenes, tab: Any) -> None:
        waits = [scenes.open("refund", f"keys-{number}") for number in range(3)]
        tab.goto(f"{scenes.base_url}/inbox")
        tab.locator(".waits h3 a").first.click()
        tab.get_by_role("button", name="Approve").focus()

        for _ in range(4):
            tab.keyboard.press("Enter")
            tab.wait_for_timeout(300)

        assert 2 == sum(_is_open(scenes, wait) for wait in waits)

    def test_next_is_the_next_wait_of_the_list_before_the_decision(
        scenes: WaitScenes, tab: Any
    ) -> None:
        for number in range(4):
            scenes.open("refund", f"next-{number}")
        tab.goto(f"{scenes.base_url}/inbox")
        titles = [
            each.get_attribute("href") for each in tab.locator(".waits h3 a").all()
        ]
        tab.goto(f"{scenes.base_url}{titles[1]}")
        tab.get_by_role("button", name="Approve").click()
        tab.wait_for_timeout(1100)
        tab.mouse.move(5, 5)
        following = tab.get_by_role("link", name="Next")

        assert titles[2] == following.get_attribute("href")
        following.click()
        tab.get_by_role("button", name="Approve").wait_for()
        assert [] == chromium.violations(tab)
