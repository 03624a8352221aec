"""Each page with big content in Chromium: it draws in time, and all of it can be read.

No test measures seconds. The cost of a page is counted: the nodes that it lays out, and
the characters in them. Chromium laid out 1 MB of some texts for over a minute.
"""

from __future__ import annotations

from collections.abc import Generator
from hashlib import sha256
from typing import Any

import pytest

from continuations.models.scripted import ToolCall
from tests.browser import chromium
from tests.browser.big_content import END, TEXTS, BigContent, run_big_content
from tests.sampling import sample

RUNS = (
    *TEXTS,
    *("nested", "fields", "option", "options", "calls", "waits", "message"),
    *("history", "levels", "several", "question"),
)
PAGES = (
    *("run", "call", "transcript", "fork", "versions", "difference", "rewind"),
    *("wait", "edit", "remember", "answer", "link"),
)
# axe needs minutes for 5,000 choices, and sees the same in 50.
EXAMINED = tuple(each for each in reversed(RUNS) if not each.startswith("option"))
READ = ("wait", "link", "fork", "call", "transcript")
# A page of 0.3 s has about these.
MAX_CHARS, MAX_ELEMENTS, MAX_BYTES = 150_000, 20_000, 900_000
# Text that is neither folded by `details` nor skipped by `content-visibility`.
_COST = """() => {
  const isDrawn = each => each.checkVisibility({contentVisibilityAuto: true});
  const drawn = [...document.body.querySelectorAll("*")].filter(isDrawn);
  let chars = 0;
  for (const each of drawn) {
    if (each.tagName === "TEXTAREA") chars += each.value.length;
    for (const child of each.childNodes)
      if (child.nodeType === 3) chars += child.data.length;
  }
  return [chars, drawn.length, document.documentElement.outerHTML.length];
}"""

if chromium.is_installed():

    @pytest.fixture(scope="module")
    def big() -> Generator[BigContent]:
        """Serve the pages."""
        with run_big_content() as served:
            yield served

    def cost(tab: Any) -> tuple[int, int, int]:
        """Return the drawn characters and elements of a page, and its length."""
        chars, elements, size = tab.evaluate(_COST)
        return chars, elements, size

    def is_cheap(tab: Any) -> bool:
        """Return whether a browser draws a page in time."""
        chars, elements, size = cost(tab)
        return chars < MAX_CHARS and elements < MAX_ELEMENTS and size < MAX_BYTES

    @pytest.mark.parametrize("run_id", sample(RUNS, 4))
    def test_each_page_draws_in_time(big: BigContent, tab: Any, run_id: str) -> None:
        dear: dict[str, tuple[int, int, int]] = {}
        for name, url in big.paths(run_id).items():
            tab.goto(url)
            if not is_cheap(tab):
                dear[name] = cost(tab)
        assert {} == dear

    @pytest.mark.parametrize("key", ["big", "long"])
    def test_chat_draws_in_time(big: BigContent, tab: Any, key: str) -> None:
        run_id = big.threads[key]
        for path in (f"/threads/{run_id}", f"/runs/{run_id}", "/threads", "/inbox"):
            tab.goto(f"{big.console_url}{path}")
            assert is_cheap(tab), (path, cost(tab))

    @pytest.mark.parametrize("run_id", sample(EXAMINED, 8))
    def test_each_page_is_accessible(big: BigContent, tab: Any, run_id: str) -> None:
        """Nothing scrolls that the keyboard cannot scroll."""
        pages = big.paths(run_id)
        for number, name in enumerate(PAGES):
            if name in pages and number % 3 == len(run_id) % 3:
                tab.goto(pages[name])
                assert [] == chromium.violations(tab), name

    @pytest.mark.parametrize("page", sample(READ, 2))
    def test_everything_can_be_read_without_script(
        big: BigContent, browser: Any, page: str
    ) -> None:
        """The length is said, and the parts and the download are complete."""
        text = TEXTS["hebrew"]
        run_id = "message" if page == "transcript" else "hebrew"
        context = browser.new_context(java_script_enabled=False)
        tab = context.new_page()
        tab.goto(big.paths(run_id)[page])
        fold = tab.locator(".fold:visible").first
        assert fold.inner_text().startswith(
            "1,048,576 characters, the first 2,000 shown."
        )
        assert text[:2000] in tab.locator("main").inner_text()

        fold.get_by_role("link", name="Read all").click()
        assert text[:20_000] == tab.locator(".textpart").inner_text()
        tab.get_by_role("link", name="Next").first.click()
        assert text[20_000:40_000] == tab.locator(".textpart").inner_text()
        tab.get_by_role("link", name="Last").first.click()
        assert tab.locator(".textpart").inner_text().endswith(END)
        digest = sha256(text.encode()).hexdigest()
        assert digest in tab.locator("main").inner_text()

        with tab.expect_download() as download:
            tab.get_by_role("link", name="Download the whole text").click()
        assert text.encode() == download.value.path().read_bytes()
        tab.get_by_role("link", name="Back to the page").click()
        fold.wait_for()
        context.close()

    def test_recorded_decision_draws_in_time(big: BigContent, tab: Any) -> None:
        """The effect of a decision is its title, which says its length."""
        big.start("asked", ToolCall("ask_long"))
        tab.goto(big.paths("asked")["wait"])
        tab.get_by_role("textbox").first.fill("no")
        tab.get_by_role("button", name="Answer", exact=True).click()
        tab.get_by_role("heading", name="Recorded: Answered").wait_for()
        assert "(1,048,576 characters)" in tab.inner_text("main")
        assert is_cheap(tab), cost(tab)

    def test_part_is_accessible(big: BigContent, tab: Any) -> None:
        tab.goto(big.paths("words")["wait"])
        tab.locator(".fold a").first.click()
        assert [] == chromium.violations(tab)

    def test_argument_that_is_too_long_for_a_form_keeps_its_value(
        big: BigContent, tab: Any
    ) -> None:
        tab.goto(big.paths("lines")["edit"])
        assert "1,048,576 characters, too many for a form" in tab.inner_text("main")
        assert 0 == tab.locator("#edit textarea").count()

    def test_calls_of_a_turn_are_folded(big: BigContent, tab: Any) -> None:
        tab.goto(big.paths("waits")["transcript"])
        line = tab.locator(".calls li").first
        assert not line.is_visible()
        tab.get_by_text("1,000 calls").click()
        assert line.is_visible()
