"""The page of a thread in Chromium: a chat, with a box at the bottom of the screen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.chat_scenes import ChatScenes, run_chat

SIZES = [chromium.DESKTOP, chromium.PHONE, chromium.NARROWEST]

if chromium.is_installed():

    @pytest.fixture
    def chat() -> Generator[ChatScenes]:
        """Serve a console without a worker."""
        with run_chat() as scenes:
            scenes.say("Where is my parcel?")
            yield scenes

    @pytest.fixture
    def tab(chat: ChatScenes, browser: Any) -> Generator[Any]:
        """Open a tab of a new person; the server ends after it."""
        assert chat.base_url
        with chromium.open_tab(browser) as opened:
            yield opened

    def texts(tab: Any) -> list[str]:
        """Return the messages that a page shows."""
        found: list[str] = tab.locator("#chat .value:visible").all_inner_texts()
        return found

    def test_enter_sends_and_shift_enter_makes_a_line(
        chat: ChatScenes, tab: Any
    ) -> None:
        tab.goto(chat.url)
        box = tab.get_by_label("Message")
        box.focus()
        tab.keyboard.type("line 1")
        tab.keyboard.press("Shift+Enter")
        tab.keyboard.type("line 2")
        assert "line 1\nline 2" == box.input_value()

        tab.keyboard.press("Enter")

        tab.locator("#chat .unread", has_text="line 1").wait_for()
        assert "line 1\nline 2" == texts(tab)[-1]
        assert "" == box.input_value()
        assert "text" == tab.evaluate("document.activeElement.id")

    def test_enter_of_a_phone_makes_a_line(chat: ChatScenes, browser: Any) -> None:
        """Its keyboard has no Shift+Enter: the button sends."""
        context = browser.new_context(
            has_touch=True, is_mobile=True, viewport=chromium.PHONE
        )
        page = context.new_page()
        page.goto(chat.url)
        page.get_by_label("Message").focus()
        page.keyboard.type("line 1")
        page.keyboard.press("Enter")
        page.keyboard.type("line 2")
        page.get_by_role("button", name="Send").click()
        page.locator("#chat .unread").wait_for()
        assert "line 1\nline 2" == texts(page)[-1]
        context.close()

    @pytest.mark.parametrize("size", SIZES)
    def test_link_leads_to_the_newest_message(
        chat: ChatScenes, tab: Any, size: dict[str, int]
    ) -> None:
        """From the beginning of a long chat, whose box is in sight all the time."""
        for number in range(20):
            chat.say(f"question {number}")
        tab.set_viewport_size(size)
        tab.goto(chat.url)
        tab.evaluate("scrollTo(0, 0)")
        tab.get_by_role("link", name="Newest message").click()
        tab.wait_for_function(
            "scrollY + innerHeight >= document.documentElement.scrollHeight - 2"
        )

    @pytest.mark.parametrize("size", SIZES)
    def test_box_is_at_the_bottom_wherever_the_reader_is(
        chat: ChatScenes, tab: Any, size: dict[str, int]
    ) -> None:
        """The page begins at its end, and a reader who scrolls up keeps the box."""
        for number in range(12):
            chat.say(f"question {number}")
        tab.set_viewport_size(size)
        tab.goto(chat.url)
        last = tab.locator("#chat > li:visible").last
        box = tab.locator("#send")

        def gap() -> float:
            place = box.bounding_box()
            return float(size["height"] - place["y"] - place["height"])

        assert last.bounding_box()["y"] < size["height"]
        tab.evaluate("scrollTo(0, 0)")
        assert 0 <= gap() < 100
        assert 44 <= tab.get_by_role("button", name="Send").bounding_box()["height"]

    @pytest.mark.parametrize("size", SIZES[:2])
    def test_short_chat_needs_no_scrolling(
        chat: ChatScenes, tab: Any, size: dict[str, int]
    ) -> None:
        tab.set_viewport_size(size)
        tab.goto(chat.url)
        assert size["height"] >= tab.evaluate("document.documentElement.scrollHeight")
        assert 100 > tab.locator("#head").bounding_box()["height"]
        box = tab.locator(".box").bounding_box()
        assert size["height"] - box["y"] - box["height"] < 80

    def test_person_and_agent_are_told_apart(chat: ChatScenes, tab: Any) -> None:
        """By the place, by a card, and in words for screen readers."""
        tab.goto(chat.url)
        column = tab.locator(".talk").bounding_box()
        assert 44 * 16 == column["width"]
        person = tab.locator("#chat .user").first
        agent = tab.locator("#chat .assistant").first
        right = person.bounding_box()["x"] + person.bounding_box()["width"]
        assert column["x"] + column["width"] == pytest.approx(right, abs=1)
        assert column["x"] == pytest.approx(agent.bounding_box()["x"], abs=1)
        border = "each => getComputedStyle(each).borderTopWidth"
        assert ("1px", "0px") == (person.evaluate(border), agent.evaluate(border))
        assert "jane (person) wrote" in person.text_content()
        assert "support (agent) wrote" in agent.text_content()

    def test_calls_and_waits_are_lines_and_not_speakers(
        chat: ChatScenes, tab: Any
    ) -> None:
        chat.fill()
        tab.goto(chat.url)
        speakers = {*tab.locator("#chat .who b").all_inner_texts()}
        assert {"jane", "support"} == speakers
        calls = tab.locator("#chat .calls li").all_inner_texts()
        lines = [" ".join(each.split()) for each in calls]
        assert "find_order B-7731 · done Show the call of find_order" in lines
        assert any("unknown · failed" in line for line in lines)
        assert "30 calls" == tab.locator("#chat summary").inner_text()
        waits = tab.locator("#chat .wait").all_inner_texts()
        effect = "Refund €42.50 to Jane Okafor"
        assert [f"{effect} · denied by kim", f"{effect} · approved by kim, done"] == [
            " ".join(each.splitlines()[0].split()) for each in waits[:2]
        ]
        assert [False, False, True] == ["Decide" in each for each in waits]
        height = tab.locator("#chat .wait").last.bounding_box()["height"]
        assert height < 64
        tab.get_by_role("link", name="Decide").click()
        tab.get_by_role("button", name="Approve").wait_for()

    def test_every_kind_of_line_is_accessible(chat: ChatScenes, tab: Any) -> None:
        chat.fill()
        tab.goto(chat.url)
        assert [] == chromium.violations(tab)

    def test_older_messages_come_above_and_the_reader_stays(
        chat: ChatScenes, tab: Any
    ) -> None:
        """They come page by page, once each, and a new message removes none of them."""
        for number in range(40):
            chat.say(f"question {number}")
        tab.goto(chat.url)
        before = texts(tab)
        tab.evaluate("scrollTo(0, 0)")
        first = tab.locator("#chat .value").first.element_handle()
        place = first.bounding_box()["y"]

        count, reads = len(before), 0
        while tab.locator("#older").count():
            tab.locator("#older").click()
            tab.wait_for_function(
                "count => document.querySelectorAll('#chat .value').length > count",
                arg=count,
            )
            tab.locator("#older[data-busy]").wait_for(state="detached")
            if not reads:
                assert place == pytest.approx(first.bounding_box()["y"], abs=3)
            count, reads = tab.locator("#chat .value").count(), reads + 1
        expected = ["Where is my parcel?", "You wrote: Where is my parcel?"]
        for number in range(40):
            expected += [f"question {number}", f"You wrote: question {number}"]
        assert expected == texts(tab)

        chat.say("one more")
        tab.get_by_text("You wrote: one more").wait_for()
        assert [*expected, "one more", "You wrote: one more"] == texts(tab)

    def test_many_messages_at_once_leave_no_gap(chat: ChatScenes, tab: Any) -> None:
        """More than a page of them: the older ones are loaded from the new place."""
        tab.goto(chat.url)
        for number in range(40):
            chat.say(f"question {number}")
        tab.get_by_text("You wrote: question 39").wait_for()
        tab.locator("#older").click()
        tab.locator("#older").wait_for(state="detached")
        expected = ["Where is my parcel?", "You wrote: Where is my parcel?"]
        for number in range(40):
            expected += [f"question {number}", f"You wrote: question {number}"]
        assert expected == texts(tab)

    def test_older_messages_are_read_without_script(
        chat: ChatScenes, browser: Any
    ) -> None:
        for number in range(30):
            chat.say(f"question {number}")
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(chat.url)
        found = texts(page)
        while page.locator("#older").count():
            page.locator("#older").click()
            found = texts(page) + found
        assert 62 == len(found)
        assert "Where is my parcel?" == found[0]
        page.get_by_role("link", name="Newest messages").click()
        assert "You wrote: question 29" == texts(page)[-1]
        context.close()

    def test_absence_of_a_worker_is_said(chat: ChatScenes, tab: Any) -> None:
        """Not at once; then by itself, with the command that ends it."""
        tab.clock.install()
        tab.goto(chat.url)
        box = tab.get_by_label("Message")
        box.fill("Are you there?")
        box.press("Enter")
        tab.locator("#chat .unread").wait_for()
        assert "" == tab.locator("#absent").inner_text()

        chat.clock.offset_seconds += 125
        tab.clock.fast_forward(125_000)

        tab.locator("#absent", has_text="No worker has read it for 2 min.").wait_for()
        said = tab.locator("#absent").inner_text()
        assert "Start one with continuations serve --app MODULE:RUNNER" in said
        assert [] == chromium.violations(tab)
        chat.runner.resume(chat.run_id)
        tab.clock.fast_forward(61_000)
        tab.get_by_text("You wrote: Are you there?").wait_for()
        assert "" == tab.locator("#absent").inner_text()

    def test_work_of_another_process_is_shown_and_its_reply_comes_once(
        chat: ChatScenes, tab: Any
    ) -> None:
        """Its words cannot reach this process, but it is said that it works."""
        tab.goto(chat.url)
        may_reply = threading.Event()

        def work() -> None:
            asyncio.run(chat.held(may_reply).resume(chat.run_id))

        box = tab.get_by_label("Message")
        box.fill("Hello")
        box.press("Enter")
        tab.locator("#chat .unread").wait_for()
        worker = threading.Thread(target=work)
        worker.start()
        try:
            tab.locator("#writing:visible", has_text="support is at work").wait_for()
            tab.locator("#hint", has_text="The agent is at work").wait_for()
        finally:
            may_reply.set()
            worker.join()
        tab.get_by_text("The reply of another process.").wait_for()
        tab.locator("#writing").wait_for(state="hidden")
        assert ["Hello", "The reply of another process."] == texts(tab)[-2:]

    def test_ended_conversation_has_no_box(chat: ChatScenes, tab: Any) -> None:
        chat.runner.thread("support", key="customer 42").close()
        tab.goto(chat.url)
        assert "This conversation has ended." in tab.inner_text("main")
        assert 0 == tab.locator("#send").count()
