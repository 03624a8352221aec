"""The model protocol: its defaults, and that both models implement it."""

from __future__ import annotations

from continuations.core.messages import Message
from continuations.core.usage import Usage
from continuations.models.interface import Model, ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel


def test_reply_defaults_to_one_request_and_stop() -> None:
    reply = ModelReply(
        message=Message.from_mapping({"role": "assistant", "content": "hi"})
    )

    assert (Usage(requests=1), "stop") == (reply.usage, reply.finish_reason)


def test_request_has_no_tools_and_settings_by_default() -> None:
    request = ModelRequest(messages=[])

    assert ((), {}) == (request.tools, request.settings)


def test_both_models_implement_the_protocol() -> None:
    # The type checkers check this assignment.
    models: list[Model] = [OpenAIChat("gpt-5-mini"), ScriptedModel(["hi"])]

    assert ["gpt-5-mini", "scripted"] == [model.name for model in models]
