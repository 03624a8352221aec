"""Pages that ask for changes, in a real browser: no open connection, no reload."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from continuations import Deny, Runner
from tests.browser import chromium
from tests.browser.console_chat import ConsoleChat, run_console_chat

TIMEOUT_MS = 60_000

if chromium.is_installed():

    @pytest.fixture
    def chat(tmp_path_factory: pytest.TempPathFactory) -> Generator[ConsoleChat]:
        """Run a console whose pages ask."""
        with run_console_chat(tmp_path_factory.mktemp("poll"), "poll") as running:
            yield running

    def test_pages_that_ask_follow_their_run_and_the_inbox(
        chat: ConsoleChat, browser: Any
    ) -> None:
        """The chat, the inbox, the wait and the run: each changes while it is open."""
        chat.open_thread("k")
        with chromium.open_tab(browser) as tab:
            tab.set_default_timeout(TIMEOUT_MS)
            asked: list[tuple[str, int]] = []

            def note(response: Any) -> None:
                asked.append((response.url, response.status))

            def is_unchanged(response: Any) -> bool:
                return bool(response.status == 204)

            tab.on("response", note)
            inbox, wait_page = tab.context.new_page(), tab.context.new_page()
            inbox.set_default_timeout(TIMEOUT_MS)
            wait_page.set_default_timeout(TIMEOUT_MS)
            inbox.goto(f"{chat.url}/inbox")
            tab.goto(chat.chat)
            tab.wait_for_event("response", is_unchanged)
            tab.get_by_label("Message").fill("pay")
            tab.get_by_role("button", name="Send").click()
            card = tab.locator("#chat .wait", has_text="Pay rent")
            card.wait_for()
            inbox.locator(".waits li", has_text="Pay rent").wait_for()

            wait_page.goto(chat.url + card.get_by_role("link").get_attribute("href"))
            [wait] = Runner([], store=chat.store).look(chat.thread_id).waits
            Runner([], store=chat.store).decide(wait.id, Deny(by="ruth"))

            wait_page.locator("#wait-state", has_text="ruth decided first").wait_for()
            inbox.locator(".waits li").wait_for(state="detached")
            tab.locator("#chat .wait", has_text="denied by ruth").wait_for()
            assert not [url for url, _ in asked if "/events" in url]
            assert 204 in {status for _, status in asked}
