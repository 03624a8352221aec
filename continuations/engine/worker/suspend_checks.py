"""Check before a turn whether it may begin: the bound on denials, `suspend_when`."""

from __future__ import annotations

import logging
from dataclasses import field
from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.authoring.suspend_conditions import AgentProgress, SuspendCondition
from continuations.core.changes.events import (
    FrameAbandoned,
    FrameWatched,
    SuspensionBegan,
)
from continuations.core.changes.operator_changes import operator_wait
from continuations.core.rows import frames
from continuations.core.rows.frames import ConditionCount, DenialCount, FrameRow
from continuations.core.rows.state import RunState, frame_path
from continuations.engine.inbox_messages import with_inbox_messages
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.changes.events import Event
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding
    from continuations.wire.arrivals import InboxMessage

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True)
class SuspendChecks:
    """Asks the conditions of each turn once in this process."""

    stack_binding: StackBinding
    ports: Ports
    _asked: set[tuple[str, int]] = field(
        default_factory=set[tuple[str, int]], init=False
    )

    async def events(
        self, state: RunState, frame_id: str, unread: tuple[InboxMessage, ...] = ()
    ) -> tuple[Event, ...]:
        """Return the events before a turn; the last one may suspend or end the frame.

        A condition that suspended the frame before this very turn is not asked again.
        `unread` are messages that the turn may read.
        """
        agent = self.stack_binding.agent(state, frame_id)
        frame = state.frames[frame_id]
        if frame.denials:
            # A message starts the count again.
            told = with_inbox_messages(state, unread).frames[frame_id]
            denied = frames.denied_too_often(told.denials, agent.max_denials)
            if denied is not None:
                return (_end_after_denials(frame, denied),)
        if not agent.suspend_conditions:
            return ()
        return await self._condition_events(state, frame, agent)

    async def _condition_events(
        self, state: RunState, frame: FrameRow, agent: AgentProtocol
    ) -> tuple[Event, ...]:
        frame_id = frame.id
        if frame.pending_reply is not None:
            return ()  # the turn has begun
        turn = (frame_id, frame.turns)
        if turn in self._asked:
            return ()
        self._asked.add(turn)
        now = self.ports.clock.now()
        since = frame.watched_since or now
        met: dict[str, str | None] = {}
        for condition in agent.suspend_conditions:
            count = frame.count_of(condition.name)
            if count is not None and count.turns == frame.turns:
                continue
            note = await _note_if_met(condition, _progress(state, frame, count, now))
            if note is not None:
                met[condition.name] = note or None
        if not met and frame.watched_since is not None:
            return ()
        kept = tuple(each for each in frame.counts if each.name not in met)
        new = tuple(ConditionCount(name, frame.turns, now) for name in met)
        watched = FrameWatched(frame_id=frame_id, since=since, counts=(*kept, *new))
        if not met:
            return (watched,)
        wait_id = f"operator-{self.ports.ids.new_ulid(now)}@{state.run.id}"
        notes = [f"{name}: {note}" for name, note in met.items() if note]
        wait = operator_wait(
            state,
            wait_id,
            now=now,
            name=", ".join(met),
            note="; ".join(notes) or None,
            frame_id=frame_id,
        )
        return (watched, SuspensionBegan(wait=wait))


def _end_after_denials(frame: FrameRow, denied: DenialCount) -> FrameAbandoned:
    text = frames.denials_end_text(frame.agent, denied)
    return FrameAbandoned(frame_id=frame.id, code=frames.DENIALS_CODE, content=text)


def _progress(
    state: RunState, frame: FrameRow, count: ConditionCount | None, now: datetime
) -> AgentProgress:
    since = frame.watched_since or now if count is None else count.since
    return AgentProgress(
        run_id=state.run.id,
        agent=frame.agent,
        path=frame_path(state, frame.id),
        turns=frame.turns - (0 if count is None else count.turns),
        elapsed=now - since,
        all_turns=frame.turns,
        usage=state.run.usage,
    )


async def _note_if_met(
    condition: SuspendCondition, progress: AgentProgress
) -> str | None:
    """Return a note if a condition is met, perhaps an empty one; else `None`.

    A condition that fails counts as met: the run goes on only if an operator says so.
    """
    try:
        result: object = await callables.call(condition.is_met, progress)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        _log.exception(
            "run %s: the condition %s of agent %s raised",
            progress.run_id,
            condition.name,
            progress.agent,
        )
        return f"it raised {type(error).__name__}"
    if isinstance(result, str):
        return result or None
    if result is None or isinstance(result, bool):
        return "" if result else None
    return f"it returned {type(result).__name__}, and not True, False or a text"
