"""The page of a wait says when a call may repeat, and each consequence once."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest

from continuations.present import wait_words
from continuations.present.wait_words import at_deadline
from tests.serve.console.test_wait_pages import Desk, open_wait, path_of
from tests.serve.pages.html_forms import main_of


def test_unknown_outcome_is_not_run_again_before_its_time() -> None:
    """The button is inactive with its reason, and the server refuses a post too."""
    desk = Desk()
    wait = open_wait(desk, "unknown")
    early = desk.get(path_of(wait))
    assert 'disabled aria-describedby="approve-closed"' in early
    assert "Until then, the first call may run." in early

    refused = desk.submit(path_of(wait), "approve")

    assert 422 == refused.status_code
    assert "Until then, the first call may run." in refused.text
    assert desk.is_open(wait)
    desk.scenes.clock.offset_seconds += 3600
    late = desk.get(path_of(wait))
    assert "disabled" not in late
    assert "Until then, the first call may run." not in late
    assert (
        wait_words.REPEATS in late.partition('id="approve"')[2].partition("</form>")[0]
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [("approval", "The call does not run"), ("text", "The question stays unanswered")],
)
def test_denial_is_told_once_with_the_word_of_its_button(kind: str, words: str) -> None:
    desk = Desk()
    page = main_of(desk.get(path_of(open_wait(desk, kind))))
    form = page.partition('id="deny"')[2].partition("</form>")[0]

    assert words in form
    assert words not in page.partition('id="origin"')[2]


def test_inbox_and_page_tell_the_same_consequence_of_a_deadline() -> None:
    desk = Desk()
    wait = open_wait(desk, "approval")
    words = at_deadline(asyncio.run(desk.runner.wait(wait.id)))

    assert "then expires" in desk.get("/inbox")
    assert f"then: <b>{words}</b>" in desk.get(path_of(wait))


def test_time_of_a_repeat_is_rounded_up_to_the_minute_that_the_page_shows() -> None:
    """A person who comes back at the shown minute is not too early."""
    desk = Desk()
    wait = open_wait(desk, "unknown")
    assert wait.approve_after is not None
    pattern = r"Available from <time [^>]*>[^:]*(\d\d:\d\d) UTC<"
    shown = re.search(pattern, desk.get(path_of(wait)))
    assert shown is not None
    whole = wait.approve_after.replace(second=0, microsecond=0)
    is_whole = whole == wait.approve_after
    whole += timedelta(minutes=0 if is_whole else 1)
    assert f"{whole:%H:%M}" == shown[1]
