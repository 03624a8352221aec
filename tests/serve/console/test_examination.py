"""The pages contain the answers of the examination, without script."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import httpx
import pytest

from tests.browser.examination import Question, questions
from tests.browser.wait_scenes import WaitScenes

ASKED = questions()


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the text of each page."""
    scenes = WaitScenes()
    transport = httpx.ASGITransport(scenes.app())

    async def read(path: str) -> str:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://agents.example"
        ) as client:
            page = await client.get(path, headers={"accept": "text/html"})
        assert 200 == page.status_code
        main = page.text.partition("<main")[2].partition("</main>")[0]
        text = unescape(re.sub(r"<[^>]+>", " ", main.replace("</code>", "")))
        return " ".join(text.split())

    paths = scenes.examined()
    return {name: asyncio.run(read(path)) for name, path in paths.items()}


def test_each_of_five_waits_has_five_questions() -> None:
    waits = [question.wait for question in ASKED]

    assert [5] * 5 == [waits.count(name) for name in dict.fromkeys(waits)]
    assert len(ASKED) == len({(each.wait, each.text) for each in ASKED})


@pytest.mark.parametrize("question", ASKED, ids=lambda each: f"{each.wait}-{each.text}")
def test_page_has_the_words_that_answer(
    question: Question, texts: dict[str, str]
) -> None:
    assert question.words in texts[question.wait]
