"""The pages of waits in a real browser: order, tokens, keyboard, phone, two tabs.

Each page follows the rules of WCAG 2.2 A and AA and the best practices of axe-core, in
light, in dark and on a phone. No page scrolls sideways at 320 px.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from typing import Any

import pytest

from continuations import Deny, Wait
from continuations.errors import AlreadyDecided
from continuations.models.scripted import ToolCall
from tests.browser import chromium
from tests.browser.wait_scenes import TRANSFER, WaitScenes, run_console
from tests.sampling import sample

ORDER = (
    ".lead .pill",
    ".lead h1",
    ".lead .note",
    "#arguments",
    ".args",
    "#why",
    "#decide .clock",
    "#approve button",
    "#deny button",
    "#deny textarea",
    "#decide .instead",
    "#decide .more",
    "#origin",
    "details summary >> text=Details for developers",
)
# The tokens of the style: the colors of a button and of a state, and the radius.
TOKENS = {
    "light": ("rgb(31, 79, 196)", "rgb(176, 35, 27)", "rgb(253, 241, 216)"),
    "dark": ("rgb(58, 102, 214)", "rgb(255, 157, 147)", "rgb(46, 36, 15)"),
}
HOSTILE = (
    "<script>document.title='hacked'</script>",
    '"><img src=x onerror="document.title=1">',
    "\u202e00.5€ yaP\u2066",
    "a\u200bb\x00",
    "</textarea></form><form><button>Approve</button>",
)


def is_open(scenes: WaitScenes, wait: Wait) -> bool:
    """Return whether a wait has neither a decision nor a vote."""
    try:
        return () == scenes.decider.wait(wait.id).votes
    except AlreadyDecided:
        return False


def styles(tab: Any, selector: str, name: str) -> str:
    """Return a computed style of an element."""
    script = "(e, name) => getComputedStyle(e)[name]"
    return str(tab.locator(selector).first.evaluate(script, name))


if chromium.is_installed():

    @pytest.fixture(scope="module")
    def scenes() -> Generator[WaitScenes]:
        """Serve the console."""
        with run_console() as served:
            yield served

    def test_every_page_is_accessible(scenes: WaitScenes, browser: Any) -> None:
        """Every kind of wait, open and decided, and the rare ways to decide."""
        paths = scenes.examined()
        decided = scenes.open("refund", "decided")
        scenes.decider.decide(decided.id, Deny(by="kim", reason="wrong order"))
        own = scenes.open("transfer", "own-request")
        paths |= {
            "decided": f"/waits/{decided.id}",
            "edit": f"/waits/{own.id}/edit",
            "remember": f"/waits/{own.id}/remember",
            "answer": f"/waits/{own.id}/answer",
            "unknown wait": "/waits/approval-01k9f3w8q2m4@nothing",
        }
        found: dict[str, list[str]] = {}
        with chromium.open_tab(browser) as tab:
            for name, path in sample([*paths.items()], 2):
                tab.goto(scenes.base_url + path)
                found[name] = chromium.violations(tab)
            tab.goto(scenes.base_url + paths["edit"])
            tab.get_by_label("Cents").fill("twelve")
            tab.get_by_role("button", name="Show the changed call").click()
            found["errors"] = chromium.violations(tab)
            tab.get_by_label("Cents").fill("500")
            tab.get_by_role("button", name="Show the changed call").click()
            assert tab.locator("h1").inner_text().startswith("Send €5.00")
            found["review"] = chromium.violations(tab)

        assert {} == {name: broken for name, broken in found.items() if broken}

    @pytest.mark.parametrize("size", [chromium.DESKTOP, chromium.PHONE])
    def test_page_has_the_order_of_its_parts(
        scenes: WaitScenes, tab: Any, size: dict[str, int]
    ) -> None:
        """The document has the same order on every screen."""
        tab.set_viewport_size(size)
        tab.goto(scenes.url(scenes.open("transfer", f"order-{size['width']}")))
        handles = [tab.locator(each).first.element_handle() for each in ORDER]

        follows = "([one, other]) => one.compareDocumentPosition(other)"
        for one, other in pairwise(handles):
            # 4: the other follows; 20: it is inside.
            assert tab.evaluate(follows, [one, other]) in (4, 20)

    def test_colors_come_from_the_tokens(scenes: WaitScenes, tab: Any) -> None:
        """Approve is blue, Deny is a red outline of the same width."""
        tab.goto(scenes.url(scenes.open("transfer", "tokens")))
        for scheme, (accent, danger, waiting) in TOKENS.items():
            tab.emulate_media(color_scheme=scheme)
            assert accent == styles(tab, "#approve button.btn", "background-color")
            assert danger == styles(tab, "#deny button.btn", "border-color")
            assert danger == styles(tab, "#deny button.btn", "color")
            assert waiting == styles(tab, ".pill", "background-color")
        assert "10px" == styles(tab, ".card", "border-radius")
        widths = [
            styles(tab, f"#{each} button.btn", "width") for each in ("approve", "deny")
        ]
        assert widths[0] == widths[1]

    def test_bar_of_a_phone_jumps_and_decides_nothing(
        scenes: WaitScenes, tab: Any
    ) -> None:
        wait = scenes.open("refund", "phone")
        tab.set_viewport_size(chromium.PHONE)
        tab.goto(scenes.url(wait))
        bar = tab.get_by_role("complementary", name="Shortcut")
        assert "in 3 h 59 min" in bar.inner_text()

        bar.get_by_role("link", name="Decide").click()

        assert tab.url.endswith("#decide")
        top = tab.locator("#decide").evaluate("e => e.getBoundingClientRect().top")
        assert -1 <= top < chromium.PHONE["height"]
        assert is_open(scenes, wait)
        tab.set_viewport_size(chromium.DESKTOP)
        assert not bar.is_visible()

    def test_inbox_folds_the_answer_of_a_deadline(scenes: WaitScenes, tab: Any) -> None:
        """The answer is a long line beside the title."""
        scenes.open("laptop", "folded")
        for size in (chromium.DESKTOP, chromium.PHONE, chromium.NARROWEST):
            tab.set_viewport_size(size)
            tab.goto(f"{scenes.base_url}/inbox?for=all")
            assert "extended warranty" in tab.locator("main").text_content()
            width = tab.evaluate("document.documentElement.scrollWidth")
            assert size["width"] >= width

    def test_targets_of_a_phone_are_large(scenes: WaitScenes, tab: Any) -> None:
        tab.set_viewport_size(chromium.PHONE)
        tab.goto(scenes.url(scenes.open("transfer", "targets")))

        script = "all => all.map(e => e.getBoundingClientRect().height)"
        heights = tab.locator("#decide button, .tobar .btn, #decide a").evaluate_all(
            script
        )

        assert heights
        assert min(heights) >= 43.5

    def test_decision_by_keyboard_alone(scenes: WaitScenes, tab: Any) -> None:
        """No single key decides: the button has the focus first."""
        wait = scenes.open("refund", "keyboard")
        tab.goto(scenes.url(wait))
        for key in "adrjkn":
            tab.keyboard.press(key)
        assert is_open(scenes, wait)
        tab.goto(scenes.url(wait))
        for _ in range(40):
            tab.keyboard.press("Tab")
            script = "document.activeElement.textContent"
            if tab.evaluate(script).startswith("Approve €42.50"):
                break
        assert is_open(scenes, wait)
        tab.keyboard.press("Enter")

        tab.get_by_text("Recorded: Approved").wait_for()
        assert not is_open(scenes, wait)

    def test_decision_without_script(scenes: WaitScenes, browser: Any) -> None:
        context = browser.new_context(java_script_enabled=False)
        try:
            tab = context.new_page()
            wait = scenes.open("laptop", "no-script")
            tab.goto(scenes.url(wait))
            tab.get_by_label("Model").fill("X1")
            tab.get_by_label("Extended warranty").check()
            tab.get_by_role("button", name="Answer", exact=True).click()
            assert "Recorded: Answered" in tab.locator("main").inner_text()
        finally:
            context.close()
        with pytest.raises(AlreadyDecided) as error:
            scenes.decider.wait(wait.id)
        value = error.value.decision.value
        assert '{"extended_warranty":true,"model":"X1"}' == value

    def test_second_of_two_tabs_is_told_who_was_first(
        scenes: WaitScenes, browser: Any
    ) -> None:
        wait = scenes.open("campaign", "two-tabs")
        with chromium.open_tab(browser) as one, chromium.open_tab(browser) as other:
            host = {"url": scenes.base_url}
            other.context.add_cookies([{"name": "person", "value": "lee", **host}])
            for each in (one, other):
                each.goto(scenes.url(wait))
            one.get_by_role("button", name="Deny: nothing runs").click()
            other.get_by_role("button", name="Approve", exact=True).click()

            text = other.locator("main").inner_text()
            assert "Somebody else decided first" in text
            assert "kim" in text
            assert "Denied" in text
            assert [] == chromium.violations(other)

    def test_reader_of_an_open_page_is_told_who_was_first(
        scenes: WaitScenes, tab: Any
    ) -> None:
        """The bar appears without a reload, and the buttons become inactive."""
        wait = scenes.open("campaign", "live")
        tab.goto(scenes.url(wait))
        tab.get_by_label("Reason: tell the agent why").fill("I am typing")
        scenes.decider.decide(wait.id, Deny(by="lee", reason="wrong week"))

        tab.get_by_text("lee decided first: Denied.", exact=True).wait_for()

        assert "Reason: wrong week" in tab.locator("#wait-state").inner_text()
        buttons = tab.locator("#decide button")
        disabled = "all => all.map(e => e.disabled)"
        assert {True} == set(buttons.evaluate_all(disabled))
        # Also the rare ways: no link, no menu, and the reason beside them.
        assert 0 == tab.locator("#decide a[href]").count()
        assert tab.evaluate("document.querySelector('#ways').inert")
        card = tab.locator("#decide > .notice").inner_text()
        assert "Inactive: lee decided first: Denied." == card
        assert not tab.locator(".live").is_visible()
        assert "I am typing" == tab.get_by_label("Reason: tell").input_value()
        assert [] == chromium.violations(tab)

    def test_keys_move_the_focus_to_the_forms(scenes: WaitScenes, tab: Any) -> None:
        tab.goto(scenes.url(scenes.open("refund", "keys")))

        tab.keyboard.press("a")
        script = "document.activeElement.textContent.trim()"
        assert tab.evaluate(script).startswith("Approve €42.50")
        tab.keyboard.press("d")
        assert "deny-reason" == tab.evaluate("document.activeElement.id")

    def test_hostile_call_forges_nothing_and_is_shown_whole(
        scenes: WaitScenes, tab: Any
    ) -> None:
        """Script tags, bidirectional text, a megabyte, and deep nesting."""
        big = "x" * 1_000_000 + " rm -rf"
        call = {**TRANSFER, "to": " ".join(HOSTILE), "reference": big}
        wait = scenes.start("hostile", ToolCall("transfer", call))

        tab.goto(scenes.url(wait))

        assert tab.title().startswith("Send €12,400.00 from Operations to <script>")
        cells = tab.locator(".args td").all_inner_texts()
        assert any("1,000,007 characters, the first" in cell for cell in cells)
        assert any(r"\u202e00.5€ yaP\u2066" in cell for cell in cells)
        forms = tab.locator("form").evaluate_all("all => all.map(e => e.id)")
        assert ["approve", "deny", "answer"] == forms
        assert 0 == tab.locator("main script, main img, main style").count()
        tab.set_viewport_size(chromium.NARROWEST)
        width = tab.evaluate("document.documentElement.scrollWidth")
        assert chromium.NARROWEST["width"] >= width

    def test_approve_and_deny_have_the_same_height(
        scenes: WaitScenes, tab: Any
    ) -> None:
        for name in ("refund", "transfer", "campaign"):
            tab.goto(scenes.url(scenes.open(name, f"height-{name}")))
            script = "all => all.map(e => Math.round(e.getBoundingClientRect().height))"
            heights = tab.locator("#decide form .btn:visible").evaluate_all(script)
            assert 1 == len(set(heights)), (name, heights)
