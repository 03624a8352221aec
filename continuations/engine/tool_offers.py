"""The progress of an agent that an `is_enabled` function reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.authoring.tool_options import OfferInfo
from continuations.core.call_ends import end_in
from continuations.core.output_retries import is_retry_request
from continuations.core.state import frame_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.frames import FrameRow
    from continuations.core.messages import Message
    from continuations.core.state import RunState


def offer_info(agent: AgentProtocol, state: RunState, frame: FrameRow) -> OfferInfo:
    """Return the progress of an agent at its next turn, or at the turn in progress.

    While a turn has open calls, it is the turn that made them. Neither the results nor
    the state change until all of them have ended.
    """
    return OfferInfo(
        run_id=state.run.id,
        agent=agent.name,
        path=frame_path(state, frame.id),
        turns=frame.turns - bool(frame.open_call_ids),
        make_state=partial(_state, agent, frame.state_json),
        make_results=partial(returned_results, state.logs[frame.id].messages),
    )


def _state(agent: AgentProtocol, state_json: str) -> Any:
    spec = agent.state_spec
    return None if spec is None else spec.value(state_json)


def returned_results(messages: Sequence[Message]) -> dict[str, str]:
    """Return the newest result of each tool since the last message of the user.

    The result of a failed or refused call does not count.
    """
    results: dict[str, str] = {}
    round_results: dict[str, Message] = {}
    for message in reversed(messages):
        if message.role == "user" and not is_retry_request(message):
            break
        if message.role == "tool":
            round_results[message.answered_call_id or ""] = message
        elif message.role == "assistant" and round_results:
            for request in reversed(message.tool_calls):
                result = round_results.get(request.tool_call_id)
                if result is not None and end_in(result) == "returned":
                    results.setdefault(request.tool, result.content)
            round_results = {}
    return results
