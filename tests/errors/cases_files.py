"""Images, audio and files."""

from __future__ import annotations

from continuations.errors import AttachmentsTooLarge, Corrupt, InvalidInput
from tests.errors.case import Area, Case

_PHOTO = 'photo = Image(b"PNG", "image/png")'
_PHOTO_JSON = "{'data': 'UE5H', 'media_type': 'image/png', 'name': 'a.png'}"
_POSTED = "{'run_id': 'jane-1', 'input': TASK, 'work': False}"
_LOOK = "Runner(talker(), store=store).start"
_STORED = f"""
                {_PHOTO}
                looker = Runner(talker(), store=store)
                looker.start([TASK, photo], run_id="jane-1", work=False)
                key = await_(store.keys("runs/jane-1/x/", "", 9))[0]
                body = await_(store.read(key))
                await_(store.delete(key))
"""
_RESTORED = """
                await_(store.delete(key))
                await_(store.create(key, body))
                assert looker.resume("jane-1").output == "done"
"""

FILES = Area(
    "Images, audio and files",
    (
        Case(
            "fork-attachments-too-large",
            AttachmentsTooLarge,
            'looker.fork("jane-1", run_id="jane-2")',
            'looker.fork("jane-1", run_id="jane-2", messages={"f1": _PLAIN})'.replace(
                "_PLAIN", "[{'role': 'user', 'content': 'Hello.'}]"
            ),
            setup=f"""
                import continuations.core.rows.attachments as limits
                {_PHOTO}
                looker = Runner(talker(), store=store)
                looker.start([TASK, photo], run_id="jane-1", work=False)
                scene.callback(setattr, limits, "MAX_RUN_BYTES", limits.MAX_RUN_BYTES)
                limits.MAX_RUN_BYTES = 2
            """,
            names=("jane-2", "jane-1", "messages"),
        ),
        Case(
            "input-part-of-another-api",
            InvalidInput,
            f"""
                {_LOOK}([
                    {{"role": "user", "content": [{{"type": "input_text", "text": "a"}}]}}
                ])
            """,
            f"""
                {_LOOK}([
                    {{"role": "user", "content": [{{"type": "text", "text": "a"}}]}}
                ])
            """,
            setup=_PHOTO,
            names=("input[0].content[0]", "input_text", '{"type": "text"'),
        ),
        Case(
            "continuation-lacks-attachment",
            Corrupt,
            "resume(data, talker())",
            'assert looker.resume("jane-1").output == "done"',
            setup=f"""
                {_PHOTO}
                looker = Runner(talker(), store=store)
                paused = looker.start([TASK, photo], run_id="jane-1", work=False)
                data = paused.continuation.to_bytes()
            """,
        ),
        Case(
            "adopt-without-attachment",
            InvalidInput,
            "runner.adopt(data)",
            'assert looker.adopt(data, run_id="jane-2").run_id == "jane-2"',
            setup=f"""
                {_PHOTO}
                looker = Runner(talker(), store=folder)
                paused = looker.start([TASK, photo], run_id="jane-1", work=False)
                data = paused.continuation.to_bytes()
            """,
        ),
        Case(
            "attachment-missing",
            Corrupt,
            'looker.resume("jane-1")',
            _RESTORED,
            setup=_STORED,
        ),
        Case(
            "http-attachment-data",
            "problem 400 malformed",
            f"http('POST', '/runs', {{**{_POSTED}, 'files': [{{**{_PHOTO_JSON}, 'data': '%'}}]}})",
            f"http('POST', '/runs', {{**{_POSTED}, 'files': [{_PHOTO_JSON}]}})",
            names=("files[0].data",),
        ),
        Case(
            "http-attachment-empty",
            "problem 400 malformed",
            f"http('POST', '/runs', {{**{_POSTED}, 'files': [{{**{_PHOTO_JSON}, 'name': ''}}]}})",
            f"http('POST', '/runs', {{**{_POSTED}, 'files': [{_PHOTO_JSON}]}})",
            names=("files[0].name",),
        ),
        Case(
            "http-attachments-no-list",
            "problem 400 malformed",
            f"http('POST', '/runs', {{**{_POSTED}, 'files': {_PHOTO_JSON}}})",
            f"http('POST', '/runs', {{**{_POSTED}, 'files': [{_PHOTO_JSON}]}})",
            names=("files",),
        ),
        Case(
            "http-attachments-too-large",
            "problem 413 attachments-too-large",
            f"http('POST', '/runs/jane-1/messages', {{'text': 'Look.', 'files': [{_PHOTO_JSON}]}})",
            "http('POST', '/runs/jane-1/messages', {'text': 'Look.'})",
            setup="""
                large = Image(bytes((64 << 20) - 2), "image/png")
                runner.start([TASK, large], run_id="jane-1", work=False)
            """,
            names=("a.png", "67108864"),
        ),
        Case(
            "http-attachment-unknown",
            "problem 404 file-not-found",
            """http("GET", f"/runs/jane-1/files/sha256:{'0' * 64}")""",
            'http("GET", f"/runs/jane-1/files/{photo.digest}")',
            setup=f"""
                {_PHOTO}
                runner.start([TASK, photo], run_id="jane-1", work=False)
            """,
        ),
    ),
)
