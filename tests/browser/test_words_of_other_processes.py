"""The chat in a real browser, while a process writes that shares the store alone."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from continuations_storage import open_store
from tests.browser import chromium
from tests.browser.console_chat import (
    TIMEOUT_MS,
    ConsoleChat,
    run_console_chat,
    say,
    stored,
    texts,
    written,
)
from tests.stepped_writer import run_worker, until_followed

if chromium.is_installed():

    def wait_for_follower(chat: ConsoleChat) -> None:
        """Wait until the worker can know of the open page."""
        # Playwright has the event loop of this thread.
        with ThreadPoolExecutor(1) as threads:
            work = until_followed(open_store(chat.store))
            threads.submit(asyncio.run, work).result()

    @pytest.mark.parametrize("kind", ["files", "SQLite", "Postgres"])
    def test_words_of_a_worker_in_another_process_grow_in_the_chat(
        tmp_path: Path, browser: Any, request: pytest.FixtureRequest, kind: str
    ) -> None:
        """The console works on nothing, and shares the store alone with the worker."""
        store = {"files": "", "SQLite": f"sqlite:{tmp_path}/runs.db"}.get(kind)
        if store is None:
            store = request.getfixturevalue("postgres").new_url()
        with (
            run_console_chat(tmp_path, store=store, works=False) as chat,
            run_worker(chat.steps, chat.store),
            chromium.open_tab(browser) as tab,
        ):
            tab.set_default_timeout(TIMEOUT_MS)
            chat.open_thread("k")
            chat.hold()
            tab.goto(chat.chat)
            wait_for_follower(chat)
            say(tab, "say one |two |three")
            for text in ("one ", "one two "):
                chat.allow()
                written(tab, text)
            with chromium.open_tab(browser) as late:
                late.goto(chat.chat)
                written(late, "one two ")
            assert 1 == tab.locator("#chat .assistant:not(#writing)").count()
            chat.release()
            stored(tab, "one two three")
            assert [
                *("say Hello kim", "Hello kim"),
                *("say one |two |three", "one two three"),
            ] == texts(tab)

    def test_words_of_a_killed_worker_go_and_the_next_one_writes_its_own(
        tmp_path: Path, browser: Any
    ) -> None:
        """The page shows no words while no worker writes."""
        with (
            run_console_chat(tmp_path, works=False) as chat,
            run_worker(chat.steps, chat.store, words_seconds=2) as workers,
            chromium.open_tab(browser) as tab,
        ):
            tab.set_default_timeout(TIMEOUT_MS)
            chat.open_thread("k")
            chat.hold()
            tab.goto(chat.chat)
            wait_for_follower(chat)
            say(tab, "say {process} one |two")
            chat.allow()
            written(tab, "w1 one ")
            workers.kill()
            tab.locator("#writing").wait_for(state="hidden")
            chat.hold()
            workers.start()
            chat.allow()
            written(tab, "w2 one ")
            chat.release()
            stored(tab, "w2 one two")
            expected = ["say Hello kim", "Hello kim", "say {process} one |two"]
            assert [*expected, "w2 one two"] == texts(tab)
