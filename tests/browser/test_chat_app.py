"""examples/chat_app in a real browser: streaming, an approval, two tabs, a crash."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.chat_server import PASSWORD, ChatServer, run_chat_server

HELLO = "Hello, and thank you for your message!"
SORRY = "I am sorry to hear that. Which order is it? The number looks like A-17."
DONE = (
    "Good news: 12.50 EUR are on their way for order A-17. It takes about three days."
)
# Time for a server that was killed to be replaced: its claim ends after 5 s.
TIMEOUT_MS = 60_000

if chromium.is_installed():

    @pytest.fixture
    def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ChatServer]:
        """Run the example in an empty folder."""
        with run_chat_server(tmp_path_factory.mktemp("chat")) as running:
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

    def say(tab: Any, text: str) -> None:
        """Write a message and press Enter."""
        tab.get_by_label("Your message").fill(text)
        tab.keyboard.press("Enter")

    def texts(tab: Any) -> list[str]:
        """Return the messages that a page shows."""
        found: list[str] = tab.locator("#log .message").all_inner_texts()
        return found

    def see(tab: Any, text: str) -> None:
        """Wait until a complete message with a text stands on the page."""
        tab.locator("#log .message", has_text=text).wait_for()

    def staff_url(tab: Any) -> str:
        """Return the address of the same conversation for a colleague."""
        address: str = tab.url
        return address.replace("/chats/", "/staff/chats/")

    def test_customer_and_colleague_see_one_conversation(
        server: ChatServer, people: Any
    ) -> None:
        """The refund waits in the middle of the chat, and is paid once."""
        customer = people.new_page()
        customer.goto(server.url)
        say(customer, "My lamp arrived broken.")
        see(customer, SORRY)
        say(customer, "It is A-17.")
        customer.locator(".wait").wait_for()
        assert 0 == customer.get_by_role("button", name="Approve").count()

        colleague = people.new_page()
        colleague.goto(staff_url(customer))
        colleague.get_by_text("Refund 12.50 EUR for order A-17").wait_for()
        say(customer, "Is anybody there?")  # queued behind the approval
        customer.locator(".pending").wait_for()
        assert [] == server.refunds()
        assert [] == chromium.violations(customer)
        assert [] == chromium.violations(colleague)
        colleague.get_by_role("button", name="Approve").click()

        expected = ["My lamp arrived broken.", SORRY, "It is A-17.", DONE]
        for tab in (customer, colleague):
            see(tab, HELLO)
            assert expected == texts(tab)[:4]
            assert "Is anybody there?" == texts(tab)[4]
            assert 6 == len(texts(tab))
            assert 0 == tab.locator(".wait").count()
        assert ["1250 cents for A-17"] == server.refunds()

    def test_text_is_shown_while_it_is_written(server: ChatServer, people: Any) -> None:
        """A second tab that opens in the middle shows the beginning too."""
        server.kill()
        server.word_seconds = 0.3
        server.start()
        tab = people.new_page()
        tab.goto(server.url)
        say(tab, "Good morning!")
        tab.locator("#writing", has_text="Hello, and thank").wait_for()
        other = people.new_page()
        other.goto(tab.url)
        other.locator("#writing", has_text="Hello, and thank you").wait_for()
        assert ["Good morning!"] == texts(other)
        for each in (tab, other):
            see(each, HELLO)
            assert "" == each.locator("#writing").inner_text()

    def test_killed_server_goes_on_and_each_text_stands_once(
        server: ChatServer, people: Any
    ) -> None:
        """The pages stay open: no person reloads them, or sends a message again."""
        # Given two tabs, and a server that is killed while it writes
        server.kill()
        server.word_seconds = 0.3
        server.start()
        customer = people.new_page()
        customer.goto(server.url)
        other = people.new_page()
        other.goto(customer.url)
        say(customer, "Good morning!")
        for tab in (customer, other):
            tab.locator("#writing", has_text="Hello, and thank").wait_for()
        server.kill()

        # When the customer writes while there is no server, and it starts again
        say(customer, "It is A-17.")
        customer.locator(".pending").wait_for()
        server.word_seconds = 0.02
        server.start()

        # Then both tabs show everything once, and the approval that comes next
        for tab in (customer, other):
            tab.locator(".wait").wait_for()
            first, hello, second = texts(tab)
            assert ("Good morning!", "It is A-17.") == (first, second)
            assert hello.startswith(HELLO)
            assert 1 == hello.count("Hello")

        # And a kill while the approval waits changes nothing
        server.kill()
        server.start()
        colleague = people.new_page()
        colleague.goto(staff_url(customer))
        colleague.get_by_role("button", name="Approve").click()
        for tab in (customer, other):
            see(tab, DONE)
            assert 4 == len(texts(tab))
        assert ["1250 cents for A-17"] == server.refunds()

    def test_denied_refund_is_explained(server: ChatServer, people: Any) -> None:
        customer = people.new_page()
        customer.goto(server.url)
        say(customer, "My lamp A-17 is broken.")
        colleague = people.new_page()
        colleague.goto(staff_url(customer))
        colleague.get_by_role("button", name="Deny").click()
        see(customer, "I am sorry, a colleague looked at it and said no.")
        assert [] == server.refunds()

    def test_staff_page_needs_the_password(server: ChatServer, browser: Any) -> None:
        context = browser.new_context(
            http_credentials={"username": "eve", "password": "guess"}
        )
        page = context.new_page()
        assert 401 == page.goto(f"{server.url}/staff/chats/a-key").status
        context.close()
