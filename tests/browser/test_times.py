"""Times of pages are in the zone of the reader; without script they are UTC."""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import datetime
from typing import Any

import pytest

from continuations import Agent, Runner
from continuations.models.scripted import ScriptedModel
from tests.browser import chromium
from tests.browser.served_app import serve_console
from tests.serve.pages.invoice_run import RUN, InvoiceRun

_CLOCK = re.compile(r"\d\d:\d\d")
# The texts of a page that are no moments of their own.
_LOOSE_TEXTS = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode;
    if (text.parentElement.closest("[data-time], script, style")) continue;
    found.push(text.data);
  }
  return found;
}"""


def times_of(tab: Any, selector: str) -> list[str]:
    """Return the words of all times below a selector."""
    return [
        str(each) for each in tab.locator(f"{selector} [data-time]").all_inner_texts()
    ]


if chromium.is_installed():

    @pytest.fixture(scope="module")
    def run() -> InvoiceRun:
        """Return a run that waits since the evening, and a thread over midnight."""
        return InvoiceRun.interrupted()

    @pytest.fixture(scope="module")
    def address(run: InvoiceRun) -> Generator[str]:
        """Serve their console."""
        with serve_console(run) as url:
            yield url

    def thread_over_midnight(run: InvoiceRun, key: str) -> tuple[Runner, str]:
        """Return a thread with messages at 16:00 and 20:00 of New York."""
        chat = Agent("support", model=ScriptedModel(["Yes.", "Still.", "Yes.", "No."]))
        runner = Runner(chat, store=run.store, clock=run.clock)
        thread = runner.thread("support", key=key)
        begin = run.clock.now().replace(hour=21, minute=30, second=5)
        run.clock.seconds += (begin - run.clock.now()).total_seconds()
        thread.send("Is it there?", by="jane")
        run.clock.seconds += 4 * 3600  # the next day in UTC, the same one in New York
        thread.send("And now?", by="jane")
        run.clock.seconds += 4 * 3600  # the next day in both
        thread.send("And at night?", by="jane")
        found = thread.look()
        assert found is not None
        return runner, found.run_id

    def test_times_are_in_the_zone_of_the_reader(
        run: InvoiceRun, address: str, browser: Any
    ) -> None:
        """The title of each time stays UTC, and the page names the zone once."""
        _, run_id = thread_over_midnight(run, "zone")
        with chromium.open_tab(browser, timezone_id="America/New_York") as tab:
            tab.goto(f"{address}/runs/{run_id}")
            [started] = times_of(tab, "#facts")
            first = tab.locator("#facts time").first
            moment = datetime.fromisoformat(first.get_attribute("datetime"))

            assert moment.strftime("%H:%M") == "21:30"
            day = f"{moment:%a} {moment.day} {moment:%b} {moment.year}"
            assert f"{day}, 16:30" == started
            assert f"{day}, 21:30:05 UTC" == first.get_attribute("title")
            days = tab.locator(".log .day").all_inner_texts()
            assert 2 == len(days)
            assert day == days[-1]
            # In UTC, this line would stand below the next day.
            first_of_day = tab.locator(".log .day").last.evaluate(
                "e => e.nextElementSibling.querySelector('time').textContent"
            )
            assert "20:30:05" == first_of_day
            assert "16:30:05" == times_of(tab, ".log")[-1]
            line = tab.locator("#zone").inner_text()
            assert "Times are in your time zone: EST, UTC-5." == line

    def test_times_without_script_say_that_they_are_utc(
        run: InvoiceRun, address: str, browser: Any
    ) -> None:
        """A reader in New York, whose browser runs no script."""
        _, run_id = thread_over_midnight(run, "no script")
        options: dict[str, Any] = {
            "timezone_id": "America/New_York",
            "java_script_enabled": False,
        }
        with chromium.open_tab(browser, **options) as tab:
            for path in ("/runs", f"/threads/{run_id}", f"/runs/{run_id}/versions"):
                tab.goto(address + path)
                words = times_of(tab, "main")
                assert words
                assert [] == [each for each in words if not each.endswith(" UTC")]
            tab.goto(f"{address}/runs/{run_id}")
            days = tab.locator(".log .day").all_inner_texts()
            assert ["UTC", "UTC"] == [each.rpartition(", ")[2] for each in days]
            assert "21:30:05" == times_of(tab, ".log")[-1]
            assert not tab.locator("#zone").is_visible()

    def test_news_of_an_open_page_keep_the_zone(
        run: InvoiceRun, address: str, browser: Any
    ) -> None:
        """Only parts that changed are replaced."""
        runner, run_id = thread_over_midnight(run, "news")
        with chromium.open_tab(browser, timezone_id="Asia/Kolkata") as tab:
            tab.goto(f"{address}/threads/{run_id}")
            before = times_of(tab, "#chat")
            tab.evaluate("document.querySelector('#chat').firstElementChild.kept = 1")
            runner.thread("support", key="news").send("Hello?", by="jane")
            tab.locator("#chat", has_text="Hello?").wait_for()

            after = times_of(tab, "#chat")

            assert before == after[: len(before)]
            assert "Kept" == tab.evaluate(
                "document.querySelector('#chat').firstElementChild.kept ? 'Kept' : ''"
            )
            assert tab.locator("#zone").inner_text().endswith("UTC+5:30.")

    def test_every_time_of_every_page_is_a_moment(
        run: InvoiceRun, address: str, browser: Any
    ) -> None:
        """No text has a clock of its own, which would stay UTC."""
        paths = [f"/runs/{RUN}{each}" for each in ("", "?call=c16", "/versions")]
        paths += ["/runs", "/inbox", "/inbox?for=all", "/inbox/decided", "/grants"]
        waits = run.runner.look(RUN).waits
        paths += [f"/waits/{each.id}" for each in waits if each.rules.has_object]
        with chromium.open_tab(browser, timezone_id="America/New_York") as tab:
            for path in paths:
                tab.goto(address + path)
                loose = [
                    each for each in tab.evaluate(_LOOSE_TEXTS) if _CLOCK.search(each)
                ]
                assert [] == loose, path
                assert "UTC" not in tab.locator("main").inner_text(), path
