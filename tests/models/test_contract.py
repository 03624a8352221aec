"""The contract: what a reply says by default, and that both models keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.messages import Message
from continuations.core.usage import Usage
from continuations.models.contract import ModelRequest, Reply
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from continuations.models.contract import Model


def test_a_reply_is_one_request_that_stopped() -> None:
    reply = Reply(message=Message.of({"role": "assistant", "content": "hi"}))

    assert (Usage(requests=1), "stop") == (reply.usage, reply.finish)


def test_a_request_asks_for_nothing_by_default() -> None:
    request = ModelRequest(messages=[])

    assert ((), {}) == (request.tools, request.settings)


def test_both_models_keep_the_contract() -> None:
    # Given the assignment, which the type checkers judge
    models: list[Model] = [OpenAIChat("gpt-5-mini"), ScriptedModel(["hi"])]

    assert ["gpt-5-mini", "scripted"] == [model.name for model in models]
