"""Compaction: a summary takes the place of the older messages of a frame.

The messages of a frame then are, in this order:

    head      the system and developer messages at the beginning
    kept      what the user asked for last, and the requests to reply again after it
    summary   one user message instead of all other older messages
    recent    the newest messages

The recent messages begin between two rounds. A round is an assistant message with the
results of its calls. So no call is separated from its result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from continuations.core.changes.events import HistoryCompacted
from continuations.core.changes.tool_messages import is_empty_reply, is_retry_request
from continuations.core.changes.transitions import illegal_transition
from continuations.core.messages import (
    Message,
    find_violation,
    is_instructions,
    user_message,
)
from continuations.core.rows.frames import FrameRow, HistoryRecord, MessageLog
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from continuations.core.changes.events import ModelReplied, SummaryFailed
    from continuations.core.rows.state import Draft

_SUMMARY_HEADING = (
    "Summary of the earlier conversation. It replaces the older messages, also those "
    "after the last request above.\n\n"
)
_MIN_ROUNDS = 2


# Planning -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistorySplit:
    """The parts of a frame's messages before a compaction.

    Attributes:
        messages: All messages.
        head: Number of the messages of the head.
        kept: Indexes of the kept messages.
        recent: Index of the first recent message.
    """

    messages: tuple[Message, ...]
    head: int
    kept: tuple[int, ...]
    recent: int

    @property
    def replaced(self) -> tuple[Message, ...]:
        """The messages that a summary replaces, also an earlier summary."""
        older = range(self.head, self.recent)
        return tuple(self.messages[i] for i in older if i not in self.kept)

    @property
    def summary_number(self) -> int:
        """The number of the summary among the new messages, from 1."""
        return self.head + len(self.kept) + 1

    def with_summary(self, text: str) -> tuple[Message, ...]:
        """Return the messages after the compaction."""
        return (
            *self.messages[: self.head],
            *(self.messages[i] for i in self.kept),
            user_message(_SUMMARY_HEADING + text),
            *self.messages[self.recent :],
        )


def split_history(
    messages: tuple[Message, ...],
    *,
    summary_number: int,
    keep_last: int,
    may_stay: Callable[[Sequence[Message]], bool],
) -> HistorySplit:
    """Return the parts of the messages of a frame without open calls.

    Args:
        messages: The messages.
        summary_number: The number of the summary among them, from 1; 0 for none.
        keep_last: The number of recent messages.
        may_stay: Whether recent messages are few enough. If not, fewer of them stay,
            but at least two rounds.
    """
    head = 0
    while head < len(messages) and messages[head].role in ("system", "developer"):
        head += 1
    rounds = [i for i, each in enumerate(messages) if each.role == "assistant"]
    last_start = rounds[-_MIN_ROUNDS] if len(rounds) >= _MIN_ROUNDS else head
    start = min(max(len(messages) - keep_last, head), last_start)
    while start > head and messages[start].role == "tool":
        start -= 1
    while start < last_start and not may_stay(messages[start:]):
        start += 1
        while messages[start].role == "tool":
            start += 1
    start = max(start, head)
    kept = _indexes_to_keep(messages, head, start, summary_number)
    return HistorySplit(messages, head, kept, start)


def _indexes_to_keep(
    messages: Sequence[Message], head: int, recent: int, summary_number: int
) -> tuple[int, ...]:
    """Return where the older messages have the last words of a user.

    The requests to reply again stay too: they are counted. So do the instructions of a
    thread's turn, unless later ones have replaced them.
    """
    requests: list[int] = []
    found = (
        i for i in range(len(messages) - 1, -1, -1) if is_instructions(messages[i])
    )
    instructions = next(found, -1)
    for index in range(len(messages) - 1, head - 1, -1):
        is_summary = index + 1 == summary_number
        message = messages[index]
        if message.role == "user" and (message.metadata or {}).get("from") == "hook":
            continue  # else it would take the place of the request of the user
        if is_instructions(message):
            continue
        if message.role != "user" or is_summary:
            if requests and not is_retry_request(messages[requests[-1]]):
                break
            continue
        requests.append(index)
    if instructions >= head:
        requests.append(instructions)
    return tuple(index for index in sorted(requests) if index < recent)


# The reducer ----------------------------------------------------------------


def apply(draft: Draft, event: HistoryCompacted | SummaryFailed) -> None:
    """Replace older messages of a frame, or note that no summary was made."""
    frame = draft.frame(event.frame_id)
    draft.put_run(replace(draft.run, usage=draft.run.usage + event.usage))
    if not isinstance(event, HistoryCompacted):
        record = frame.history or HistoryRecord()
        record = replace(record, attempt_above=event.attempt_above)
        draft.put_frame(replace(frame, history=record))
        return
    log = draft.log(frame.id)
    if not frame.reads_messages:
        raise illegal_transition("the frame has open calls or a pending reply", event)
    if log.id != event.log_id or len(log.messages) < event.count:
        raise illegal_transition("the frame has other messages", event)
    messages = event.messages + log.messages[event.count :]
    violation = find_violation(messages)
    if violation is not None:
        raise illegal_transition(violation, event)
    draft.start_log(frame.id, messages)
    compacted = replace(
        frame,
        failed_requests=0,
        model_error=None,
        history=HistoryRecord(
            tokens=event.tokens_after,
            counted=len(event.messages),
            summary_number=event.summary_number,
            attempt_above=event.attempt_above,
            tokens_before=event.tokens_before,
            replaced=event.replaced,
        ),
    )
    draft.put_frame(compacted)


def after_reply(frame: FrameRow, event: ModelReplied, log: MessageLog) -> FrameRow:
    """Return a frame after a reply: with what its provider counted.

    `log` has the messages before the reply.
    """
    # An empty reply may be left out, and a held one is no message yet.
    is_added = event.wait is None and not is_empty_reply(event.message)
    counted = len(log.messages) + is_added
    record = replace(
        frame.history or HistoryRecord(),
        tokens=event.context_tokens,
        counted=counted if event.context_tokens else 0,
        tokens_before=0,
        replaced=0,
    )
    return replace(frame, history=None if record == HistoryRecord() else record)


def last_request(messages: Sequence[Message], frame: FrameRow) -> str:
    """Return what a person asked for last: the texts of their last messages."""
    indexes = _last_request_indexes(messages, frame)
    return "\n\n".join(messages[index].content for index in indexes)


def _last_request_indexes(messages: Sequence[Message], frame: FrameRow) -> list[int]:
    summary = frame.history.summary_number if frame.history else 0
    found: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        is_made = (message.metadata or {}).get("from") == "hook"
        if is_instructions(message) or is_made or index + 1 == summary:
            continue
        if message.role == "user" and not is_retry_request(message):
            found.append(index)
        elif found:
            break
    return found[::-1]


# The filter of a handoff ----------------------------------------------------


def filtered_indexes(messages: Sequence[Message]) -> list[int]:
    """Return where the messages are that the filter of a handoff gets.

    The last message has the calls of the turn, and always stays.
    """
    return [
        index
        for index, each in enumerate(messages[:-1])
        if each.role not in ("system", "developer") and not is_instructions(each)
    ]


def dropped_indexes(
    messages: Sequence[Message], frame: FrameRow, chosen: Collection[int]
) -> tuple[int, ...]:
    """Return where the messages are that the next agent does not read.

    The last request of a person stays, because the next agent answers it. A call stays
    only with its results, and a result only with its call.

    Args:
        messages: The messages of the frame; the last one hands over.
        frame: The frame.
        chosen: The indexes that the filter kept.
    """
    kept = {*chosen, *_last_request_indexes(messages, frame)}
    offered = filtered_indexes(messages)
    calling = -1
    members: dict[int, list[int]] = {}
    for index in offered:
        if messages[index].role != "tool":
            calling = index
        members.setdefault(calling, []).append(index)
    for places in members.values():
        if not kept.issuperset(places):
            kept.difference_update(places)
    return tuple(index for index in offered if index not in kept)


def without_dropped(draft: Draft, frame: FrameRow, dropped: Sequence[int]) -> FrameRow:
    """Return a frame whose model does not read some messages any more."""
    gone = frozenset(dropped)
    messages = draft.log(frame.id).messages
    stays = [index for index in range(len(messages)) if index not in gone]
    draft.start_log(frame.id, tuple(messages[index] for index in stays))
    record = frame.history or HistoryRecord()
    summary = record.summary_number
    number = stays.index(summary - 1) + 1 if summary - 1 in stays else 0
    new = HistoryRecord(summary_number=number)
    return replace(frame, history=None if new == HistoryRecord() else new)


# The events for readers -----------------------------------------------------


def added_messages(
    old: MessageLog | None, new: MessageLog, frame: FrameRow
) -> tuple[Message, ...]:
    """Return the messages that a frame got since an earlier version.

    A compaction moves messages, and adds a summary. Neither is a new message.
    """
    if old is None:
        return new.messages
    record = _record_between(old, new, frame)
    if record is None or record.replaced:
        summary_number = 0 if record is None else record.summary_number
        return new.messages[_common_end(old, new, summary_number) :]
    return new.messages[max(len(old.messages), record.summary_number) :]


def dropped_count(old: MessageLog | None, new: MessageLog) -> int:
    """Return how many messages the filter of a handoff has taken away."""
    if old is None or old.id == new.id:
        return 0
    return len(old.messages) - _common_end(old, new)


def _common_end(old: MessageLog, new: MessageLog, summary_number: int = 0) -> int:
    """Return where the messages begin in a log that an earlier one does not have.

    A summary may have replaced messages, and the filter of a handoff taken some away.
    Neither changes the order, nor the newest messages.
    """
    if old.id == new.id:
        return len(old.messages)
    earlier = iter(old.messages)
    for number, message in enumerate(new.messages):
        if number + 1 == summary_number:
            continue
        if message not in earlier:  # this moves on to the next equal one
            return number
    return len(new.messages)


def fields_of_event(
    old: MessageLog | None, new: MessageLog, frame: FrameRow
) -> dict[str, Any]:
    """Return the fields of the event of a compaction since an earlier version.

    `{}` if there was none.
    """
    record = None if old is None else _record_between(old, new, frame)
    if record is None:
        return {}
    place = record.summary_number if record.replaced else 0
    return {
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens,
        "replaced": record.replaced,
        "summary": new.messages[place - 1].content if place else None,
    }


def _record_between(
    old: MessageLog, new: MessageLog, frame: FrameRow
) -> HistoryRecord | None:
    """Return the record of the compaction between two logs of a frame, or `None`."""
    record = frame.history
    is_compacted = old.id != new.id and record is not None and record.tokens_before
    return record if is_compacted else None
