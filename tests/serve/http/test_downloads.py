"""Attachments over HTTP: a browser saves them, and only those of the run."""

from __future__ import annotations

import httpx
import pytest

from continuations import Identity
from continuations.attachments import File, Image
from continuations.core.rows.attachments import Content
from continuations.serve.http import asgi
from tests.serve.http.api_fixture import BASE_URL, ApiFixture, problem_slug

PHOTO = Image(b"\x89PNG \xff\x00", "image/png", "photo.png")
PAGE = File(b"<script>alert(1)</script>", "text/html", 'ä";x="<b>.html')


async def start(fixture: ApiFixture, content: Content, run_id: str = "jane-1") -> str:
    """Start a run with an attachment; return the path of the attachment."""
    await fixture.runner.start(["pay Jane", content], run_id=run_id, work=False)
    return f"/runs/{run_id}/files/{content.digest}"


@pytest.mark.parametrize(
    ("content", "media_type", "disposition"),
    [
        (
            PHOTO,
            "image/png",
            "attachment; filename=\"photo.png\"; filename*=UTF-8''photo.png",
        ),
        (
            PAGE,
            "application/octet-stream",
            (
                'attachment; filename="___x___b_.html"; '
                "filename*=UTF-8''%C3%A4%22%3Bx%3D%22%3Cb%3E.html"
            ),
        ),
        (
            Image(b"<svg/>", "image/svg+xml"),
            "application/octet-stream",
            None,
        ),
    ],
)
async def test_browser_saves_an_attachment_and_runs_nothing(
    content: Content, media_type: str, disposition: str | None
) -> None:
    fixture = ApiFixture()
    path = await start(fixture, content)
    transport = httpx.ASGITransport(app=asgi.app(fixture.api))
    headers = {"authorization": "Bearer kim"}
    async with httpx.AsyncClient(
        transport=transport, base_url=BASE_URL, headers=headers
    ) as http:
        found, head = await http.get(path), await http.head(path)

    assert (200, content.data) == (found.status_code, found.content)
    assert (200, b"") == (head.status_code, head.content)
    sent = found.headers
    assert media_type == sent["content-type"]
    name = content.digest.removeprefix("sha256:")[:16]
    unnamed = f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"
    assert (disposition or unnamed) == sent["content-disposition"]
    assert "nosniff" == sent["x-content-type-options"]
    assert "default-src 'none'; sandbox" == sent["content-security-policy"]
    assert "private, no-cache" == sent["cache-control"]


async def test_run_gives_only_its_own_attachments() -> None:
    fixture = ApiFixture()
    await start(fixture, PHOTO)
    await start(fixture, PAGE, "jane-2")
    for path in (
        f"/runs/jane-1/files/{PAGE.digest}",
        "/runs/jane-1/files/sha256:0",
        f"/runs/jane-1/files/{PHOTO.digest.upper()}",
    ):
        response = await fixture.request("GET", path)
        found = (response.status, problem_slug(response))
        assert (404, "file-not-found") == found
    missing = await fixture.request("GET", f"/runs/jane-3/files/{PHOTO.digest}")
    assert 404 == missing.status


async def test_attachment_of_an_erased_run_is_gone() -> None:
    fixture = ApiFixture()
    path = await start(fixture, PHOTO)
    await fixture.runner.cancel("jane-1")
    assert 200 == (await fixture.request("GET", path)).status
    await fixture.runner.erase("jane-1")
    assert 410 == (await fixture.request("GET", path)).status


@pytest.mark.parametrize("missing", ["view", "read"])
async def test_download_needs_the_rights_to_view_and_read_the_run(missing: str) -> None:
    def can(_: Identity, act: str, run: str | None) -> bool:
        return run == "jane-1" or act != missing

    fixture = ApiFixture(options={"can": can})
    own = await start(fixture, PHOTO)
    other = await start(fixture, PHOTO, "jane-2")
    assert 200 == (await fixture.request("GET", own)).status
    assert 403 == (await fixture.request("GET", other)).status
    assert 401 == (await fixture.request("GET", own, by=None)).status


async def test_object_of_another_run_under_the_own_key_is_not_sent() -> None:
    fixture = ApiFixture()
    path = await start(fixture, PHOTO)
    await start(fixture, PHOTO, "jane-2")
    store = fixture.runner.store
    own, other = [
        (await store.keys(f"runs/{run_id}/x/", "", 9))[0]
        for run_id in ("jane-1", "jane-2")
    ]
    await store.delete(own)
    await store.create(own, await store.read(other))

    response = await fixture.request("GET", path)

    assert 500 == response.status
    assert response.data is None


async def test_each_message_has_its_own_name_and_type_of_the_same_bytes() -> None:
    """The bytes are stored once, and no link gives a file a name of its own choice."""
    fixture = ApiFixture()
    data = b"amount: 500"
    first = File(data, "application/pdf", "invoice.pdf")
    second = File(data, "text/plain", "notes.txt")
    both: list[object] = ["pay Jane", first, second]
    await fixture.runner.start(both, run_id="jane-1", work=False)  # type: ignore[arg-type]
    path = f"/runs/jane-1/files/{first.digest}"
    evil = {"name": "run-me.exe", "media_type": "text/html"}
    for query, name, media_type in (
        ({}, "invoice.pdf", "application/pdf"),
        (
            {"name": "notes.txt", "media_type": "text/plain"},
            "notes.txt",
            "text/plain",
        ),
        (
            {"name": "invoice.pdf", "media_type": "application/pdf"},
            "invoice.pdf",
            "application/pdf",
        ),
        (evil, "invoice.pdf", "application/pdf"),
        ({"name": "notes.txt"}, "invoice.pdf", "application/pdf"),
    ):
        response = await fixture.request("GET", path, query=query)
        assert data == response.data
        assert media_type == response.headers["content-type"]
        assert f'filename="{name}"' in response.headers["content-disposition"]
