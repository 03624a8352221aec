"""Call a model over real HTTP, for the tests of this folder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.dialect import ChatDialect
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from tests.model_server import ModelServer, Rule, Script

KEY = "sk-proj-0123456789abcdefghij"
HELLO_REQUEST = ModelRequest(messages=[user_message("hello")])


def chat_model(
    server: ModelServer, *, max_retries: int = 0, dialect: ChatDialect | None = None
) -> OpenAIChat:
    """Return the adapter for a server."""
    return OpenAIChat(
        "gpt-5-mini",
        base_url=server.url,
        api_key=server.key,
        max_retries=max_retries,
        dialect=dialect,
    )


def call_model(model: OpenAIChat, request: ModelRequest = HELLO_REQUEST) -> ModelReply:
    """Return the reply of a model, requested on a new event loop."""
    return asyncio.run(model.reply(request))


def adapter_reply(
    reply: Mapping[str, Any], request: ModelRequest = HELLO_REQUEST
) -> ModelReply:
    """Return the reply that the adapter makes from a server's reply."""
    with ModelServer({"": [reply]}, key=KEY) as server:
        return call_model(chat_model(server), request)


def adapter_error(
    script: Script | Rule, request: ModelRequest = HELLO_REQUEST
) -> ModelError:
    """Return the error that the adapter raises for a server's reply."""
    with (
        ModelServer(script, key=KEY) as server,
        pytest.raises(ModelError) as caught,
    ):
        call_model(chat_model(server), request)
    return caught.value


def without_port(error: ModelError) -> str:
    """Return the text of an error with PORT in place of a server's port."""
    return re.sub(r"(127\.0\.0\.1):\d+", r"\1:PORT", str(error))
