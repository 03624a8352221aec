"""How the page of a wait reads: its parts, its words, and its forms in a browser."""

from __future__ import annotations

from collections.abc import Generator
from datetime import date, timedelta
from typing import Any, Literal

import pytest

from continuations import ApprovalPolicy, Approve, Deny, Wait, ask, tool
from continuations.models.scripted import ToolCall
from tests.browser import chromium, wait_scenes
from tests.browser.wait_scenes import WaitScenes, run_console


@tool
def pick(what: str) -> Any:
    """Ask for a color."""
    return ask(
        f"Which {what}?",
        Literal["red", "green", "blue"],
        within=timedelta(hours=3),
        on_deadline=Deny(reason="the red one is ordered"),
    )


@tool
def limits(of: str) -> Any:
    """Ask for the limits of a customer, as JSON."""
    return ask(f"Which limits has {of}?", dict[str, Any])


@tool(approval=ApprovalPolicy(approvers=["group:oncall"]))
def deploy(service: str, place: str, replicas: int, note: str) -> str:
    """Start a service.

    Args:
        service: The service.
        place: Where it runs.
        replicas: How many times.
        note: A text for the log.
    """
    del service, place, replicas, note
    return "deployed"


@tool
def ask_day(what: str) -> Any:
    """Ask for a day."""
    return ask(f"When is {what}?", date)


TOOLS = (pick, limits, deploy, ask_day)
NOTE = "for tag in tags:\n    push(tag)"
DEPLOY = {"service": "checkout", "place": "production", "replicas": 12, "note": NOTE}


def gaps(tab: Any, selector: str) -> set[int]:
    """Return the distances between elements that follow each other, in px."""
    script = """all => all.slice(1).map((each, n) => Math.round(
      each.getBoundingClientRect().top - all[n].getBoundingClientRect().bottom))"""
    return set(tab.locator(selector).evaluate_all(script))


def style(tab: Any, selector: str, name: str) -> str:
    """Return a computed style of an element."""
    script = "(e, name) => getComputedStyle(e)[name]"
    return str(tab.locator(selector).first.evaluate(script, name))


if chromium.is_installed():

    @pytest.fixture(scope="module")
    def scenes() -> Generator[WaitScenes]:
        """Serve the console."""
        wait_scenes.TOOLS.extend(TOOLS)
        try:
            with run_console() as served:
                yield served
        finally:
            del wait_scenes.TOOLS[-len(TOOLS) :]

    def start(scenes: WaitScenes, run_id: str, name: str, /, **arguments: Any) -> Wait:
        """Start a run that calls a tool, and return its wait."""
        return scenes.start(run_id, ToolCall(name, arguments))

    @pytest.mark.parametrize("name", ["transfer", "payment", "laptop"])
    def test_cards_are_16_px_apart_beside_a_tall_form(
        scenes: WaitScenes, tab: Any, name: str
    ) -> None:
        tab.goto(scenes.url(scenes.open(name, f"gaps-{name}")))
        assert {16} == gaps(tab, ".part > .card")
        widest = tab.locator("#decide").evaluate("e => e.scrollWidth - e.clientWidth")
        assert 0 == widest

    def test_texts_are_read_as_texts_and_code_as_code(
        scenes: WaitScenes, tab: Any
    ) -> None:
        tab.goto(scenes.url(start(scenes, "faces", "deploy", **DEPLOY)))
        cells = tab.locator(".args td")
        [service, place, replicas, note] = [
            cells.nth(n).locator(".value").evaluate("e => e.localName")
            for n in range(4)
        ]
        assert ["span", "span", "code", "code"] == [service, place, replicas, note]
        assert "16px" == style(tab, ".args td span.value", "fontSize")
        assert "system-ui" in style(tab, ".args td span.value", "fontFamily")

    def test_title_without_summary_is_made_of_short_arguments(
        scenes: WaitScenes, tab: Any
    ) -> None:
        wait = start(scenes, "made", "deploy", **DEPLOY)
        tab.goto(scenes.url(wait))
        title = "Run deploy: checkout, production, 12, and 1 more argument"
        assert title == tab.locator("h1").inner_text()
        assert "made from the arguments" in tab.locator(".lead").inner_text()
        tab.goto(f"{scenes.base_url}/inbox?for=all")
        assert tab.get_by_role("link", name=title).first.is_visible()

    def test_rules_and_votes_are_sentences(scenes: WaitScenes, tab: Any) -> None:
        tab.goto(scenes.url(start(scenes, "oncall", "deploy", **DEPLOY)))
        why = tab.locator(".why").inner_text()
        assert "One person of oncall decides." in why
        assert "group:" not in tab.locator("main").inner_text()

        wait = scenes.open("transfer", "sentences")
        scenes.decider.decide(wait.id, Approve(by="ruth"))
        tab.goto(scenes.url(wait))
        text = "Two of kim, ruth and lee must agree. ruth has."
        assert text in tab.locator(".why").inner_text()

    def test_form_has_deadline_votes_approve_deny_and_then_reasons(
        scenes: WaitScenes, tab: Any
    ) -> None:
        tab.goto(scenes.url(scenes.open("transfer", "form")))
        parts = (".clock", ".votes", "#approve .btn", "#deny .btn", "#deny textarea")
        tops = [
            tab.locator(f"#decide {each}, #decide{each}").first.bounding_box()["y"]
            for each in (*parts, ".reasons")
        ]
        assert sorted(tops) == tops
        for name in ("Approve €12,400.00", "Deny: nothing runs"):
            box = tab.get_by_role("button", name=name, exact=True).bounding_box()
            assert 44 == round(box["height"])
        assert 12 >= tops[3] - tops[2] - 44
        # The reason of the approval is posted with it.
        tab.get_by_text("Give a reason for the approval").click()
        tab.get_by_label("Reason for the approval").fill("it is due")
        tab.get_by_role("button", name="Approve €12,400.00").click()
        assert "Your vote is recorded" in tab.locator("h1").inner_text()
        # Green, with the effect, and a way back.
        assert "rgb(229, 243, 234)" == style(tab, ".recorded", "backgroundColor")
        assert "Send €12,400.00 from" in tab.locator(".recorded").inner_text()
        assert tab.get_by_role("link", name="Back to it").is_visible()
        [wait] = scenes.decider.look("form").waits
        [vote] = scenes.decider.wait(wait.id).votes
        assert "it is due" == vote.reason

    def test_few_choices_are_radio_buttons_and_a_goes_there(
        scenes: WaitScenes, tab: Any
    ) -> None:
        wait = start(scenes, "radios", "pick", what="color")
        tab.goto(scenes.url(wait))
        assert 3 == tab.get_by_role("radio").count()
        assert 0 == tab.locator("select").count()
        tab.keyboard.press("a")
        assert "radio" == tab.evaluate("document.activeElement.type")
        assert [] == chromium.violations(tab)
        tab.get_by_label("green").check()
        tab.get_by_role("button", name="Answer").click()
        assert "Recorded: Answered" in tab.locator("h1").inner_text()

    def test_deadline_keeps_the_reason_of_its_denial(
        scenes: WaitScenes, tab: Any
    ) -> None:
        call = ToolCall("pick", {"what": "pen"})
        wait = scenes.start("denies", call)
        tab.goto(scenes.url(wait))
        words = "declined: the red one is ordered"
        assert words in tab.locator(".clock").inner_text()
        tab.goto(f"{scenes.base_url}/inbox?for=all")
        assert f"then {words}" in tab.locator("main").inner_text()

    def test_refused_form_goes_to_its_field_and_says_it_once(
        scenes: WaitScenes, tab: Any
    ) -> None:
        """An approver who writes no JSON reads what is missing, and where."""
        tab.goto(scenes.url(start(scenes, "refused", "limits", of="Jane")))
        field = tab.get_by_label("Answer, as JSON")
        field.fill('{"day": 5000 "week": 9}')
        tab.get_by_role("button", name="Answer").click()

        words = "This is not written as JSON: a comma or a closing bracket is missing"
        assert 1 == tab.locator("main").inner_text().count(words)
        assert "at character 14" in tab.locator("#answer .error").inner_text()
        assert "delimiter" not in tab.locator("main").inner_text()
        focused = "document.activeElement.name"
        assert "value:json:" == tab.evaluate(focused)
        assert '{"day": 5000 "week": 9}' == field.input_value()
        assert [] == chromium.violations(tab)
        # The person corrects the field, and sends the form without moving the pointer.
        field.fill('{"day": 5000, "week": 9}')
        tab.get_by_role("button", name="Answer").click()
        assert "Recorded: Answered" in tab.locator("h1").inner_text()

    def test_unknown_outcome_has_what_a_person_looks_up(
        scenes: WaitScenes, browser: Any
    ) -> None:
        wait = scenes.open("payment", "look-up")
        with chromium.open_tab(browser) as tab:
            tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
            tab.goto(scenes.url(wait))
            card = tab.get_by_role("region", name="Look it up")
            for label in ("Started", "Process", "Idempotency key"):
                assert label in card.inner_text()
            key = tab.locator("#key").inner_text()
            assert key.endswith(f"-{wait.call_id}")
            card.get_by_role("button", name="Copy").click()
            card.get_by_role("button", name="Copied").wait_for()
            assert key == tab.evaluate("navigator.clipboard.readText()")
            headings = tab.locator("#decide h2").all_inner_texts()
            assert ["What did you find?"] == [h for h in headings if h != "Votes"]
            assert "It may stay empty." in tab.locator("#answer").inner_text()

    def test_run_and_evidence_lead_to_their_pages(scenes: WaitScenes, tab: Any) -> None:
        wait = scenes.open("transfer", "evidence")
        tab.goto(scenes.url(wait))
        origin = tab.locator("#origin + *, section", has_text="Where it comes from")
        assert "Pay the invoices of November" in origin.last.inner_text()
        tab.get_by_role("link", name="match_order").click()
        assert "/runs/evidence?call=" in tab.url
        assert "match_order" == tab.locator("#call").inner_text()
        tab.goto(f"{scenes.url(wait)}/evidence/99")
        assert tab.url == f"{scenes.base_url}/runs/evidence"

    def test_live_is_said_only_by_a_page_that_follows(
        scenes: WaitScenes, browser: Any
    ) -> None:
        wait = scenes.open("campaign", "says-live")
        for address in (scenes.url(wait), f"{scenes.base_url}/inbox"):
            with chromium.open_tab(browser) as tab:
                tab.goto(address)
                tab.locator(".live").wait_for(state="visible")
            with chromium.open_tab(browser, java_script_enabled=False) as tab:
                tab.goto(address)
                assert not tab.locator(".live").is_visible()

    def test_fields_of_a_phone_are_44_px_high(scenes: WaitScenes, tab: Any) -> None:
        tab.set_viewport_size(chromium.PHONE)
        tab.goto(scenes.url(scenes.open("transfer", "phone-fields")))
        tab.get_by_text("Answer instead…").click()
        script = "all => all.map(e => e.getBoundingClientRect().height)"
        shown = tab.locator("#decide textarea:visible, #decide input:visible")
        assert 44 <= min(shown.evaluate_all(script))

    def test_button_of_an_unknown_outcome_opens_by_itself(
        scenes: WaitScenes, tab: Any
    ) -> None:
        """It says what it does, and from when on; then it can be pressed."""
        tab.clock.install()
        tab.goto(scenes.url(scenes.open("payment", "opens")))
        form = tab.locator("#approve")
        button = form.get_by_role("button", name="It did not happen: run it")
        assert button.is_disabled()
        words = form.inner_text()
        assert "Runs again, as shown: Pay €3,182.40 to Kettenwerk AG." in words
        assert "Available from" in words
        assert "600" == style(tab, "#approve .effect", "fontWeight")
        tab.clock.fast_forward("05:00")
        button.and_(tab.locator(":enabled")).wait_for()
        assert "Available from" not in form.inner_text()
        assert [] == chromium.violations(tab)

    def test_day_in_the_past_is_said_where_a_person_answers(
        scenes: WaitScenes, tab: Any
    ) -> None:
        tab.goto(scenes.url(start(scenes, "past", "ask_day", what="the move")))
        field = tab.locator("#answer input[type=date]")
        for day, words in {
            "2001-02-03": "This day is in the past.",
            "2999-01-01": "",
        }.items():
            field.fill(day)
            assert words == tab.locator("#answer .hint[role=status]").inner_text()
        assert [] == chromium.violations(tab)

    def test_ways_to_decide_say_what_they_do(scenes: WaitScenes, tab: Any) -> None:
        tab.goto(scenes.url(scenes.open("campaign", "ways")))
        more = tab.locator(".more").inner_text()
        assert "You choose which later calls run unasked, and how long." in more
        assert "You see the whole changed call before you approve it." in more
        assert "18,204" == tab.locator(".args .tag").inner_text()
