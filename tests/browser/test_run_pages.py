"""The pages about runs in Chromium: accessible, narrow, without script, many levels."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, Runner, tool
from continuations.attachments import File, Image
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.browser import chromium
from tests.browser.served_app import serve_console
from tests.sampling import sample
from tests.serve.pages.invoice_run import RUN, InvoiceRun
from tests.serve.pages.work_run import WorkRun

PICTURE = Path(__file__).parents[2] / "docs/images/console-inbox-phone.png"
HOSTILE = "\u202e<script>document.title='owned'</script>" + "A" * 200
LEVELS = 1000


@tool(approval=True)
def act(what: str) -> str:
    """Act."""
    return what


def add_runs(run: InvoiceRun) -> None:
    """Add a run of 1,000 levels, one with hostile texts, and a thread."""
    asks = ScriptedModel([ToolCall("act", {"what": "deep"})])
    agent = Agent(f"level{LEVELS}", tools=[act], model=asks)
    for level in range(LEVELS - 1, 0, -1):
        call = ToolCall(agent.name, {"input": f"level {level + 1}"})
        agent = Agent(f"level{level}", tools=[agent], model=ScriptedModel([call]))
    options: dict[str, Any] = {"store": run.store, "clock": run.clock}
    Runner(agent, **options).start("go", run_id="deep")
    huge = ScriptedModel([ToolCall("act", {"what": HOSTILE * 5000})])
    hostile = Agent("boss", tools=[act], model=huge)
    Runner(hostile, **options).start(HOSTILE, run_id="hostile", by="<b>kim</b>")
    chat = Agent("support", model=ScriptedModel(["Line 1\nLine 2", HOSTILE]))
    thread = Runner(chat, **options).thread("support", key="customer 42")
    thread.send("Where is my parcel?", by="customer-42")
    thread.send(HOSTILE, by="customer-42")
    looker = Agent("looker", model=ScriptedModel(["A receipt."]))
    name = '"><script>document.title="owned"<|script>' + "A" * 120 + ".html"
    page = File(b"<script>alert(1)</script>", "text/html", name)
    photo = Image(PICTURE.read_bytes(), "image/png", "waiting.png")
    broken = Image(b"no image", "image/gif", "broken.gif")
    Runner(looker, **options).start(["Look.", photo, page, broken], run_id="files")


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    """Serve the console of all runs."""
    run = InvoiceRun.interrupted()
    add_runs(run)
    with serve_console(run) as url:
        yield url


PAGES = {
    "run": f"/runs/{RUN}?call=c16",
    "log": f"/runs/{RUN}?view=log",
    "old": f"/runs/{RUN}?version=8",
    "runs": "/runs",
    "actions": f"/runs/{RUN}/actions",
    "cancel": f"/runs/{RUN}/cancel",
    "cancel-call": f"/runs/{RUN}/cancel?call=c16",
    "rewind": f"/runs/{RUN}/rewind?version=8",
    "drift": "/drift",
    "erase": f"/runs/{RUN}/erase",
    "messages": f"/runs/{RUN}/messages",
    "versions": f"/runs/{RUN}/versions",
    "difference": f"/runs/{RUN}/versions?from=8&to=11",
    "hostile": "/runs/hostile?call=c2",
    "files": "/runs/files/messages",
    "hostile-messages": "/runs/hostile/messages",
    "deep": "/runs/deep",
    "fork": f"/runs/{RUN}/fork?version=8",
    "threads": "/threads",
    "grants": "/grants",
}


@pytest.mark.parametrize("name", sample(sorted(PAGES), 3))
def test_page_is_accessible_in_each_mode_and_size(
    browser: Any, address: str, name: str
) -> None:
    with chromium.open_tab(browser) as tab:
        assert tab.goto(address + PAGES[name]).ok
        assert "owned" != tab.title()
        assert [] == chromium.violations(tab)


def test_image_of_a_message_is_shown_and_its_link_saves_the_bytes(
    browser: Any, address: str
) -> None:
    """The policy of the page lets its own images through, and nothing else."""
    with chromium.open_tab(browser) as tab:
        tab.goto(f"{address}/runs/files/messages")
        image = tab.locator(".files img").first
        image.scroll_into_view_if_needed()
        tab.wait_for_function("document.querySelector('.files img').naturalWidth > 0")
        with tab.expect_download() as download:
            tab.click(".files a >> nth=1")
        saved = download.value
        assert b"<script>alert(1)</script>" == Path(saved.path()).read_bytes()
        assert saved.suggested_filename.endswith(".html")
        assert "owned" != tab.title()


def test_chat_is_accessible_and_keeps_the_lines_of_a_reply(
    browser: Any, address: str
) -> None:
    with chromium.open_tab(browser) as tab:
        tab.goto(f"{address}/threads")
        tab.click("text=customer 42")
        assert [] == chromium.violations(tab)
        assert "Line 1\nLine 2" == tab.locator(".assistant .value").first.inner_text()
        assert "owned" != tab.title()


def test_run_page_has_the_order_and_the_tokens_of_its_design(
    browser: Any, address: str
) -> None:
    """Banner, table and log follow each other; the call stands beside the log.

    On a phone, the call stands before the log.
    """
    with chromium.open_tab(browser) as tab:
        tab.goto(address + PAGES["run"])

        def box(selector: str) -> dict[str, float]:
            found: dict[str, float] = tab.locator(selector).first.bounding_box()
            return found

        parts = [".runhead h1", ".runfacts", ".banner", "#tree", ".log"]
        tops = [box(each)["y"] for each in parts]
        assert sorted(tops) == tops
        assert box("section:has(#call)")["x"] > box(".log")["x"]
        styles = tab.evaluate(
            """() => [".banner", "#p-hold .hold", "#p-lost .lost", ".lane .sleep"].map(
                 (each, index) => getComputedStyle(document.querySelector(each))
                   [index ? "fill" : "backgroundColor"])"""
        )
        amber, gold = "rgb(253, 241, 216)", "rgb(227, 168, 61)"
        violet, grey = "rgb(155, 120, 216)", "rgb(240, 242, 245)"
        assert [amber, gold, violet, grey] == styles
        tab.set_viewport_size(chromium.PHONE)
        assert not tab.locator(".tree .c3").first.is_visible()
        assert box(".log")["y"] > box("section:has(#call)")["y"] > box("#tree")["y"]


def test_thousand_levels_open_row_by_row_without_script(
    browser: Any, address: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{address}/runs/deep")
    last = [f"level{LEVELS}", "act"]
    names = tab.locator(".tree tbody th a:not(.fold)")
    assert ["level1", "level2", "level3", *last] == names.all_inner_texts()
    assert tab.locator("text=996 more levels").is_visible()

    tab.click("a.fold")

    shown = [f"level{number}" for number in range(1, 7)]
    assert [*shown, *last] == names.all_inner_texts()
    tab.click("a.fold >> nth=-1")
    shown = [f"level{number}" for number in (1, 2, 3, 5, 6, 7, 8, 9)]
    assert [*shown, *last] == names.all_inner_texts()
    context.close()


def test_call_that_waits_is_in_sight_with_its_arguments(
    browser: Any, address: str
) -> None:
    """At the right of the log on a wide screen; below the tree on a phone."""
    with chromium.open_tab(browser) as tab:
        tab.goto(f"{address}/runs/{RUN}")
        assert "transfer" == tab.inner_text(".tree a[aria-current]")
        assert "Meridian Freight" in tab.inner_text("#side")
        top = tab.locator("#side").bounding_box()["y"]
        assert top == tab.locator("#events").bounding_box()["y"]
        for words in ("Run", "Log", "Transcripts", "Versions"):
            assert tab.is_visible(f".tabs >> text={words}")


def test_phone_says_that_the_run_waits_before_its_buttons(
    browser: Any, address: str
) -> None:
    with chromium.open_tab(browser) as tab:
        tab.set_viewport_size(chromium.PHONE)
        tab.goto(f"{address}/runs/{RUN}")
        banner, acts = (
            tab.locator(each).bounding_box() for each in (".banner", "#acts")
        )
        assert banner["y"] + banner["height"] <= acts["y"]
        widths = [
            each.bounding_box()["width"] for each in tab.locator("#acts .btn").all()
        ]
        assert widths
        assert max(widths) < chromium.PHONE["width"] / 2
        for each in tab.locator("#acts .btn, .tabs a").all():
            assert each.bounding_box()["height"] >= 44


def test_events_of_a_call_unfold_without_script(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{address}/runs/{RUN}?view=log")
    steps = tab.locator(".log li:has-text('read_mailbox') .substeps")
    assert not steps.is_visible()

    tab.click(".log li:has-text('read_mailbox') summary")

    assert 3 == steps.locator("li").count()
    assert steps.is_visible()
    assert "started" in steps.inner_text()
    context.close()


def test_days_of_the_log_are_those_of_its_entries(browser: Any, address: str) -> None:
    """The events within an entry have no days: the script leaves them alone."""
    with chromium.open_tab(browser, timezone_id="America/New_York") as tab:
        tab.goto(f"{address}/runs/{RUN}?view=log")
        assert 1 == tab.locator(".log .day").count()
        assert 0 == tab.locator(".substeps .day").count()
        assert "04:02:00" == tab.locator(".log > li time").last.inner_text()


def test_log_of_a_thousand_calls_is_near_the_top(browser: Any) -> None:
    run = WorkRun(100)
    run.start()
    with serve_console(run) as url, chromium.open_tab(browser) as tab:
        tab.goto(f"{url}/runs/work")
        assert tab.locator(".log").bounding_box()["y"] < 1300
        assert [] == chromium.violations(tab)
        tab.click(".tabs >> text=Log")
        tab.wait_for_url("**view=log*")
        assert tab.locator(".log").bounding_box()["y"] < 500
        assert [] == chromium.violations(tab)


def test_fork_shows_only_the_field_of_its_choice(browser: Any, address: str) -> None:
    with chromium.open_tab(browser) as tab:
        tab.goto(f"{address}/runs/{RUN}/fork?version=8")
        wait = tab.locator("fieldset").first
        reason, answer = wait.locator(".if-deny"), wait.locator(".if-answer")
        assert (False, False) == (reason.is_visible(), answer.is_visible())
        wait.locator("[value=deny]").check()
        assert (True, False) == (reason.is_visible(), answer.is_visible())
        wait.locator("[value=answer]").check()
        assert (False, True) == (reason.is_visible(), answer.is_visible())
        assert [] == chromium.violations(tab)


def test_title_of_a_difference_does_not_touch_its_card(
    browser: Any, address: str
) -> None:
    with chromium.open_tab(browser) as tab:
        tab.goto(address + PAGES["difference"])
        title = tab.locator("h1").bounding_box()
        assert tab.locator(".card").first.bounding_box()["y"] >= (
            title["y"] + title["height"] + 12
        )


def test_run_is_paused_and_cancelled_by_keyboard_alone(browser: Any) -> None:
    run = InvoiceRun.suspended()
    with serve_console(run) as url, chromium.open_tab(browser) as tab:
        tab.goto(f"{url}/runs/{RUN}")

        _tab_to(tab, "Pause")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("text=End the pause")
        _tab_to(tab, "More…")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#do")
        _tab_to(tab, "Cancel…")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#field")
        assert "suspended" == run.runner.look(RUN).status
        _tab_to(tab, "Cancel the run")
        tab.keyboard.press("Enter")
        tab.wait_for_selector(".runhead:has-text('Cancelled')")
    assert "cancelled" == run.runner.look(RUN).status


def test_open_page_follows_its_run_and_spares_the_focus(browser: Any) -> None:
    """Another process votes and decides; the page changes without a reload."""
    run = InvoiceRun.suspended()
    with serve_console(run) as url, chromium.open_tab(browser) as tab:
        tab.goto(f"{url}/runs/{RUN}")
        tab.evaluate("window.sameDocument = true")
        tab.wait_for_selector(".live")
        tab.focus(".tree a")

        run.runner.cancel(RUN, by="kim", reason="wrong month")

        tab.wait_for_selector(".runhead:has-text('Cancelled')")
        tab.wait_for_selector(".log:has-text('wrong month')")
        assert tab.locator(".tree:has-text('asks')").count()  # it has the focus
        tab.evaluate("document.activeElement.blur()")
        tab.wait_for_selector(".tree:not(:has-text('asks'))")
        assert tab.evaluate("window.sameDocument")


def test_open_chat_shows_each_text_once(browser: Any) -> None:
    run = InvoiceRun()
    replies = ScriptedModel(["First reply", "Second reply"])
    runner = Runner(Agent("support", model=replies), store=run.store, clock=run.clock)
    thread = runner.thread("support", key="customer 42")
    thread.send("First question", by="customer-42")
    with serve_console(run) as url, chromium.open_tab(browser) as tab:
        tab.goto(f"{url}/threads")
        tab.click("text=customer 42")
        tab.fill("#text", "not sent yet")

        thread.send("Second question", by="customer-42")

        tab.wait_for_selector("text=Second reply")
        lines = tab.locator("#chat .value:visible").all_inner_texts()
        expected = ["First question", "First reply", "Second question", "Second reply"]
        assert expected == lines
        assert "not sent yet" == tab.input_value("#text")


def _tab_to(tab: Any, words: str) -> None:
    for _ in range(60):
        tab.keyboard.press("Tab")
        if words == tab.evaluate("document.activeElement.innerText.trim()"):
            return
    pytest.fail(f"the keyboard does not reach {words}")
