"""Guardrails that let people judge texts, and an agent that judges calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from continuations import Agent
from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.errors import ModelError
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo, TurnInfo
from continuations.models.interface import ModelReply, ModelRequest
from tests.simulation.processes import ProcessKilled, current_process

# The agent refuses calls with this argument; a person may give it as an edit.
REFUSED_BY_AGENT = "9"


@dataclass
class Verdict:
    """The output of the agent that judges."""

    tripped: bool
    reason: str


class JudgeModel:
    """Judges a call by its argument. Its requests are no turns of the run."""

    name = "judge"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Take some virtual time, and reply, or die or raise as any model does."""
        process = current_process()
        if process.environment.closed:
            raise ProcessKilled
        await process.freeze_before_call()
        await asyncio.sleep(0.2 + process.rng.random() * 2)
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        if process.draw_fault("model_error") is not None:
            raise ModelError("simulated error")
        call: Any = jsontext.parse(request.messages[-1].content)
        tripped = call["arguments"].get("what") == REFUSED_BY_AGENT
        verdict = {"tripped": tripped, "reason": "never"}
        data = {"role": "assistant", "content": jsontext.canonical(verdict)}
        return ModelReply(message=Message.from_mapping(data))


def _asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    return Tripped("a person decides") if info.text else None


_PERSON = Guardrail(check=_asks, name="asks", on_trip="ask")
JUDGED = Guardrails(
    input=[_PERSON],
    output=[_PERSON],
    tools=[Agent("judge", model=JudgeModel(), output_type=Verdict)],
)
