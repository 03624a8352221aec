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
    def people(browser: Any) -> Generator[Any]:
        """Return a browser context; its pages wait long for texts."""
        login = {"username": "kim", "password": PASSWORD}
        context = browser.new_context(
            viewport=chromium.DESKTOP, http_credentials=login, reduced_motion="reduce"
        )
        context.set_default_timeout(TIMEOUT_MS)
        yield context
        context.close()

    def see(tab: Any, text: str) -> None:
        """Wait until a message with a text stands on the page."""
        tab.locator("#log .message", has_text=text).wait_for()

    def texts(tab: Any) -> list[str]:
        """Return the messages that a page shows."""
        found: list[str] = tab.locator("#log .message").all_inner_texts()
        return found

    def test_customer_answers_and_colleague_approves(
        server: ChatServer, people: Any
    ) -> None:
        """Each person answers their own card; the server dies in between."""
        customer = people.new_page()
        customer.goto(server.url)
        customer.get_by_label("Your message").fill("My lamp arrived broken.")
        customer.keyboard.press("Enter")
        customer.get_by_text("Which order is it?").wait_for()
        assert [] == chromium.violations(customer)
        customer.get_by_label("Your answer").fill("A-17")
        customer.keyboard.press("Enter")
        customer.get_by_text("A colleague checks this.").wait_for()
        assert 0 == customer.get_by_role("button", name="Approve").count()

        colleague = people.new_page()
        colleague.goto(customer.url.replace("/chats/", "/staff/chats/"))
        colleague.get_by_text("Refund 12.50 EUR for order A-17").wait_for()
        assert [] == chromium.violations(colleague)
        server.kill()
        assert [] == server.refunds()
        server.start()
        colleague.get_by_role("button", name="Approve").click()
        for tab in (colleague, customer):
            see(tab, DONE)
            tab.locator(".card").wait_for(state="detached")
            assert texts(tab) == ["My lamp arrived broken.", DONE]
        assert ["1250 cents for A-17"] == server.refunds()

    def test_page_cannot_approve_for_a_colleague(
        server: ChatServer, people: Any
    ) -> None:
        """The customer sends an approval with the client of the page: it is refused."""
        customer = people.new_page()
        customer.goto(server.url)
        customer.get_by_label("Your message").fill("Refund A-17")
        customer.keyboard.press("Enter")
        customer.get_by_text("A colleague checks this.").wait_for()
        wait_id = customer.locator(".card").get_attribute("id")
        body = {
            "threadId": customer.url.rpartition("/")[2],
            "runId": "r1",
            "messages": [],
            "resume": [
                {
                    "interruptId": wait_id,
                    "status": "resolved",
                    "payload": {"approved": True},
                }
            ],
        }
        answer = customer.request.post(f"{server.url}/agent/", data=body)
        assert '"code":"decision-refused"' in answer.text()
        assert [] == server.refunds()
