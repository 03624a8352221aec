"""The first state of a run, and the waits that calls come to stand at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext
from continuations.core.frames import FrameRow, MessageLog
from continuations.core.messages import (
    MalformedMessage,
    Message,
    system_message,
    user_message,
)
from continuations.core.run import Budget, RunRow
from continuations.core.state import ROOT_FRAME_ID, RunState
from continuations.core.transcript import find_violation
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from continuations.authoring.agent import Agent

Input: TypeAlias = "str | Sequence[Mapping[str, Any]]"


def first_messages(agent: Agent, agent_input: Input) -> tuple[Message, ...]:
    """Return the messages that a frame begins with; raises `InvalidInput`.

    An agent's instructions come first, unless the messages bring a system or
    developer message of their own.
    """
    if isinstance(agent_input, str):
        messages: tuple[Message, ...] = (user_message(agent_input),)
    elif isinstance(agent_input, list | tuple) and agent_input:
        messages = tuple(
            _parse_message(n, item) for n, item in enumerate(agent_input, 1)
        )
    else:
        msg = "The input is a text, or a list of messages that is not empty."
        raise InvalidInput(msg)
    leads = messages[0].role in ("system", "developer")
    if agent.instructions and not leads:
        messages = (system_message(agent.instructions), *messages)
    wrong = find_violation(messages)
    if wrong is not None:
        msg = f"The input is not a conversation that can be sent: {wrong}."
        raise InvalidInput(msg)
    return messages


def _parse_message(position: int, value: object) -> Message:
    try:
        message = Message.from_mapping(jsontext.as_object(value) or {})
    except (MalformedMessage, jsontext.NotJson) as error:
        msg = f"Message {position} of the input is none: {error}."
        raise InvalidInput(msg) from None
    content = message.data.get("content")
    if content or (message.tool_call_ids and message.role == "assistant"):
        return message
    msg = f"Message {position} of the input has no content: a text, or a list of parts."
    raise InvalidInput(msg)


def parse_user_message(text: object) -> Message:
    """Return a text as a user message; raises `InvalidInput`."""
    if not isinstance(text, str) or not text:
        msg = f"A message is a text that is not empty, not {str(text)[:40]!r}."
        raise InvalidInput(msg)
    return user_message(text)


def check_budget(budget: object) -> Budget | None:
    """Return a budget that is one; raises `InvalidInput`."""
    if budget is None:
        return None
    if isinstance(budget, Budget):
        limits = [n for n in (budget.requests, budget.tokens) if n is not None]
        if all(type(limit) is int and limit > 0 for limit in limits):
            return budget
    msg = f"A budget is Budget(requests=…, tokens=…), whole numbers above 0: {budget}"
    raise InvalidInput(msg)


def initial_state(
    agent: Agent,
    messages: tuple[Message, ...],
    *,
    run_id: str,
    run_nonce: str,
    manifest: str,
    now: datetime,
    budget: Budget | None = None,
) -> RunState:
    """Return the first state of a run."""
    # Not the instructions: a job that is delivered again after a new prompt was
    # deployed is the same job.
    own = bool(agent.instructions) and messages[0] == system_message(agent.instructions)
    texts = [message.text for message in messages[own:]]
    run = RunRow(
        id=run_id,
        run_nonce=run_nonce,
        agent=agent.name,
        created_at=now,
        input_digest=jsontext.digest(agent.name, *texts),
        next_id=3,
        budget=check_budget(budget),
    )
    frame = FrameRow(
        id=ROOT_FRAME_ID,
        agent=agent.name,
        parent_call_id=None,
        max_turns=agent.max_turns,
    )
    return RunState.from_rows(
        run=run,
        manifest=manifest,
        frames={ROOT_FRAME_ID: frame},
        calls={},
        waits={},
        logs={ROOT_FRAME_ID: MessageLog(2, messages)},
    )
