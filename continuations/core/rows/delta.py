"""Deltas: the difference between two states of a run, and its application.

A delta holds the new and changed rows, the ids of removed rows, and for each log the
number of messages to keep and the messages to add. A delta without a base is a full
copy.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.state import RunState
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from continuations.core.messages import Message
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.waits import Wait

Row = TypeVar("Row")


class DeltaMismatch(ValueError):
    """A delta does not fit the state that it is applied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDelta:
    """Keep the first `keep_count` messages of the base's log, then add `added`."""

    id: int
    keep_count: int
    added: tuple[Message, ...]

    @property
    def metadata(self) -> tuple[tuple[int, str], ...]:
        """The metadata of the added messages that have some, by position."""
        found = [each.metadata_json for each in self.added]
        return (
            tuple((n, text) for n, text in enumerate(found) if text)
            if any(found)
            else ()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The changed rows and the ids of removed rows.

    `manifest` is `None` if it did not change. `states` has the states of agents that
    changed, by frame id. They are no part of the stored rows of frames, which change
    with every turn. `files` has attachments by digest; only a continuation of a run
    without a store contains them.
    """

    run: RunRow
    manifest: str | None
    frames: tuple[FrameRow, ...]
    calls: tuple[CallRow, ...]
    waits: tuple[Wait, ...]
    logs: Mapping[str, LogDelta]
    removed_ids: tuple[str, ...]
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)


def diff(base: RunState | None, new: RunState) -> Delta:
    """Return the delta from `base` to `new`; without a base, a full copy."""
    if base is None:
        frames, states = _without_states({}, new.frames.values())
        return Delta(
            run=new.run,
            manifest=new.manifest,
            frames=frames,
            calls=tuple(new.calls.values()),
            waits=tuple(new.waits.values()),
            logs={key: _full_log_delta(log) for key, log in new.logs.items()},
            removed_ids=(),
            states=states,
        )
    changed = _changed_rows(base.frames, new.frames)
    frames, states = _without_states(base.frames, changed)
    return Delta(
        run=new.run,
        manifest=None if base.manifest == new.manifest else new.manifest,
        frames=frames,
        calls=tuple(_changed_rows(base.calls, new.calls)),
        waits=tuple(_changed_rows(base.waits, new.waits)),
        logs=_log_deltas(base.logs, new.logs),
        removed_ids=(
            *(base.frames.keys() - new.frames.keys()),
            *(base.calls.keys() - new.calls.keys()),
            *(base.waits.keys() - new.waits.keys()),
        ),
        states=states,
    )


def apply_delta(base: RunState | None, delta: Delta) -> RunState:
    """Return the state that a delta leads to; raises `DeltaMismatch`."""
    manifest = delta.manifest
    if manifest is None:
        if base is None:
            raise DeltaMismatch("a full copy has no manifest")
        manifest = base.manifest
    for rows in (delta.frames, delta.calls, delta.waits):
        if len({row.id for row in rows}) != len(rows):
            raise DeltaMismatch("a row occurs twice in the delta")
    removed_ids = set(delta.removed_ids)
    old_logs: Mapping[str, MessageLog] = base.logs if base else {}
    logs = {key: log for key, log in old_logs.items() if key not in removed_ids}
    for key, change in delta.logs.items():
        logs[key] = _apply_log_delta(key, old_logs.get(key), change)
    return RunState.from_rows(
        run=delta.run,
        manifest=manifest,
        frames=_merged_rows(
            base.frames if base else {}, removed_ids, _with_states(base, delta)
        ),
        calls=_merged_rows(base.calls if base else {}, removed_ids, delta.calls),
        waits=_merged_rows(base.waits if base else {}, removed_ids, delta.waits),
        logs=logs,
    )


def _changed_rows(base: Mapping[str, Row], new: Mapping[str, Row]) -> list[Row]:
    # Rows are immutable, so an identical object is an unchanged row.
    if base is new:
        return []
    known = base.get
    return [row for key, row in new.items() if known(key) is not row]


def _without_states(
    base: Mapping[str, FrameRow], changed: Collection[FrameRow]
) -> tuple[tuple[FrameRow, ...], Mapping[str, str]]:
    """Return changed frames as they are stored, and the states that changed."""
    states: dict[str, str] = {}
    has_states = False
    for row in changed:
        old = base[row.id].state_json if row.id in base else ""
        if row.state_json != old:
            states[row.id] = row.state_json
        has_states = has_states or row.state_json != ""
    if not has_states:
        return tuple(changed), states
    return tuple([replace(row, state_json="") for row in changed]), states


def _with_states(base: RunState | None, delta: Delta) -> Iterable[FrameRow]:
    """Return the changed frames with their states, which are stored apart."""
    old: Mapping[str, FrameRow] = base.frames if base else {}
    frames: list[FrameRow] = []
    states = dict(delta.states)
    for row in delta.frames:
        before = old[row.id].state_json if row.id in old else ""
        state = states.pop(row.id, before)
        frames.append(replace(row, state_json=state) if state else row)
    if states:
        raise DeltaMismatch("a state belongs to no changed frame")
    return frames


def _log_deltas(
    base: Mapping[str, MessageLog], new: Mapping[str, MessageLog]
) -> Mapping[str, LogDelta]:
    if base is new:
        return {}
    known = base.get
    changed = [(key, log) for key, log in new.items() if known(key) is not log]
    return {key: _log_delta(known(key), log) for key, log in changed}


def _log_delta(base: MessageLog | None, new: MessageLog) -> LogDelta:
    if base is None:
        return _full_log_delta(new)
    keep = len(base.messages)
    if base.id != new.id:
        pairs = zip(base.messages, new.messages, strict=False)
        keep = 0
        for old, current in pairs:
            if old is not current:
                break
            keep += 1
    return LogDelta(id=new.id, keep_count=keep, added=new.messages[keep:])


def _full_log_delta(log: MessageLog) -> LogDelta:
    return LogDelta(id=log.id, keep_count=0, added=log.messages)


def _apply_log_delta(
    frame_id: str, base: MessageLog | None, change: LogDelta
) -> MessageLog:
    kept = base.messages if base else ()
    if change.keep_count > len(kept):
        msg = f"frame {frame_id} has {len(kept)} messages, not {change.keep_count}"
        raise DeltaMismatch(msg)
    return MessageLog(change.id, kept[: change.keep_count] + change.added)


def _merged_rows(
    base: Mapping[str, Row], removed_ids: set[str], changed: Iterable[Row]
) -> Mapping[str, Row]:
    kept = base
    if removed_ids:
        kept = {key: row for key, row in kept.items() if key not in removed_ids}
    return {**kept, **_by_id(changed)}


def _by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {row.id: row for row in rows}  # type: ignore[attr-defined]
