"""Read the stored states of agents with the types that this process declares."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.authoring import callables
from continuations.authoring.errors import StateInvalid
from continuations.core.rows.state import RunState, frame_path
from continuations.engine.call_failures import describe_error
from continuations.engine.hook_calls import turn_error
from continuations.engine.start.new_run import problem_of, with_instructions
from continuations.errors import AgentChanged, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.authoring.tool.tool_protocol import AgentProtocol

    FindAgent: TypeAlias = Callable[[RunState, str], AgentProtocol | None]
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.messages import Message
    from continuations.core.rows.frames import FrameRow


def check_states(state: RunState, find_agent: FindAgent) -> None:
    """Raise `AgentChanged` if a stored state does not fit the type of its agent.

    A field that is not stored has its default. A state of an agent that declares none
    any more is kept, and nothing reads it.
    """
    for frame in state.frames.values():
        if not frame.state_json:
            continue
        agent = find_agent(state, frame.id)
        if agent is not None and agent.state_spec is not None:
            path = frame_path(state, frame.id)
            typed_state(agent, frame.state_json, state.run.id, path=path)


def typed_state(
    agent: AgentProtocol,
    state_json: str,
    run_id: str | None = None,
    *,
    path: tuple[str, ...] = (),
) -> Any:
    """Return a stored state as a value of the type that an agent declares.

    `path` is the path of the agent's frame, for the error.

    Raises:
        InvalidInput: The agent declares no state.
        AgentChanged: The stored state does not fit the type.
    """
    spec = agent.state_spec
    if spec is None:
        msg = (
            f"agent {agent.name} has no state. Declare Agent(..., state=...) with a "
            "pydantic model or a dataclass."
        )
        raise InvalidInput(msg, run_id=run_id)
    try:
        return spec.value(state_json)
    except StateInvalid as error:
        # Without values: they may be private.
        places = ", ".join(error.places) or "the whole value"
        msg = (
            f"run {run_id}: the stored state of agent {agent.name!r} does not fit its "
            f"type {spec.type_name} ({places}). Nothing ran, and nothing was written. "
            "Resume with a type that fits, or cancel the run."
        )
        raise AgentChanged(msg, run_id=run_id, change="state", path=path) from None


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
        why = problem_of(error)
        raise turn_error("instructions", agent.name, run_id, why) from error
    return with_instructions(messages, text)
