"""Attachments in the bodies of requests: starts, and messages to runs and threads."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from continuations.core.rows import attachments
from continuations.errors import InvalidInput
from continuations.serve.http.request_response import Response
from tests.serve.http.api_fixture import ApiFixture, json_body, problem_slug

PNG = b"\x89PNG \xff\x00"
PHOTO = {
    "data": b64encode(PNG).decode(),
    "media_type": "image/png",
    "name": "photo.png",
}
REPORT = {
    "data": b64encode(b"%PDF").decode(),
    "media_type": "application/pdf",
    "name": "ä report.pdf",
}
START = {"run_id": "jane-1", "input": "pay Jane", "work": False}
BODIES: dict[str, dict[str, Any]] = {
    "/runs": START,
    "/runs/jane-1/messages": {"text": "And this?"},
    "/threads/boss/42/messages": {"text": "And this?", "wait": False},
}


async def post(fixture: ApiFixture, path: str, body: object) -> Response:
    """Post a JSON body as kim."""
    return await fixture.request("POST", path, body)


async def stored_keys(fixture: ApiFixture, part: str = "/") -> list[str]:
    """Return the keys of runs with this text."""
    keys = await fixture.runner.store.keys("runs/", "", 1000)
    return [key for key in keys if part in key]


@pytest.mark.parametrize("path", BODIES)
async def test_an_uploaded_attachment_is_in_the_run(path: str) -> None:
    """A download gives the same bytes back."""
    fixture = ApiFixture()
    if path.startswith("/runs/"):
        await fixture.runner.start("pay Jane", run_id="jane-1", work=False)
    sent = await post(fixture, path, {**BODIES[path], "files": [PHOTO, REPORT]})
    assert sent.status in (200, 202), sent.body
    run_id = json_body(sent)["run_id"]
    assert 2 == len(await stored_keys(fixture, "/x/"))
    digest = attachments.digest_of(PNG)
    found = await fixture.request("GET", f"/runs/{run_id}/files/{digest}")
    assert (200, PNG) == (found.status, found.data)
    assert 'filename="photo.png"' in found.headers["content-disposition"]


async def test_a_message_reaches_the_root_agent_with_its_attachment() -> None:
    """The reference is a part of the user message."""
    fixture = ApiFixture()
    await fixture.runner.start("pay Jane", run_id="jane-1", work=False)
    body = {"text": "And this?", "id": "m1", "files": [PHOTO]}
    await post(fixture, "/runs/jane-1/messages", body)
    await fixture.runner.resume("jane-1")

    run = await fixture.runner.look("jane-1")
    contents: list[Any] = [
        each["content"]
        for each in run.root.messages
        if each["role"] == "user" and isinstance(each["content"], list)
    ]
    [[text, part]] = contents
    assert {"type": "text", "text": "And this?"} == text
    assert ("photo.png", len(PNG)) == (part["name"], part["size"])


async def test_a_repeated_request_adds_nothing() -> None:
    """A start is known by its run id, and a message by its id, also after the end."""
    fixture = ApiFixture()
    start = {**START, "files": [PHOTO]}
    message = {"text": "And this?", "id": "m1", "files": [REPORT]}
    for _ in range(2):
        assert (await post(fixture, "/runs", start)).status in (200, 202)
        sent = await post(fixture, "/runs/jane-1/messages", message)
        assert 1 == json_body(sent)["number"]
    keys = await stored_keys(fixture)
    other = {**message, "files": [{**PHOTO, "data": "QUJD"}]}
    refused = await post(fixture, "/runs/jane-1/messages", other)
    assert (400, "invalid-input") == (refused.status, problem_slug(refused))
    assert keys == await stored_keys(fixture)
    await fixture.runner.resume("jane-1")
    await fixture.runner.cancel("jane-1")

    again = await post(fixture, "/runs/jane-1/messages", message)
    assert (200, 1) == (again.status, json_body(again)["number"])
    other = {**message, "files": [PHOTO]}
    refused = await post(fixture, "/runs/jane-1/messages", other)
    assert (400, "invalid-input") == (refused.status, problem_slug(refused))
    new = await post(fixture, "/runs/jane-1/messages", {**message, "id": "m2"})
    assert 400 == new.status
    assert len(keys) <= len(await stored_keys(fixture))
    assert 2 == len(await stored_keys(fixture, "/x/"))
    assert 1 == len(await stored_keys(fixture, "/in/m-"))


WRONG: dict[str, tuple[object, str]] = {
    "no list": (PHOTO, '"files"'),
    "null": (None, '"files"'),
    "too many": ([PHOTO] * 101, '"files"'),
    "no object": (["x"], '"files[0]"'),
    "no name": ([{**PHOTO, "name": None}], '"files[0].name"'),
    "missing": ([PHOTO, {"data": "QQ=="}], '"files[1]"'),
    "another field": ([{**PHOTO, "url": "https://x.example"}], '"files[0]"'),
    "no base64": ([{**PHOTO, "data": "%%%%"}], '"files[0].data"'),
    "empty": ([{**PHOTO, "data": ""}], '"files[0].data"'),
    "no padding": ([{**PHOTO, "data": "QQ"}], '"files[0].data"'),
    "loose bits": ([{**PHOTO, "data": "QR=="}], '"files[0].data"'),
    "line end": ([{**PHOTO, "data": "QUJD\nQUJD"}], '"files[0].data"'),
    "url alphabet": ([{**PHOTO, "data": "-_-_"}], '"files[0].data"'),
    "number": ([{**PHOTO, "data": 7}], '"files[0].data"'),
    "media type": ([{**PHOTO, "media_type": "PNG"}], "media_type"),
    "parameters": ([{**PHOTO, "media_type": "text/html;a=b"}], "media_type"),
    "path": ([{**PHOTO, "name": "../../etc/passwd"}], "name"),
    "bidi": ([{**PHOTO, "name": "a\u202egnp.exe"}], "name"),
    "name with a line end": ([{**PHOTO, "name": "a\nb"}], "name"),
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_attachment_is_refused_before_anything_is_written(
    path: str, case: str
) -> None:
    """The one error names the field, and has no part of the bytes."""
    files, field = WRONG[case]

    fixture = ApiFixture()
    response = await post(fixture, path, {**BODIES[path], "files": files})
    assert (400, "malformed") == (response.status, problem_slug(response))
    detail = json_body(response)["detail"]
    assert field in detail
    assert PHOTO["data"] not in detail
    assert [] == await fixture.runner.store.keys("", "", 10)


@pytest.mark.parametrize("path", BODIES)
async def test_attachments_above_the_limit_of_a_run_are_refused(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts those that the run has; nothing is written."""
    monkeypatch.setattr(attachments, "MAX_RUN_BYTES", 10)

    fixture = ApiFixture()
    if path.startswith("/runs/"):
        await fixture.runner.start("pay Jane", run_id="jane-1", work=False)
    body = BODIES[path]
    if path != "/runs":
        first = await post(fixture, path, {**body, "files": [PHOTO]})
        assert first.status in (200, 202)
    before = await stored_keys(fixture)
    response = await post(
        fixture,
        path,
        {**body, "files": [REPORT, *([PHOTO] if path == "/runs" else ())]},
    )
    slug = problem_slug(response)
    assert (413, "attachments-too-large") == (response.status, slug)
    assert "at most 10 are allowed" in json_body(response)["detail"]
    assert before == await stored_keys(fixture)


async def test_a_body_above_the_limit_of_the_server_is_refused() -> None:
    """The limit of a body comes first, and its option is named."""
    fixture = ApiFixture(options={"max_body_bytes": 1000})
    large = {**PHOTO, "data": b64encode(bytes(900)).decode()}
    response = await post(fixture, "/runs", {**START, "files": [large]})
    assert (413, "too-large") == (response.status, problem_slug(response))
    assert "max_body_bytes" in json.loads(response.body)["detail"]


ODD_NAMES = (
    *("a\x00b", "a\nb", "a\x7f", "a\u0085b"),  # control characters
    *("../a", "a/b", "a\\b", "..", ".", " ", ". ."),
    *("a\u202eb", "a\u2066b", "a\u200bb", "a\u00adb"),  # hidden, or another direction
    *("\ud800", "x" * 201, "x" * 10_240, ""),
)


@pytest.mark.parametrize("path", BODIES)
async def test_odd_names_of_files_are_refused(path: str) -> None:
    """One rule for all doors, and nothing is stored."""
    fixture = ApiFixture()
    await fixture.runner.start("pay Jane", run_id="jane-1", work=False)
    before = await fixture.keys()
    for name in ODD_NAMES:
        body = {**BODIES[path], "files": [{**PHOTO, "name": name}]}
        refused = await post(fixture, path, body)
        assert (400, "malformed") == (refused.status, problem_slug(refused))
        assert "name" in json_body(refused)["detail"]
    assert before == await fixture.keys()


@pytest.mark.parametrize("name", [each for each in ODD_NAMES if each])
def test_odd_names_are_refused_by_the_classes(name: str) -> None:
    for make in (attachments.Image, attachments.Audio, attachments.File):
        media_type = {"image": "image/png", "audio": "audio/wav"}.get(make.kind, "a/b")
        with pytest.raises(InvalidInput, match="name must be 1 to 200 printable"):
            make(PNG, media_type, name)


@pytest.mark.parametrize(
    "name", ["a b.png", ".hidden", "x.", "ä.pdf", "..a", "报告.pdf"]
)
def test_usual_names_are_kept(name: str) -> None:
    assert name == attachments.make_content(PNG, "image/png", name).name


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs/jane-1/messages", {"text": "Hurry"}),
        ("/threads/boss/42/messages", {"text": "Hurry", "wait": False}),
        ("/signals", {"run_id": "jane-1", "name": "receipt"}),
        ("/events", {"name": "receipt", "key": "A-17"}),
    ],
)
async def test_empty_id_is_refused(path: str, body: dict[str, Any]) -> None:
    """Two different messages with an empty id would be one."""
    fixture = ApiFixture()
    await fixture.runner.start("pay Jane", run_id="jane-1", work=False)
    before = await fixture.keys()
    refused = await post(fixture, path, {**body, "id": ""})
    assert 400 == refused.status
    assert "id must be a text that is not empty" in json_body(refused)["detail"]
    assert before == await fixture.keys()
