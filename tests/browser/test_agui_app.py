"""examples/agui_app in a real browser: a question, an approval, two people, a crash."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.chat_server import PASSWORD, ChatServer, run_chat_server
from tests.examples.example_process import EXAMPLES
from tests.interop.agui.clients import PACKAGES

FOLDER = EXAMPLES / "agui_app"
ESBUILD = PACKAGES / "esbuild/bin/esbuild"
DONE = (
    "Good news: 12.50 EUR are on their way for order A-17. It takes about three days."
)
TIMEOUT_MS = 60_000

if chromium.is_installed() and ESBUILD.exists():

    @pytest.fixture
    def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ChatServer]:
        """Build the page, and run the example in an empty folder."""
        folder = tmp_path_factory.mktemp("agui")
        script = folder / "page.js"
        options = ["--bundle", "--format=esm", "--log-level=warning"]
        subprocess.run(
            [ESBUILD, FOLDER / "page.mjs", *options, f"--outfile={script}"],
            env={"NODE_PATH": str(PACKAGES)},
            check=True,
        )
        with run_chat_server(folder, FOLDER, PAGE_SCRIPT=str(script)) as running:
            yield running

    @pytest.fixture
    def people(browser: Any) -> Generator[list[Any]]:
        """Yield the tab of a customer and that of a colleague, in two browsers."""
        login = {"username": "kim", "password": PASSWORD}
        contexts = [
            browser.new_context(viewport=chromium.DESKTOP, reduced_motion="reduce"),
            browser.new_context(viewport=chromium.DESKTOP, http_credentials=login),
        ]
        for context in contexts:
            context.set_default_timeout(TIMEOUT_MS)
        yield [context.new_page() for context in contexts]
        for context in contexts:
            context.close()

    def write(tab: Any, label: str, text: str) -> None:
        """Write into a field, and send it."""
        tab.get_by_label(label).fill(text)
        tab.keyboard.press("Enter")

    def see(tab: Any, text: str) -> None:
        """Wait until a message with a text stands on the page."""
        tab.locator("#log .message", has_text=text).wait_for()

    def texts(tab: Any) -> list[str]:
        """Return the messages that a page shows."""
        found: list[str] = tab.locator("#log .message").all_inner_texts()
        return found

    def test_customer_answers_and_colleague_approves(
        server: ChatServer, people: list[Any]
    ) -> None:
        """Each person answers their own card; the server dies in between."""
        customer, colleague = people
        customer.goto(server.url)
        write(customer, "Your message", "My lamp arrived broken.")
        customer.get_by_text("Which order is it?").wait_for()
        assert [] == chromium.violations(customer)
        write(customer, "Your answer", "A-17")
        customer.get_by_text("A colleague checks this.").wait_for()
        assert 0 == customer.get_by_role("button", name="Approve").count()

        colleague.goto(customer.url.replace("/chats/", "/staff/"))
        colleague.get_by_text("Refund 12.50 EUR for order A-17").wait_for()
        assert [] == chromium.violations(colleague)
        server.kill()
        assert [] == server.refunds()
        server.start()
        colleague.get_by_role("button", name="Approve").click()
        for tab in people:
            see(tab, DONE)
            tab.locator(".card").wait_for(state="detached")
            assert texts(tab) == ["My lamp arrived broken.", DONE]
        assert ["1250 cents for A-17"] == server.refunds()

    def test_two_people_answer_two_cards_that_are_open_at_once(
        server: ChatServer, people: list[Any]
    ) -> None:
        """No answer is lost or taken for the other; each tab has both cards."""
        customer, colleague = people
        customer.goto(server.url)
        write(customer, "Your message", "Refund A-17")
        colleague.goto(customer.url.replace("/chats/", "/staff/"))
        for tab in people:
            tab.get_by_text("May we ask what was wrong with it?").wait_for()
            assert 2 == tab.locator(".card").count()
        colleague.get_by_role("button", name="Approve").click()
        for tab in people:
            tab.locator(".card").nth(1).wait_for(state="detached")
        assert ["1250 cents for A-17"] == server.refunds()
        write(customer, "Your answer", "It is broken.")
        for tab in people:
            see(tab, DONE)
            assert texts(tab) == ["Refund A-17", DONE]
        assert ["1250 cents for A-17"] == server.refunds()

    def test_page_cannot_approve_for_a_colleague(
        server: ChatServer, people: list[Any]
    ) -> None:
        """The customer sends approvals as the client of the page: all are refused."""
        customer, _ = people
        customer.goto(server.url)
        write(customer, "Your message", "Refund A-17")
        customer.get_by_text("A colleague checks this.").wait_for()
        cards = customer.locator(".card").all()
        resume = [
            {
                "interruptId": card.get_attribute("id"),
                "status": "resolved",
                "payload": {"approved": True},
            }
            for card in cards
        ]
        turn = {"runId": "r1", "messages": [], "resume": resume}
        answer = customer.request.post(
            f"{server.url}/agent/",
            data={**turn, "threadId": customer.url.rpartition("/")[2]},
        )
        assert '"code":"decision-refused"' in answer.text()
        assert [] == server.refunds()
