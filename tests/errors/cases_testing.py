"""The testing package: harness, crash points, recorded models."""

from __future__ import annotations

from continuations.errors import InvalidInput, ModelError
from tests.errors.case import Area, Case

_HARNESS = """
    script = [ToolCall("pay", {"cents": 500}), "done"]
    harness = testing.AgentHarness(clerk(script=script))
    harness.run_to_pause("Pay Jane")
"""
_RECORDED = """
    said = user_message("Hello")
    path = folder / "hello.json"
    def record(model=None):
        return testing.RecordedModel(path, model or ScriptedModel(["Hi."]), record=True)
    def ask(model, text="Hello", **settings):
        request = ModelRequest(messages=[user_message(text)], settings=settings)
        return await_(model.reply(request))
"""
_ASK_NEW = "path.unlink(); ask(record())"

TESTING = Area(
    "Tests of an application",
    (
        Case(
            "testing-check",
            AssertionError,
            'harness.assert_waits("refund")',
            'harness.assert_waits("pay")',
            setup=_HARNESS,
            names=("pay", "refund"),
            is_list=True,
        ),
        Case(
            "testing-clock-start",
            InvalidInput,
            "testing.FrozenClock(datetime(2026, 1, 1))",
            "testing.FrozenClock(datetime(2026, 1, 1, tzinfo=UTC))",
            names=("start", "tzinfo"),
        ),
        Case(
            "testing-clock-back",
            InvalidInput,
            "testing.FrozenClock().advance(hours=1, minutes=-90)",
            "testing.FrozenClock(datetime(2026, 1, 1, tzinfo=UTC)).advance(hours=1)",
            names=("advance", "-1800"),
        ),
        Case(
            "recording-without-model",
            InvalidInput,
            'testing.RecordedModel("a.json", record=True)',
            "ask(record())",
            setup=_RECORDED,
            names=("record=True", "model"),
        ),
        Case(
            "recording-missing",
            InvalidInput,
            "testing.RecordedModel(path)",
            "ask(record()); ask(testing.RecordedModel(path))",
            setup=_RECORDED,
            names=("hello.json", "--record-models"),
        ),
        Case(
            "recording-damaged",
            InvalidInput,
            "testing.RecordedModel(path)",
            _ASK_NEW,
            setup=_RECORDED + '    path.write_text("{")',
            names=("hello.json", "JSON"),
        ),
        Case(
            "recording-of-another-format",
            InvalidInput,
            "testing.RecordedModel(path)",
            _ASK_NEW,
            setup=_RECORDED + """    path.write_text('{"format": 9}')""",
            names=("hello.json", "format"),
        ),
        Case(
            "recording-without-exchanges",
            InvalidInput,
            "testing.RecordedModel(path)",
            _ASK_NEW,
            setup=_RECORDED + """    path.write_text('{"format": 1}')""",
            names=("hello.json", "exchanges"),
        ),
        Case(
            "recording-with-a-damaged-exchange",
            InvalidInput,
            "testing.RecordedModel(path)",
            _ASK_NEW,
            setup=_RECORDED
            + """    path.write_text('{"format": 1, "model": "m", "exchanges": [5]}')""",
            names=("hello.json", "exchanges[0]", "digest"),
        ),
        Case(
            "recording-of-another-request",
            ModelError,
            'ask(testing.RecordedModel(path), "Hell!")',
            'path.unlink(); ask(record(), "Hell!")',
            setup=_RECORDED + "    ask(record())",
            names=("hello.json", "messages[0].content", "character 5"),
        ),
        Case(
            "recording-empty",
            ModelError,
            "ask(testing.RecordedModel(path))",
            _ASK_NEW,
            setup=_RECORDED
            + """    path.write_text('{"format": 1, "model": "m", "exchanges": []}')""",
            names=("hello.json",),
        ),
        Case(
            "recording-setting-that-is-no-json",
            ModelError,
            'ask(record(), stop={"."})',
            'ask(record(), stop=["."])',
            setup=_RECORDED,
            names=("settings", "JSON"),
        ),
        Case(
            "recording-of-another-model",
            ModelError,
            'ask(record(ScriptedModel(["Hi."], name="other")), "Bye")',
            'path.unlink(); ask(record(ScriptedModel(["Hi."], name="other")), "Bye")',
            setup=_RECORDED + "    ask(record())",
            names=("hello.json", "scripted", "other"),
        ),
        Case(
            "recording-with-a-damaged-reply",
            ModelError,
            "ask(testing.RecordedModel(path))",
            _ASK_NEW,
            setup=_RECORDED
            + """
    ask(record())
    path.write_text(path.read_text().replace('"message"', '"massage"'))
    """,
            names=("hello.json", "reply"),
        ),
        Case(
            "recording-that-cannot-be-written",
            ModelError,
            "ask(record())",
            "path.parent.unlink(); ask(record())",
            setup=_RECORDED
            + """
    path = folder / "file" / "hello.json"
    path.parent.write_text("this is a file")
    """,
            names=("hello.json", "written"),
        ),
    ),
)
