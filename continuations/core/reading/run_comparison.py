"""Compare two states of a run: `difference(before, after)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.reading import run_past
from continuations.core.rows.calls import STATE_NAMES, CallRow
from continuations.core.rows.state import by_depth, frame_path, shown_arguments
from continuations.core.rows.waits import Wait, withheld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.messages import Message
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.state import RunState

_NO_STATE = "{}"


def difference(
    before: RunState, after: RunState, *, numbers: tuple[int, int]
) -> run_past.RunDifference:
    """Return the differences between two states of one run.

    The decisions of the waits are missing: the states do not have them.

    Args:
        before: The state of the first version.
        after: The state of the second version.
        numbers: The numbers of the two versions.
    """
    return run_past.RunDifference(
        run_id=after.run.id,
        before=numbers[0],
        after=numbers[1],
        status_before=before.run.status,
        status_after=after.run.status,
        usage_before=before.run.usage,
        usage_after=after.run.usage,
        frames=tuple(_frames(before, after)),
        messages=tuple(_messages(before, after)),
        calls=tuple(_calls(before, after)),
        waits=tuple(_waits(before, after)),
        states=tuple(_states(before, after)),
    )


def _all_frames(before: RunState, after: RunState) -> list[FrameRow]:
    return by_depth({**before.frames, **after.frames}.values())


def _frames(before: RunState, after: RunState) -> Iterator[run_past.FrameDifference]:
    for row in _all_frames(before, after):
        if row.id in before.frames and row.id in after.frames:
            continue
        added = row.id in after.frames
        path = frame_path(after if added else before, row.id)
        yield run_past.FrameDifference(
            change="added" if added else "removed",
            frame=row.id,
            path=path,
            agent=row.agent,
        )


def _messages(
    before: RunState, after: RunState
) -> Iterator[run_past.MessageDifference]:
    for row in _all_frames(before, after):
        old = [each.text for each in _log(before, row.id)]
        new = [each.text for each in _log(after, row.id)]
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        sides: tuple[tuple[run_past.Change, RunState, list[str]], ...] = (
            ("removed", before, old),
            ("added", after, new),
        )
        for change, state, texts in sides:
            for position in range(same, len(texts)):
                yield run_past.MessageDifference(
                    change=change,
                    frame=row.id,
                    path=frame_path(state, row.id),
                    position=position,
                    message_json=texts[position],
                )


def _log(state: RunState, frame_id: str) -> tuple[Message, ...]:
    log = state.logs.get(frame_id)
    return () if log is None else log.messages


def _calls(before: RunState, after: RunState) -> Iterator[run_past.CallDifference]:
    rows = {**before.calls, **after.calls}
    for row in sorted(rows.values(), key=lambda each: int(each.id[1:])):
        old, new = before.calls.get(row.id), after.calls.get(row.id)
        if old is not None and new is not None and _looks_equal(old, new):
            continue
        change: run_past.Change = "changed"
        if old is None or new is None:
            change = "added" if old is None else "removed"
        state = before if new is None else after
        yield run_past.CallDifference(
            change=change,
            call=row.id,
            frame=row.frame_id,
            path=(*frame_path(state, row.frame_id), row.tool),
            tool=row.tool,
            before=_state_name(old),
            after=_state_name(new),
            arguments_before_json=_arguments(old),
            arguments_after_json=_arguments(new),
        )


def _looks_equal(old: CallRow, new: CallRow) -> bool:
    return old.state == new.state and old.arguments == new.arguments


def _state_name(row: CallRow | None) -> str | None:
    return None if row is None else STATE_NAMES[type(row.state)]


def _arguments(row: CallRow | None) -> str | None:
    return None if row is None else shown_arguments(row)


def _waits(before: RunState, after: RunState) -> Iterator[run_past.WaitDifference]:
    sides: tuple[tuple[run_past.Change, RunState, RunState], ...] = (
        ("removed", before, after),
        ("added", after, before),
    )
    for change, state, other in sides:
        for wait in sorted(state.waits.values(), key=Wait.sort_key):
            if wait.id not in other.waits:
                yield run_past.WaitDifference(change=change, wait=withheld(wait))


def _states(before: RunState, after: RunState) -> Iterator[run_past.StateDifference]:
    for row in _all_frames(before, after):
        old, new = before.frames.get(row.id), after.frames.get(row.id)
        old_state = (old and old.state_json) or _NO_STATE
        new_state = (new and new.state_json) or _NO_STATE
        if old_state != new_state:
            state = before if new is None else after
            yield run_past.StateDifference(
                frame=row.id,
                path=frame_path(state, row.id),
                before_json=old_state,
                after_json=new_state,
            )
