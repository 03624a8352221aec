"""boss > hr > clerk, whose models reply in the background or are limited.

The log of effects has each request and poll that reaches the provider. TEST_LIMITED
names the agents whose provider limits requests.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from continuations import Agent
from continuations.errors import ModelError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from tests import effect_log
from tests.engine.agent_builders import text_tool

HOUR = timedelta(hours=1)
SCRIPT: dict[str, list[Any]] = {
    "boss": [
        LaterReply([ToolCall("hr", {"input": "A"}), ToolCall("act", {"what": "1"})]),
        LaterReply("end", polls=2),
    ],
    "hr": [ToolCall("clerk", {"input": "B"}), LaterReply("hr end")],
    "clerk": [LaterReply(ToolCall("act", {"what": "2"}), poll_after=HOUR), "clerk end"],
}
# The requests and calls of the run, in every schedule.
EFFECTS = sorted(
    [
        *("ask boss 0", "ask boss 1", "ask hr 0", "ask hr 1"),
        *("ask clerk 0", "ask clerk 1", "act 1", "act 2"),
    ]
)


class Provider(ScriptedModel):
    """A provider that records what reaches it, and may limit the requests."""

    async def reply(self, request: ModelRequest) -> Any:
        """Refuse or begin a reply."""
        turn = sum(message.role == "assistant" for message in request.messages)
        if request.agent in os.environ.get("TEST_LIMITED", "").split():
            effect_log.append_effect("refuse", f"{request.agent} {turn}")
            msg = "status 429"
            # More than `model_retry_time`, the limit of a worker for repeated requests.
            raise ModelError(msg, retryable=True, retry_after=600)
        effect_log.append_effect("ask", f"{request.agent} {turn}")
        return await super().reply(request)

    async def poll(self, reply_id: str, request: ModelRequest) -> Any:
        """Return a reply that was begun."""
        effect_log.append_effect("poll", f"{request.agent} {reply_id}")
        return await super().poll(reply_id, request)


act = text_tool("act", "acted {what}", {"what": str}, logs=True, idempotent=True)


def agents() -> list[Agent]:
    model = Provider(SCRIPT)
    clerk = Agent("clerk", tools=[act], model=model)
    hr = Agent("hr", tools=[clerk], model=model)
    return [Agent("boss", tools=[hr, act], model=model)]
