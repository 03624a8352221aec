"""Hand on the live events of one reply or one call, while a worker works on it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.reading.live_events import (
    CallProgress,
    ReasoningDelta,
    TextDelta,
)
from continuations.core.rows.state import RunState, call_path, frame_path

if TYPE_CHECKING:
    from continuations.core.model_protocol import ModelDelta
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.frames import FrameRow
    from continuations.engine.ports import EventSink


_log = logging.getLogger("continuations")


class TurnFeed:
    """Hands on the parts of one reply; call it with each."""

    def __init__(
        self, sink: EventSink, state: RunState, frame: FrameRow, fence: int
    ) -> None:
        self._sink = sink
        self._run_id = state.run.id
        self._frame = frame
        self._path = frame_path(state, frame.id)
        self._fence = fence
        self._attempt, self._index = 1, 0

    async def __call__(self, delta: ModelDelta) -> None:
        """Hand a part on, and let those who read the events run."""
        if delta.kind == "restart":
            if self._index:
                self._attempt, self._index = self._attempt + 1, 0
            return
        if not delta.text:
            return
        make = TextDelta if delta.kind == "text" else ReasoningDelta
        event = make(
            run_id=self._run_id,
            frame=self._frame.id,
            path=self._path,
            turn=self._frame.turns + 1,
            fence=self._fence,
            attempt=self._attempt,
            index=self._index,
            text=delta.text,
        )
        self._index += 1
        self._sink.put(event)
        # A model whose next part is there already does not give way to other tasks.
        await asyncio.sleep(0)


class CallFeed:
    """Hands on the progress of one call."""

    def __init__(
        self, sink: EventSink, state: RunState, call: CallRow, fence: int
    ) -> None:
        self._sink = sink
        self._run_id = state.run.id
        self._call = call
        self._path = call_path(state, call)
        self._turn = state.frames[call.frame_id].turns
        self._fence = fence
        self._index = 0

    def text_of(self, value: object) -> str | None:
        """Return a value as JSON text, in any thread; `None` if it is not JSON."""
        try:
            return jsontext.dump(value)
        except jsontext.NotJson as error:
            _log.warning(
                "run %s: a value for ctx.progress of tool %s is left out: %s",
                *(self._run_id, self._call.tool, error),
            )
            return None

    def report(self, text: str) -> None:
        """Hand a JSON text on."""
        event = CallProgress(
            run_id=self._run_id,
            frame=self._call.frame_id,
            path=self._path,
            turn=self._turn,
            fence=self._fence,
            attempt=max(self._call.attempts, 1),
            index=self._index,
            call=self._call.id,
            tool=self._call.tool,
            value_json=text,
        )
        self._index += 1
        self._sink.put(event)
