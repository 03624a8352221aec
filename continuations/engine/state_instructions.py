"""Instructions that a function makes from the state of a frame, for each request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.authoring.errors import InstructionsInvalid
from continuations.engine.error_reports import describe_error
from continuations.engine.hook_calls import turn_error
from continuations.engine.new_run import with_instructions
from continuations.engine.state_checks import typed_state

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.frames import FrameRow
    from continuations.core.messages import Message

_log = logging.getLogger("continuations")


async def with_rendered(
    messages: tuple[Message, ...], agent: AgentProtocol, frame: FrameRow, run_id: str
) -> tuple[Message, ...]:
    """Return the messages of one request, with the instructions of its state in front.

    The function is not called if the messages have instructions of their own, which the
    input or older code of the agent brought. Raises `HookFailed`.
    """
    if messages and messages[0].role in ("system", "developer"):
        return messages
    state = typed_state(agent, frame.state_json, run_id)
    try:
        text = await agent.render_instructions(state)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        who = f"run {run_id}: the instructions function of agent {agent.name}"
        _log.warning("%s raised: %s", who, describe_error(error))
        wrong = isinstance(error, InstructionsInvalid)
        why = str(error) if wrong else f"raised {type(error).__name__}"
        raise turn_error("instructions", agent.name, run_id, why) from error
    return with_instructions(messages, text)
