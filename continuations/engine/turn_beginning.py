"""Take the options of a turn from the code of this process when the turn begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.authoring.errors import InstructionsInvalid
from continuations.core import turn_instructions
from continuations.core.events import TurnBeginning
from continuations.core.state import ROOT_FRAME_ID
from continuations.engine.inbox_messages import find_beginning_message
from continuations.engine.stored_instructions import stored_instructions
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.state import RunState
    from continuations.engine.stack_binding import StackBinding
    from continuations.ledger.arrivals import Arrivals
    from continuations.wire.arrivals import InboxMessage


async def turn_beginning(
    state: RunState, arrived: Arrivals, stack_binding: StackBinding, context: Any
) -> TurnBeginning | None:
    """Return what the next turn of a thread begins with; `None`: no turn begins.

    A turn that has begun keeps its instructions. Raises `InvalidInput` if the function
    of the instructions fails. Nothing is stored then, and the message stays.
    """
    message = find_beginning_message(state, arrived.inbox_messages)
    if message is None:
        return None
    agent = stack_binding.agent(state, ROOT_FRAME_ID)
    log = state.logs[ROOT_FRAME_ID]
    # A function was called with the first message when the thread was made.
    is_made = not isinstance(agent.instructions, str) and message.number == 1
    if turn_instructions.is_frozen(log) or (is_made and log.messages):
        return TurnBeginning(max_turns=agent.max_turns)
    text = await _instructions(state, agent, message, context)
    changed = turn_instructions.new_message(log, text)
    return TurnBeginning(max_turns=agent.max_turns, instructions=changed)


async def _instructions(
    state: RunState, agent: AgentProtocol, message: InboxMessage, context: Any
) -> str:
    try:
        return await stored_instructions(agent, message.message.content, context)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        wrong = isinstance(error, InstructionsInvalid)
        why = str(error) if wrong else f"raised {type(error).__name__}"
        run_id = state.run.id
        msg = (
            f"run {run_id} did not continue: agent {agent.name}: the instructions "
            f"function {why}. Nothing ran, and message {message.number} stays. Correct "
            "the function, or pass the context= that it needs, then resume the run."
        )
        raise InvalidInput(msg, run_id=run_id) from error
