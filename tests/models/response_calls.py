"""Call `OpenAIResponses` over real HTTP, for the tests of this folder."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.interface import (
    LostReply,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.openai_responses import OpenAIResponses
from tests.responses_server import Reply, ResponsesServer, Rule

HELLO = ModelRequest(messages=[user_message("hello")])


def responses_model(server: ResponsesServer, **options: Any) -> OpenAIResponses:
    """Return the adapter for a server."""
    return OpenAIResponses(
        "gpt-5-mini", base_url=server.url, api_key=server.key, **options
    )


def reply_to(reply: Reply, request: ModelRequest = HELLO) -> ModelReply:
    """Return the reply that the adapter makes from a server's response."""
    with ResponsesServer([reply]) as server:
        answer = asyncio.run(responses_model(server).reply(request))
    assert isinstance(answer, ModelReply)
    return answer


def error_of(reply: Reply | Rule, request: ModelRequest = HELLO) -> ModelError:
    """Return the error that the adapter raises for a server's response."""
    script = reply if callable(reply) else [reply]
    with ResponsesServer(script) as server, pytest.raises(ModelError) as caught:
        asyncio.run(responses_model(server).reply(request))
    return caught.value


def sent_for(request: ModelRequest, **options: Any) -> dict[str, Any]:
    """Return the body that the adapter sends for a request."""
    with ResponsesServer(lambda _: {"status_code": 401, "body": {}}) as server:
        with pytest.raises(ModelError):
            asyncio.run(responses_model(server, **options).reply(request))
        return server.requests[0]


def poll(
    model: OpenAIResponses, reply_id: str, request: ModelRequest = HELLO
) -> ModelReply | PendingReply | LostReply:
    """Return the answer of a poll, on a new event loop."""
    return asyncio.run(model.poll(reply_id, request))
