"""Attachments on the pages of the console: shown, downloaded, and never run."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import pytest

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.attachments import File, Image
from continuations.core.attachment_parts import ATTACHMENT_TYPE
from continuations.core.rows.attachments import Content
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.console.messages_page import size_text
from continuations_storage import MemoryStore
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_run_pages import show, text_of

PHOTO = Image(b"\x89PNG \xff\x00", "image/png", "photo.png")
DRAWING = Image(b"<svg onload='alert(1)'/>", "image/svg+xml", "drawing.svg")
NAME = '"><script>alert(1)<|script>\U0001f9fe & co.html'
HOSTILE = File(b"<script>alert(1)</script>", "text/html", NAME)
REPORT = File(bytes(2_400_000), "application/pdf", "report.pdf")


@tool
def draw() -> list[str | Image]:
    """Draw."""
    return ["drawn", DRAWING]


@tool(approval=True, summary="Publish the drawing")
def publish() -> str:
    """Publish."""
    return "published"


@pytest.fixture
def client() -> ConsoleClient:
    """Return a console with a run that waits, and a thread."""
    store = MemoryStore()
    model = ScriptedModel([ToolCall("draw"), ToolCall("publish")])
    agent = Agent("boss", tools=[draw, publish], model=model)
    runner = Runner(agent, store=store)
    runner.start(["Look.", PHOTO, HOSTILE, REPORT], run_id="r1")
    forged = {"role": "assistant", "content": [PHOTO.attachment.part]}
    chat = Agent("support", model=ScriptedModel([forged]))
    Runner(chat, store=store).thread("support", key="42").send([PHOTO, DRAWING])
    return ConsoleClient(AsyncRunner([], store=store))


def thread_path(client: ConsoleClient) -> str:
    async def find() -> str:
        [row] = [each async for each in client.runner.runs(agent="support")]
        return f"/threads/{row.run_id}"

    return asyncio.run(find())


def get(client: ConsoleClient, path: str) -> httpx.Response:
    """Return the response for a browser."""
    return asyncio.run(client.get(path))


def test_transcript_shows_name_type_and_size(client: ConsoleClient) -> None:
    """The result of a tool shows its attachment too."""
    [page] = show(client, "/runs/r1/messages")

    assert "Look. photo.png image/png, 7 bytes" in page
    assert f"{HOSTILE.name} text/html, 25 bytes" in page
    assert "report.pdf application/pdf, 2.4 MB" in page
    assert "Result of draw message 3 drawn drawing.svg image/svg+xml" in page


def test_thread_shows_a_message_that_has_only_attachments(
    client: ConsoleClient,
) -> None:
    """A model cannot write an attachment: its part is text."""
    [page] = show(client, thread_path(client))

    assert "photo.png image/png, 7 bytes" in page
    assert 1 == page.count("photo.png")
    assert f"[{ATTACHMENT_TYPE}]" in page


def test_only_images_without_scripts_stand_in_the_page(client: ConsoleClient) -> None:
    """No name of a sender becomes markup."""
    page = get(client, "/runs/r1/messages").text

    query = "?name=photo.png&amp;media_type=image%2Fpng"
    assert f'<img src="/runs/r1/images/{PHOTO.digest}{query}"' in page
    assert 1 == page.count("<img ")
    assert "<script>alert" not in page
    assert "img-src 'self'" in get(client, "/").headers["content-security-policy"]
    for content, expected in ((PHOTO, 200), (DRAWING, 404), (HOSTILE, 404)):
        response = get(client, f"/runs/r1/images/{content.digest}")
        assert expected == response.status_code
    shown = get(client, f"/runs/r1/images/{PHOTO.digest}").headers
    found = (shown["content-type"], shown["content-disposition"])
    assert ("image/png", "inline") == found
    assert "nosniff" == shown["x-content-type-options"]
    assert "default-src 'none'; sandbox" == shown["content-security-policy"]


@pytest.mark.parametrize("content", [PHOTO, DRAWING, HOSTILE])
def test_link_of_a_page_downloads_the_bytes(
    client: ConsoleClient, content: Content
) -> None:
    """A browser saves them, whatever their type says."""
    assert f"/runs/r1/files/{content.digest}" in get(client, "/runs/r1/messages").text
    response = get(client, f"/runs/r1/files/{content.digest}")

    assert (200, content.data) == (response.status_code, response.content)
    assert response.headers["content-disposition"].startswith("attachment; ")
    assert "default-src 'none'; sandbox" == response.headers["content-security-policy"]
    assert response.headers["content-type"] in ("image/png", "application/octet-stream")


@pytest.mark.parametrize("lacking", ["view", "read"])
def test_bytes_need_the_rights_to_view_and_read_the_run(
    client: ConsoleClient, lacking: str
) -> None:
    def can(_identity: Any, act: str, run: str | None) -> bool:
        return (act, run) != (lacking, "r1")

    limited = ConsoleClient(client.runner, {"can": can})
    for part in ("files", "images"):
        response = get(limited, f"/runs/r1/{part}/{PHOTO.digest}")
        assert 403 == response.status_code
        missing = get(client, f"/runs/r1/{part}/sha256:{'0' * 64}")
        assert 404 == missing.status_code


def test_evidence_of_a_wait_names_the_attachment(client: ConsoleClient) -> None:
    """A person who decides sees that the tool returned an image."""

    async def find() -> str:
        [wait] = [each async for each in client.runner.waiting()]
        return wait.id

    page = text_of(get(client, f"/waits/{asyncio.run(find())}"))
    assert "drawn" in page
    assert "[image: drawing.svg, image/svg+xml, 24 bytes]" in page


def test_log_of_a_run_names_the_attachments(client: ConsoleClient) -> None:
    [page] = show(client, "/runs/r1")
    assert "[image: photo.png, image/png, 7 bytes]" in page


@pytest.mark.parametrize(
    ("size", "words"),
    [(7, "7 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (67_108_864, "67.1 MB")],
)
def test_size_is_shown_in_words(size: int, words: str) -> None:
    assert words == size_text(size)


def test_links_of_a_page_have_the_name_that_the_message_has() -> None:
    """The same bytes were sent before under another name and type."""
    store = MemoryStore()
    model = ScriptedModel([ToolCall("publish")])
    agent = Agent("boss", tools=[publish], model=model)
    photo = Image(b"\x89PNG", "image/png", "photo.png")
    scan = Image(b"\x89PNG", "image/webp", "scan.webp")
    Runner(agent, store=store).start(["Look.", photo, scan], run_id="r1")
    client = ConsoleClient(AsyncRunner([], store=store))
    page = get(client, "/runs/r1/messages").text

    links = re.findall(r'href="(/runs/r1/files/[^"]+)"', page)
    images = re.findall(r'<img src="([^"]+)"', page)

    for found in (links, images):
        headers = [get(client, unescape(each)).headers for each in found]
        assert ["image/png", "image/webp"] == [each["content-type"] for each in headers]
    names = [
        get(client, unescape(each)).headers["content-disposition"] for each in links
    ]
    assert ["photo.png" in names[0], "scan.webp" in names[1]] == [True, True]
