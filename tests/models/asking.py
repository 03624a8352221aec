"""How the tests of this room ask a model over real HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from continuations.core.messages import user
from continuations.errors import ModelError
from continuations.models.contract import ModelRequest, Reply
from continuations.models.openai_chat import OpenAIChat
from tests.model_server import ModelServer, Rule, Script

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "sk-proj-0123456789abcdefghij"
HELLO = ModelRequest(messages=[user("hello")])


def chat(server: ModelServer, *, max_retries: int = 0) -> OpenAIChat:
    """Return the adapter for a server."""
    return OpenAIChat(
        "gpt-5-mini", base_url=server.url, api_key=server.key, max_retries=max_retries
    )


def ask(model: OpenAIChat, request: ModelRequest = HELLO) -> Reply:
    """Return the reply, asked for on a loop of its own."""
    return asyncio.run(model.reply(request))


def answered(reply: Mapping[str, Any], request: ModelRequest = HELLO) -> Reply:
    """Return what becomes of a server's reply."""
    with ModelServer({"": [reply]}, key=KEY) as server:
        return ask(chat(server), request)


def failure(script: Script | Rule, request: ModelRequest = HELLO) -> ModelError:
    """Return the error that a server's reply ends in."""
    with (
        ModelServer(script, key=KEY) as server,
        pytest.raises(ModelError) as caught,
    ):
        ask(chat(server), request)
    return caught.value
