"""Bugs of compactions: what stays, when they come, and how they are stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations.core.changes import history
from continuations.core.changes.events import Event, HistoryCompacted, SummaryFailed
from continuations.core.rows import delta
from continuations.core.rows.delta import LogDelta
from continuations.core.rows.frames import HistoryRecord, MessageLog
from continuations.core.rows.state import Draft
from continuations.engine.turns.compactor import Summarizer
from continuations.engine.worker.run_loop import RunLoop
from tests.simulation.families import COMPACTIONS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    mutants_of,
    patch,
    returns,
)

mutant = mutants_of(COMPACTIONS)


@mutant("compaction_keeps_what_must_stay", "transcripts_valid")
def a_call_is_separated_from_its_result() -> Patches:
    """The recent messages may begin with the result of a call."""

    def split_history(original: Original) -> Any:
        split = original()
        return replace(split, recent=split.recent + 1)

    def apply(draft: Draft, event: HistoryCompacted | SummaryFailed) -> None:
        _apply_unchecked(draft, event)

    yield patch(history.split_history, split_history)
    yield patch(history.apply, apply)


def _apply_unchecked(draft: Draft, event: HistoryCompacted | SummaryFailed) -> None:
    """Apply a compaction whose transcript a provider would refuse."""
    if not isinstance(event, HistoryCompacted):
        return
    frame = draft.frame(event.frame_id)
    draft.start_log(frame.id, event.messages)
    record = HistoryRecord(
        event.tokens_after, len(event.messages), event.summary_number
    )
    draft.put_frame(replace(frame, history=record))


@mutant("compaction_keeps_what_must_stay")
def the_last_message_of_the_user_is_dropped() -> Patches:
    """The last message of the user is summarized as well."""
    yield returns(history._indexes_to_keep, ())


@mutant("model_reads_committed_messages", "stored_summary_is_not_asked_again")
def a_summary_is_lost_at_a_crash() -> Patches:
    """A version keeps as many messages of the log as there were, whatever its id."""

    def log_delta(base: MessageLog | None, new: MessageLog) -> LogDelta:
        keep = 0 if base is None else min(len(base.messages), len(new.messages))
        return LogDelta(id=new.id, keep_count=keep, added=new.messages[keep:])

    yield patch(delta._log_delta, log_delta)


@mutant("model_reads_committed_messages")
def a_summary_is_not_stored_before_the_turn() -> Patches:
    """The model is asked before the version with the summary is stored."""

    def apply(original: Original, self: RunLoop, event: Event) -> None:
        original()
        if isinstance(event, HistoryCompacted):
            self._last_event_to_save -= 1

    yield patch(RunLoop._apply, apply)


@mutant("stored_summary_is_not_asked_again")
def a_summary_is_asked_twice() -> Patches:
    """A worker asks for each summary twice."""

    async def summarize(original: Original) -> Any:
        await original()
        return await original()

    yield patch(Summarizer.summarize, summarize)
