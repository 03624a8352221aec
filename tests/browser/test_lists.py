"""The lists of the console in Chromium: one line for a run, filters, and live rows."""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from continuations import Deny, Runner
from continuations_storage.faults import (
    Fault,
    Operation,
    delayed,
    no_faults,
    on,
    refused,
)
from tests.browser import chromium
from tests.browser.served_app import serve_console
from tests.sampling import sample
from tests.serve.console.office import Office, call, filled

TITLE = "<script>document.title='owned'</script>" + "A" * 150
HOSTILE = "\u202e<script>document.title='owned'</script>" + "A" * 200


def seconds_now() -> float:
    """Return the time since the start of the year 2026, as a browser knows it."""
    return (datetime.now(UTC) - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()


def busy_office() -> Office:
    """Return an office whose clock goes, with hostile texts and all kinds of waits."""
    office = filled(Office(seconds_now()))
    label = {"team": "A" * 60}
    reply = call("choose", of=HOSTILE)
    office.start("hostile", reply, title=TITLE, by="<b>kim</b>", labels=label)
    office.start("x" * 200, call("render", film=HOSTILE))
    office.start("two", [call("nap", hours=30), call("receipt", claim="c1")])
    decided = office.start("decided", call("delete", name="x"), title="Old account")
    [wait] = [each for each in decided.open_waits() if each.run_id == "decided"]
    decided.decide(wait.id, Deny(by="lee", reason=HOSTILE))
    return office


if chromium.is_installed():

    @pytest.fixture(scope="module")
    def address() -> Generator[str]:
        """Serve the console of a busy office."""
        with serve_console(busy_office()) as url:
            yield url

    PAGES = (
        "/runs",
        "/runs?q=box&status=ended",
        "/inbox?for=all",
        "/inbox/others",
        "/inbox/decided",
        "/threads",
    )

    @pytest.mark.parametrize("path", sample(PAGES, 2))
    def test_lists_are_accessible_and_narrow(
        browser: Any, address: str, path: str
    ) -> None:
        with chromium.open_tab(browser) as tab:
            assert tab.goto(address + path).ok
            assert "owned" != tab.title()
            assert [] == chromium.violations(tab)

    def test_run_is_one_line_and_three_on_a_phone(browser: Any, address: str) -> None:
        with chromium.open_tab(browser) as tab:
            tab.goto(f"{address}/runs")
            rows = tab.locator(".lines li")
            heights = {rows.nth(n).bounding_box()["height"] for n in range(5)}
            assert {44} <= {round(each) for each in heights} <= {44, 45}
            assert "inv-12" in rows.filter(has_text="Meridian").inner_text()
            tab.set_viewport_size(chromium.PHONE)
            # The last run is the oldest; a time of another day is a longer text.
            assert 100 > rows.last.bounding_box()["height"]
            # The filter is folded behind one button.
            assert not tab.locator("#q").is_visible()
            tab.get_by_text("Filter", exact=True).click()
            assert tab.locator("#q").is_visible()

    def test_menu_sends_its_form_by_itself(browser: Any, address: str) -> None:
        with chromium.open_tab(browser) as tab:
            tab.goto(f"{address}/runs")
            tab.select_option("#status", "timer")
            tab.wait_for_url("**/runs?*status=timer*")
            shown = tab.locator(".lines h2 a").all_inner_texts()
            assert "Remind Ines" in shown
            tab.goto(f"{address}/inbox?for=all")
            tab.select_option("#kind", "question")
            tab.wait_for_url("**/inbox?*kind=question*")
            assert 1 == tab.locator(".waits li").count()

    def test_filters_and_pages_work_without_script(browser: Any, address: str) -> None:
        with chromium.open_tab(browser, java_script_enabled=False) as tab:
            tab.goto(f"{address}/runs")
            tab.fill("#q", "meridian")
            tab.press("#q", "Enter")
            assert ["Invoice INV-12 of Meridian"] == [
                each.strip() for each in tab.locator(".lines h2 a").all_inner_texts()
            ]
            tab.set_viewport_size(chromium.PHONE)
            tab.goto(f"{address}/inbox?for=all")
            tab.get_by_text("Filter", exact=True).first.click()
            tab.fill("#q", "inv-12")
            tab.press("#q", "Enter")
            assert 1 == tab.locator(".waits li").count()
            # A filter that is used stays open.
            assert tab.locator("#q").is_visible()

    def test_whole_row_is_highlighted_and_urgent_times_differ(
        browser: Any, address: str
    ) -> None:
        with chromium.open_tab(browser) as tab:
            for path, row in (("/inbox?for=all", ".waits li"), ("/runs", ".lines li")):
                tab.goto(address + path)
                plain = _background(tab, row)
                tab.keyboard.press("j")
                assert plain != _background(tab, row)

    def _background(tab: Any, selector: str) -> str:
        script = "each => getComputedStyle(each).backgroundColor"
        found: str = tab.locator(selector).first.evaluate(script)
        return found

    def test_time_that_is_left_is_red_below_an_hour_and_amber_below_a_day(
        browser: Any,
    ) -> None:
        office = Office(seconds_now())
        for name, seconds in {"soon": 1800, "today": 7200, "later": 200_000}.items():
            office.start(name, call("ask_within", seconds=seconds))
        with serve_console(office) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/inbox")
            script = "each => getComputedStyle(each).color"
            times = tab.locator(".waits .due b")
            colors = [times.nth(n).evaluate(script) for n in range(3)]
            assert 3 == len(set(colors))
            red, amber, _ = (
                [int(n) for n in each[4:-1].split(", ")] for each in colors
            )
            assert red[0] > 2 * red[1]
            assert amber[0] > amber[1] > amber[2]
            assert 25 > tab.locator(".waits .due span").first.bounding_box()["height"]

    def test_day_of_a_filter_is_one_of_the_readers_zone(browser: Any) -> None:
        office = Office()
        office.clock.seconds = 23.5 * 3600  # 23:30 UTC, the next day in Tokyo
        office.start("late", call("delete", name="x"))
        decider = Runner([], store=office.store, clock=office.clock)
        [wait] = decider.open_waits()
        decider.decide(wait.id, Deny(by="lee"))
        with (
            serve_console(office) as url,
            chromium.open_tab(browser, timezone_id="Asia/Tokyo") as tab,
        ):
            for day, count in {"2026-01-02": 1, "2026-01-01": 0}.items():
                tab.goto(f"{url}/inbox/decided")
                tab.fill("#day", day)
                tab.get_by_role("button", name="Filter").click()
                tab.wait_for_url("**offset=540**")
                assert count == tab.locator(".decided tbody tr").count()

    def test_list_completes_itself_while_the_runs_are_read(
        browser: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("continuations.serve.console.wait_list.SECONDS", 0)
        office = filled()

        def slow(operation: Operation) -> Fault | None:
            return delayed(0.5) if "/v/" in operation.key else None

        office.store.plan = slow
        with serve_console(office) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/runs?q=box")
            assert "Reading the runs" in tab.locator("[data-reading]").inner_text()
            tab.wait_for_selector(".lines li:nth-child(5)")
            tab.wait_for_selector("[data-reading]", state="detached")

    @pytest.mark.parametrize("live", ["events", "poll"])
    def test_inbox_completes_itself_while_the_waits_are_read(
        browser: Any, monkeypatch: pytest.MonkeyPatch, live: Any
    ) -> None:
        monkeypatch.setattr("continuations.serve.console.wait_list.SECONDS", 0)
        office = filled()

        def slow(operation: Operation) -> Fault | None:
            is_wait = operation.verb == "read" and operation.key.startswith("waits/")
            return delayed(0.5) if is_wait else None

        office.store.plan = slow
        with serve_console(office, live=live) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/inbox?q=pay")
            assert "Reading the waits" in tab.locator("[data-reading]").inner_text()
            tab.wait_for_selector(".waits li")
            assert 0 == tab.locator("[data-reading]").count()

    def test_rows_of_runs_and_threads_follow_their_store(browser: Any) -> None:
        office = filled(Office(seconds_now()))
        with serve_console(office) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/runs")
            tab.wait_for_selector(".live:not([hidden])")
            assert "Live" == tab.locator(".live").inner_text()
            office.start("later", call("delete", name="x"), title="Came later")
            tab.wait_for_selector("text=Came later")
            decided = office.runner(call("nap", hours=1), "done")
            [wait] = [w for w in decided.open_waits() if w.run_id == "later"]
            decided.decide(wait.id, Deny(by="lee"))
            decided.resume("later")
            row = tab.locator(".lines li").filter(has_text="Came later")
            row.get_by_text("Finished").wait_for()
            tab.goto(f"{url}/threads")
            tab.wait_for_selector(".live:not([hidden])")
            office.runner("Hello.", agent="talker").thread("talker", key="k").send("Hi")
            tab.wait_for_selector(".lines li")

    def test_row_with_the_focus_is_replaced_after_it(browser: Any) -> None:
        office = filled(Office(seconds_now()))
        with serve_console(office) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/runs")
            tab.keyboard.press("j")
            focused = tab.evaluate("document.activeElement.textContent")
            office.start("later", call("delete", name="x"), title="Came later")
            tab.wait_for_timeout(4000)
            assert focused == tab.evaluate("document.activeElement.textContent")
            tab.evaluate("document.activeElement.blur()")
            tab.wait_for_selector("text=Came later")

    @pytest.mark.parametrize("path", sample(("/inbox", "/runs", "/runs/inv-12"), 2))
    def test_open_page_says_since_when_the_store_is_away(
        browser: Any, path: str
    ) -> None:
        office = filled(Office(seconds_now()))
        with (
            serve_console(office) as url,
            chromium.open_tab(browser, offline_is_expected=True) as tab,
        ):
            tab.goto(url + path)
            live = tab.locator(".live")
            live.get_by_text("Live", exact=True).wait_for()
            office.store.plan = on("keys", refused(), times=10**9)
            tab.wait_for_selector(".live.away", timeout=20_000)
            assert re.fullmatch(r"Not live since \d\d:\d\d", live.inner_text())
            assert [] == chromium.violations(tab)
            office.store.plan = no_faults
            tab.wait_for_selector(".live:not(.away)", timeout=20_000)
            assert "Live" == live.inner_text()

    def test_page_of_a_run_that_ended_is_not_live(browser: Any) -> None:
        office = filled(Office(seconds_now()))
        with serve_console(office) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/runs/inv-12")
            tab.get_by_text("Live", exact=True).wait_for()
            office.runner("done").cancel("inv-12", by="ruth")
            tab.locator("main .pill").get_by_text("Cancelled").first.wait_for()
            tab.wait_for_timeout(200)
            assert not tab.locator(".live").is_visible()

    def test_list_of_decisions_looks_further_back_by_itself(
        browser: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("_MAX_RUNS_READ", "_PARALLEL_READS"):
            monkeypatch.setattr(f"continuations.serve.console.decided_page.{name}", 2)
        office = Office(seconds_now())
        for number in range(9):
            runner = office.start(f"r{number}", call("delete", name="x"))
            [wait] = [w for w in runner.open_waits() if w.run_id == f"r{number}"]
            runner.decide(wait.id, Deny(by="lee" if number else "ines"))
        with serve_console(office) as url, chromium.open_tab(browser) as tab:
            tab.goto(f"{url}/inbox/decided?by=ines")
            tab.wait_for_selector(".decided tbody tr")
            assert 1 == tab.locator(".decided tbody tr").count()
            tab.reload()
            assert 1 == tab.locator(".decided tbody tr").count()
