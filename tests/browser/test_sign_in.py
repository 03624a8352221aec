"""The session of the local console in a real browser, which keeps its cookie rules."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from continuations import AsyncRunner
from continuations.serve import console
from continuations.serve.console.identities import LocalIdentity
from tests.browser import chromium
from tests.browser.served_app import serve
from tests.browser.wait_scenes import WaitScenes


class LocalConsole:
    """A console of this machine, and the address that it prints.

    Attributes:
        told: The paths that it printed after a sign-out.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self.scenes = WaitScenes()
        self.identity: LocalIdentity = console.local(
            "kim", on_sign_out=self.told.append
        )
        runner = AsyncRunner([], store=self.scenes.store, clock=self.scenes.clock)
        self.app = console.app(runner, verify=self.identity, clock=self.scenes.clock)
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return the address of a path."""
        return f"http://{host}:{self.port}{path}"


async def tracker(scope: Any, _: Any, send: Any) -> None:
    """Answer as another site does: with a link to the address in the query."""
    address = scope["query_string"].decode()
    body = f'<!doctype html><title>Tracker</title><a href="{address}">Decide</a>'
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


if chromium.is_installed():

    @pytest.fixture
    def local() -> Generator[LocalConsole]:
        """Serve a local console."""
        made = LocalConsole()
        with serve(made.app) as port:
            made.port = port
            yield made

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_link_of_another_site_opens_the_page(
        local: LocalConsole, browser: Any, host: str
    ) -> None:
        """A tracker, a chat or a mail names one of the names of this machine."""
        wait = local.scenes.open("campaign")
        with serve(tracker) as port, chromium.open_tab(browser) as tab:
            tab.goto(local.url(local.identity.sign_in_path))
            # Another name of this machine is another site for a browser.
            other = "localhost" if host == "127.0.0.1" else "127.0.0.1"
            target = local.url(f"/waits/{wait.id}?for=all", host)
            tab.goto(f"http://{other}:{port}/?{target}")
            tab.get_by_role("link", name="Decide").click()

            assert "Winter service week" in tab.locator("h1").inner_text()
            assert tab.url == local.url(f"/waits/{wait.id}?for=all")
            # The page works there: its forms, its stream and its way on.
            tab.locator("#deny button").click()
            assert "Recorded" in tab.locator("h1").inner_text()

    def test_sign_in_out_and_back(local: LocalConsole, browser: Any) -> None:
        with chromium.open_tab(browser) as tab:
            tab.goto(local.url("/runs?status=ended"))
            assert "Sign in" == tab.locator("h1").inner_text()
            assert [] == chromium.violations(tab)
            tab.goto(local.url(local.identity.sign_in_path))
            assert tab.url == local.url("/runs?status=ended")

            tab.get_by_role("button", name="Sign out").click()

            assert "You are signed out" == tab.locator("h1").inner_text()
            assert [] == chromium.violations(tab)
            tab.goto(local.url("/inbox"))
            assert "Sign in" == tab.locator("h1").inner_text()
            assert 0 == tab.get_by_role("navigation").count()
            tab.goto(local.url(local.told[0]))
            assert tab.url == local.url("/inbox")

    def test_way_out_stands_at_the_end_of_a_phone(
        local: LocalConsole, browser: Any
    ) -> None:
        with chromium.open_tab(browser, viewport=chromium.PHONE) as tab:
            tab.goto(local.url(local.identity.sign_in_path))
            button = tab.get_by_role("button", name="Sign out")
            assert 1 == button.count()  # the other one is not shown
            assert 44 <= button.bounding_box()["height"]
            button.click()
            assert "You are signed out" == tab.locator("h1").inner_text()
