"""The progress of an agent that an `is_enabled` function reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.authoring.tool_options import OfferInfo
from continuations.core.returned_results import returned_results
from continuations.core.state import frame_path

if TYPE_CHECKING:
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.frames import FrameRow
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
