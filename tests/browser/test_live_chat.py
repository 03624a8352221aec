"""The chat of the console in a real browser: the words of a reply while it is written.

Each text stands once, in order: with two tabs, after a crash, without script.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.console_chat import (
    TIMEOUT_MS,
    ConsoleChat,
    run_console_chat,
    say,
    stored,
    texts,
    written,
)

HOSTILE = "say a\u202eb|<script>document.title='owned'</script>|<b>line 1\nline 2</b>"
SHOWN = "a\\u202eb<script>document.title='owned'</script><b>line 1\nline 2</b>"

if chromium.is_installed():

    @pytest.fixture(scope="module")
    def shared_chat(tmp_path_factory: pytest.TempPathFactory) -> Generator[ConsoleChat]:
        """Run the console for tests that do not kill it."""
        with run_console_chat(tmp_path_factory.mktemp("chat")) as running:
            yield running

    @pytest.fixture
    def chat(
        shared_chat: ConsoleChat, request: pytest.FixtureRequest
    ) -> Generator[ConsoleChat]:
        """Open a thread of its own."""
        shared_chat.open_thread(request.node.name)
        yield shared_chat
        shared_chat.release()

    @pytest.fixture
    def tab(browser: Any) -> Generator[Any]:
        """Open a tab; each message of its browser console fails."""
        with chromium.open_tab(browser, offline_is_expected=True) as opened:
            opened.set_default_timeout(TIMEOUT_MS)
            yield opened

    def test_text_grows_in_two_tabs_and_stands_once(
        chat: ConsoleChat, tab: Any, browser: Any
    ) -> None:
        """The focus stays in the box, and the live region says counts."""
        chat.hold()
        tab.goto(chat.chat)
        with chromium.open_tab(browser) as other:
            other.goto(chat.chat)
            say(tab, "say one |two |three")
            assert "text" == tab.evaluate("document.activeElement.id")
            tab.keyboard.type("next question")
            for part, text in enumerate(("one ", "one two ", "one two three")):
                chat.allow()
                for each in (tab, other):
                    written(each, text)
                if part == 1:
                    with chromium.open_tab(browser) as late:
                        late.goto(chat.chat)
                        written(late, text)
            assert ["say Hello kim", "Hello kim", "say one |two |three"] == texts(tab)[
                :-1
            ]
            chat.allow()
            for each in (tab, other):
                stored(each, "one two three")
                assert [
                    *("say Hello kim", "Hello kim"),
                    *("say one |two |three", "one two three"),
                ] == texts(each)
        assert "text" == tab.evaluate("document.activeElement.id")
        assert "next question" == tab.input_value("#text")
        assert "1 new message" == tab.locator("#news").inner_text()
        assert "status" == tab.locator("#news").get_attribute("role")
        assert 0 == tab.locator("#chat[aria-live], #chat [aria-live]").count()

    def test_killed_server_writes_anew_and_each_text_stands_once(
        tmp_path: Path, browser: Any
    ) -> None:
        """No page is loaded again, and no message is sent twice."""
        with (
            run_console_chat(tmp_path) as chat,
            chromium.open_tab(browser, offline_is_expected=True) as sender,
            chromium.open_tab(browser, offline_is_expected=True) as other,
        ):
            # Given two tabs, and a server that is killed while it writes
            chat.open_thread("k")
            chat.hold()
            for each in (sender, other):
                each.set_default_timeout(TIMEOUT_MS)
                each.goto(chat.chat)
            say(sender, "say {process} one |two")
            chat.allow()
            for each in (sender, other):
                written(each, "p1 one ")
            chat.kill()

            # When a message is sent while there is no server
            say(sender, "say more")
            sender.get_by_role("alert").filter(has_text="Not sent").wait_for()
            assert "say more" == sender.input_value("#text")
            chat.hold()
            chat.start()

            # Then another process writes the reply anew, from its first word
            chat.allow()
            for each in (sender, other):
                written(each, "p2 one ")
            sender.get_by_role("button", name="Send").click()
            chat.release()
            expected = [
                *("say Hello kim", "Hello kim", "say {process} one |two", "p2 one two"),
                *("say more", "more"),
            ]
            for each in (sender, other):
                stored(each, "more")
                each.locator("#chat .unread").first.wait_for(state="detached")
                assert expected == texts(each)
            sender.reload()
            assert expected == texts(sender)

    def test_hostile_words_are_shown_as_text(chat: ConsoleChat, tab: Any) -> None:
        """The words look the same while they are written and once they are stored."""
        chat.hold()
        tab.goto(chat.chat)
        say(tab, HOSTILE)
        chat.allow(3)
        written(tab, SHOWN)
        assert SHOWN == texts(tab)[-1]
        chat.allow()
        stored(tab, "line 2</b>")
        assert SHOWN == texts(tab)[-1]
        assert "owned" != tab.title()

    def test_wait_appears_as_a_card_that_opens_its_page(
        chat: ConsoleChat, tab: Any
    ) -> None:
        tab.goto(chat.chat)
        say(tab, "pay")
        card = tab.locator("#chat .wait", has_text="Pay rent")
        card.wait_for()
        tab.locator("#hint", has_text="after its present reply").wait_for()
        card.get_by_role("link", name="Decide").click()
        tab.wait_for_url("**/waits/*")
        tab.get_by_role("button", name="Approve").wait_for()

    def test_box_says_that_the_agent_is_at_work(chat: ConsoleChat, tab: Any) -> None:
        chat.hold()
        tab.goto(chat.chat)
        tab.locator("#hint", has_text="The agent rests").wait_for()
        say(tab, "say one")
        tab.locator("#hint", has_text="The agent is at work").wait_for()
        say(tab, "say two")
        tab.locator("#chat .unread", has_text="say two").wait_for()
        chat.release()
        stored(tab, "two")
        expected = ["say Hello kim", "Hello kim", "say one", "one", "say two", "two"]
        assert expected == texts(tab)

    def test_chat_works_without_script(chat: ConsoleChat, browser: Any) -> None:
        chat.hold()
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(chat.chat)
        page.fill("#text", "say one|two")
        with page.expect_navigation() as navigation:
            page.click("text=Send")
        assert 200 == navigation.value.status
        assert chat.chat == page.url
        assert "say one|two" == texts(page)[2]
        chat.release()
        while len(texts(page)) < 4:
            page.reload()
        expected = ["say Hello kim", "Hello kim", "say one|two", "onetwo"]
        assert expected == texts(page)
        context.close()

    def abort(route: Any) -> None:
        """Fail a request, as a broken connection does."""
        route.abort()

    def test_reload_that_failed_once_is_repeated(chat: ConsoleChat, tab: Any) -> None:
        """No later event tells of the reply, so the page asks again by itself."""
        failed: list[str] = []

        def fail_once(route: Any) -> None:
            is_reload = (
                route.request.resource_type == "fetch" and route.request.method == "GET"
            )
            if is_reload and not failed:
                failed.append(route.request.url)
                route.fulfill(status=503, body="away")
            else:
                route.continue_()

        chat.hold()
        tab.goto(chat.chat)
        say(tab, "say All is well.")
        tab.locator("#chat .user", has_text="say All is well.").wait_for()
        tab.route("**/threads/*", fail_once)
        chat.release()
        stored(tab, "All is well.")
        assert 1 == len(failed)

    def test_page_is_accessible_while_a_reply_is_written(
        chat: ConsoleChat, tab: Any
    ) -> None:
        chat.hold()
        tab.goto(chat.chat)
        say(tab, "say The parcel left Hamburg on Monday. |It arrives today.")
        chat.allow()
        written(tab, "The parcel left Hamburg on Monday. ")
        say(tab, "say Thanks")
        tab.locator("#chat .unread").wait_for()
        assert [] == chromium.violations(tab)
        tab.route("**/threads/*", abort)
        say(tab, "Is it insured?")
        tab.get_by_role("alert").filter(has_text="Press Send again").wait_for()
        chromium.keep_pictures(tab)
