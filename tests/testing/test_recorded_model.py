"""RecordedModel: what it records, what it replays, and how it names a difference."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from continuations import Agent, Finished, Runner, run
from continuations.errors import InvalidInput, ModelError
from continuations.events import TextDelta
from continuations.models.interface import Message, Model, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.testing import AgentHarness, Effects, RecordedModel
from tests.testing.sample_agents import make_boss, make_clerk


def ask(model: Model, text: str, **options: Any) -> ModelReply:
    """Send one user message to a model."""
    said = Message.from_mapping({"role": "user", "content": text})
    reply = asyncio.run(model.reply(ModelRequest(messages=[said], **options)))
    assert isinstance(reply, ModelReply)
    return reply


def no_model() -> Model:
    """Fail: the provider is not asked."""
    msg = "the provider was asked"
    raise AssertionError(msg)


def test_recorded_run_is_replayed_without_the_provider(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "pay.json"
    provider = ScriptedModel(
        [ToolCall("pay", {"person": "Jane", "cents": 500}), "Paid."], name="gpt-5-mini"
    )

    def work(model: Model) -> str:
        effects = Effects()
        clerk = make_clerk(effects)
        clerk.model = model
        harness = AgentHarness(clerk)
        harness.run_to_pause("Pay Jane")
        harness.approve()
        harness.restart()
        output = harness.run_to_end().output
        effects.assert_once("pay", cents=500)
        assert 2 == harness.runner.look("run-1").usage.requests
        return output

    assert "Paid." == work(RecordedModel(path, provider, record=True))
    assert 2 == len(provider.requests)
    replay = RecordedModel(path, no_model)
    assert "gpt-5-mini" == replay.name
    assert "Paid." == work(replay)
    assert "Paid." == work(RecordedModel(path))
    assert 2 == len(provider.requests)


def test_replay_streams_the_words_of_a_recorded_reply(tmp_path: Path) -> None:
    """While recording, the parts are those of the provider."""
    path = tmp_path / "pay.json"

    def words(model: Model) -> list[str]:
        runner = Runner(Agent("clerk", model=model), store="memory:")
        events = [*runner.stream("Pay Jane", run_id="r1")]
        return [each.text for each in events if isinstance(each, TextDelta)]

    provider = ScriptedModel(["Jane is paid."])
    assert ["Jane ", "is ", "paid."] == words(
        RecordedModel(path, provider, record=True)
    )
    assert ["Jane ", "is ", "paid."] == words(RecordedModel(path))
    assert 1 == len(provider.requests)


def test_nested_agents_share_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "boss.json"
    boss = make_boss(Effects())
    clerk: Any = boss.tools_by_name["clerk"]
    models = {"boss": boss.model, "clerk": clerk.sub_agent.model}

    def work(model: Model) -> str:
        boss.model = clerk.sub_agent.model = model
        harness = AgentHarness(boss)
        harness.run_to_pause("Pay Jane")
        harness.approve()
        return harness.run_to_end().output

    class Provider:
        name = "provider"

        async def reply(self, request: ModelRequest) -> ModelReply:
            scripted: Any = models[request.agent]
            reply: ModelReply = await scripted.reply(request)
            return reply

    assert "Done." == work(RecordedModel(path, Provider(), record=True))
    assert "Done." == work(RecordedModel(path))


def test_equal_request_is_asked_once_while_recording(tmp_path: Path) -> None:
    provider = ScriptedModel(["Hello."])
    model = RecordedModel(tmp_path / "a.json", provider, record=True)

    assert ask(model, "Hi", run_id="r1") == ask(model, "Hi", run_id="r2")
    assert ask(RecordedModel(tmp_path / "a.json", provider, record=True), "Hi")
    assert 1 == len(provider.requests)


def test_two_models_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    provider = ScriptedModel(["Hello."])
    one, two = (RecordedModel(path, provider, record=True) for _ in range(2))
    ask(one, "one")
    ask(two, "two")

    replay = RecordedModel(path)
    assert ask(replay, "one") == ask(replay, "two")


def test_unknown_fields_usage_and_finish_reason_are_kept(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning": {"id": 2**70}}
    provider = ScriptedModel([message])
    recorded = ask(RecordedModel(tmp_path / "a.json", provider, record=True), "Hi")

    assert recorded == ask(RecordedModel(tmp_path / "a.json"), "Hi")
    assert recorded.message.data == message
    assert recorded == ask(provider, "Hi")


class Claim(BaseModel):
    """An output."""

    cents: int


@pytest.mark.parametrize(
    ("agent", "text", "difference"),
    [
        (
            Agent("a", instructions="Be kind."),
            "Pay Kim",
            "at messages[1].content, character 5: recorded 'Pay Jane', got 'Pay Kim'",
        ),
        (
            Agent("a", instructions="Be rude."),
            "Pay Jane",
            "at messages[0].content, character 4: recorded 'Be kind.', got 'Be rude.'",
        ),
        (
            Agent("a", instructions="Be kind.", settings={"temperature": 0}),
            "Pay Jane",
            "request 1 at settings.temperature: recorded nothing, got 0",
        ),
        (
            Agent("a", instructions="Be kind.", output_type=Claim),
            "Pay Jane",
            "request 1 at output_schema: recorded None, got {",
        ),
        (
            Agent("a", instructions="Be kind.", tools=[Agent("b")]),
            "Pay Jane",
            "request 1 at tools[0]: recorded nothing, got {",
        ),
    ],
)
def test_first_difference_is_named(
    tmp_path: Path, agent: Agent, text: str, difference: str
) -> None:
    path = tmp_path / "a.json"
    model = RecordedModel(path, ScriptedModel(["Paid."]), record=True)
    run(Agent("a", instructions="Be kind.", model=model), "Pay Jane")
    before = path.read_text()
    agent.model = RecordedModel(path, no_model)

    with pytest.raises(ModelError) as raised:
        run(agent, text)
    assert difference in str(raised.value)
    assert "agent a, recording a.json" in str(raised.value)
    assert not raised.value.retryable
    assert before == path.read_text()


def test_nearest_request_is_compared(tmp_path: Path) -> None:
    """A difference late in a conversation is not hidden by the first request."""
    path = tmp_path / "a.json"

    def work(model: Model, answer: str) -> None:
        def look() -> str:
            """Look."""
            return answer

        run(Agent("a", tools=[look], model=model), "Go")

    provider = ScriptedModel([ToolCall("look"), "Ok."])
    work(RecordedModel(path, provider, record=True), "red")

    with pytest.raises(ModelError, match=r"request 2 at messages\[2\]\.content"):
        work(RecordedModel(path), "blue")


def test_changed_model_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    ask(RecordedModel(path, ScriptedModel(["Hi."], name="one"), record=True), "Hi")
    data = json.loads(path.read_text())
    data["model"] = "two"
    path.write_text(json.dumps(data))

    with pytest.raises(ModelError, match="at model, character 1: recorded 'one'"):
        ask(RecordedModel(path), "Hi")


def test_two_models_are_not_mixed_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    ask(RecordedModel(path, ScriptedModel(["Hi."], name="one"), record=True), "Hi")
    before = path.read_text()
    other = RecordedModel(path, ScriptedModel(["Hi."], name="two"), record=True)

    with pytest.raises(ModelError, match="recording of one, and the model is two"):
        ask(other, "Bye")
    assert before == path.read_text()


def test_removed_text_fits_no_new_request_while_recording(tmp_path: Path) -> None:
    """A message that is a secret as a whole fits any message, but only in a replay."""
    path = tmp_path / "a.json"
    provider = ScriptedModel(lambda request: f"re: {request.messages[0].content}")
    ask(RecordedModel(path, provider, record=True, secrets=["hunter"]), "hunter")

    model = RecordedModel(path, provider, record=True)
    assert "re: Hello" == ask(model, "Hello").message.content


def test_error_of_the_provider_is_raised_and_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    model = RecordedModel(path, ScriptedModel([ModelError("busy.")]), record=True)

    with pytest.raises(ModelError, match="busy"):
        ask(model, "Hi")
    assert not path.exists()


def test_empty_recording_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": 1, "model": "", "exchanges": []}')

    with pytest.raises(ModelError, match="no request is recorded"):
        ask(RecordedModel(path), "Hi")
    assert ask(RecordedModel(path, ScriptedModel(["Hi."]), record=True), "Hi")
    assert "scripted" == RecordedModel(path).name


def test_settings_that_are_no_json_are_refused(tmp_path: Path) -> None:
    model = RecordedModel(tmp_path / "a.json", ScriptedModel(["Hi."]), record=True)

    with pytest.raises(ModelError, match="settings"):
        ask(model, "Hi", settings={"stop": {"."}})


def test_missing_file_and_missing_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        RecordedModel(tmp_path / "a.json", no_model)
    with pytest.raises(InvalidInput, match="needs the model"):
        RecordedModel(tmp_path / "a.json", record=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"format": 2}',
        '{"format": 1, "model": "m"}',
        '{"format": 1, "model": 5, "exchanges": []}',
        '{"format": 1, "model": "m", "exchanges": [5]}',
        '{"format": 1, "model": "m", "exchanges": [{"digest": "x"}]}',
    ],
)
def test_damaged_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)

    with pytest.raises(InvalidInput, match=r"a\.json cannot be read"):
        RecordedModel(path)
    assert text == path.read_text()


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"message": 5, "usage": {}, "finish_reason": "stop"},
        {"message": {"role": "assistant"}, "usage": 5, "finish_reason": "stop"},
        {"message": {"role": "user"}, "usage": {"x": 1}, "finish_reason": "stop"},
    ],
)
def test_damaged_reply_is_a_model_error(tmp_path: Path, reply: Any) -> None:
    path = tmp_path / "a.json"
    ask(RecordedModel(path, ScriptedModel(["Hi."]), record=True), "Hi")
    data = json.loads(path.read_text())
    data["exchanges"][0]["reply"] = reply
    path.write_text(json.dumps(data))

    with pytest.raises(ModelError, match="cannot be read"):
        ask(RecordedModel(path), "Hi")


def test_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    model = RecordedModel(path, ScriptedModel(["Hi."]), record=True)
    ask(model, "one")
    before = path.read_text()

    def full(*_: object) -> None:
        msg = "no space left"
        raise OSError(msg)

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(ModelError, match="cannot be written"):
        ask(model, "two")
    assert [path] == list(tmp_path.iterdir())
    assert before == path.read_text()


def test_real_model_class_is_recorded(tmp_path: Path) -> None:
    """A class is not a function: its object has `reply`."""
    path = tmp_path / "a.json"
    made: list[Model] = []

    def make() -> Model:
        made.append(ScriptedModel(["Hi."]))
        return made[-1]

    agent = Agent("a", model=RecordedModel(path, make, record=True))
    assert isinstance(run(agent, "Hi"), Finished)
    assert isinstance(run(agent, "Hi"), Finished)
    assert 1 == len(made)
