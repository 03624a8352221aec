"""Shorten the history of a frame before its model is asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.core.events import HistoryCompacted, SummaryFailed
from continuations.core.frames import HistoryRecord
from continuations.core.history import HistorySplit, split_history
from continuations.core.messages import is_instructions
from continuations.core.run import Failure
from continuations.core.shortened_text import shorten_message
from continuations.core.token_estimate import estimate_tokens
from continuations.core.turn_instructions import (
    sent_messages,
    without_older_instructions,
)
from continuations.core.usage import Usage
from continuations.engine.error_reports import describe_error
from continuations.engine.model_delays import ModelDelays, ModelGaveUp
from continuations.engine.summarizer import NoSummary, Summarizer
from continuations.errors import CompactionFailed
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.authoring.compaction import Compaction
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.events import ModelDelayed
    from continuations.core.frames import FrameRow
    from continuations.core.messages import Message
    from continuations.core.state import RunState
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.ports import Ports
    from continuations.engine.run_options import RunOptions

_log = logging.getLogger("continuations")
# After a failure, the next attempt comes after a tenth of the soft budget more.
_STEP = 10
# Shorter results suffice if they leave a quarter of the soft budget free.
_ENOUGH = 0.75


@dataclass(frozen=True, slots=True)
class Compactor:
    """Shortens the history of one frame."""

    model_registry: ModelRegistry
    run_options: RunOptions
    ports: Ports

    async def event(
        self,
        state: RunState,
        frame: FrameRow,
        agent: AgentProtocol,
        compaction: Compaction,
    ) -> HistoryCompacted | SummaryFailed | ModelDelayed | None:
        """Return what happens before the model is asked, `None` if nothing does.

        Raises `CompactionFailed`, `HookFailed` or, for a thread, `ModelGaveUp`.
        """
        log = state.logs[frame.id]
        # A model with a pending reply has the messages already. The turn raises the
        # error of messages that cannot be sent.
        sends = frame.pending_reply is None
        if not sends or log.transcript_check.violation_at_end() is not None:
            return None
        rendered = await _rendered(state, frame, agent)
        attempt = _Attempt(state, frame, compaction, rendered)
        record = frame.history or HistoryRecord()
        may_try = attempt.tokens > max(compaction.soft, record.attempt_above)
        if not attempt.is_needed and not may_try:
            return None
        split = split_history(
            log.messages,
            summary_number=record.summary_number,
            keep_last=compaction.keep_last,
            may_stay=lambda recent: attempt.count(recent) <= compaction.soft // 2,
        )
        shorter = attempt.with_short_results(split, record)
        if shorter is not None:
            return shorter
        if attempt.is_hopeless(split):
            reason = "the messages that stay as they are need too many tokens"
            raise attempt.failure(NoSummary(reason, Usage()))
        if not attempt.is_worth_while(split):
            return None
        try:
            event = await self._with_summary(attempt, split, agent)
        except NoSummary as no_summary:
            return self._after_failure(attempt, no_summary)
        return event

    async def _with_summary(
        self, attempt: _Attempt, split: HistorySplit, agent: AgentProtocol
    ) -> HistoryCompacted:
        summarizer = Summarizer(self.model_registry, self.run_options)
        run = attempt.state.run
        told = tuple(each for each in split.replaced if not is_instructions(each))
        text, usage = await summarizer.summarize(agent, told, run)
        event = attempt.compacted(
            split.with_summary(text),
            summary_number=split.summary_number,
            replaced=len(split.replaced),
            usage=usage,
        )
        if event.tokens_after >= attempt.tokens:
            raise NoSummary("the summary is not shorter than the messages", usage)
        if event.tokens_after > attempt.compaction.hard:
            raise NoSummary("the history is still too long with the summary", usage)
        return event

    def _after_failure(
        self, attempt: _Attempt, no_summary: NoSummary
    ) -> SummaryFailed | ModelDelayed:
        """Return the event of a summary that was not made, or raise its error."""
        state, frame = attempt.state, attempt.frame
        if not attempt.is_needed:
            _log.warning(
                "run %s: the history of frame %s was not shortened, and stays: %s",
                state.run.id,
                frame.id,
                no_summary,
            )
            return SummaryFailed(
                frame_id=frame.id,
                attempt_above=attempt.next_above(attempt.tokens),
                usage=no_summary.usage,
            )
        error = no_summary.model_error
        if error is None or not error.retryable:
            raise attempt.failure(no_summary) from no_summary
        delays = ModelDelays(self.ports, self.model_registry.max_failures)
        if self.run_options.should_pause():
            return delays.after_interruption(state, frame, error)
        return delays.after_error(state, frame, error)


async def _rendered(
    state: RunState, frame: FrameRow, agent: AgentProtocol
) -> tuple[Message, ...]:
    """Return the message that only the request has, if nothing counted it yet.

    Later, the tokens that the provider counted contain those of the last one.
    """
    if not agent.renders_state or frame.history is not None:
        return ()
    from continuations.engine.state_instructions import with_rendered  # noqa: PLC0415 - few agents have them

    messages = sent_messages(state.logs[frame.id])
    sent = await with_rendered(messages, agent, frame, state.run.id)
    return sent[: len(sent) - len(messages)]


class _Attempt:
    """The messages of a frame, their tokens, and the events that they allow."""

    def __init__(
        self,
        state: RunState,
        frame: FrameRow,
        compaction: Compaction,
        rendered: tuple[Message, ...],
    ) -> None:
        self.state = state
        self.frame = frame
        self.compaction = compaction
        self.log = state.logs[frame.id]
        record = frame.history or HistoryRecord()
        rest = self.log.messages[record.counted :]
        self.tokens = record.tokens + self.count((*rendered, *rest))

    @property
    def is_needed(self) -> bool:
        """Whether the model is not asked without a shorter history."""
        return self.tokens > self.compaction.hard

    def count(self, messages: Sequence[Message]) -> int:
        """Return the tokens of messages, as the application counts or estimated."""
        function = self.compaction.count_tokens
        messages = without_older_instructions(messages)
        if function is None or not messages:
            return estimate_tokens(messages)
        counted: object = None
        try:
            counted = function([message.data for message in messages])
        except Exception as error:  # noqa: BLE001 - code of the application
            problem = describe_error(error)
        else:
            if type(counted) is int and counted >= 0:
                return counted
            problem = f"it returned {type(counted).__name__}"
        _log.warning("count_tokens failed, so tokens are estimated: %s", problem)
        return estimate_tokens(messages)

    def is_hopeless(self, split: HistorySplit) -> bool:
        """Return whether a needed summary would not suffice, however short it is."""
        return self.is_needed and (
            not split.replaced
            or self._tokens_with(split.with_summary("")) > self.compaction.hard
        )

    def is_worth_while(self, split: HistorySplit) -> bool:
        """Return whether a summary would take the place of enough messages."""
        if self.is_needed:
            return True
        record = self.frame.history
        summaries = 1 if record is not None and record.summary_number else 0
        least = self.compaction.soft // _STEP
        return len(split.replaced) > summaries and self.count(split.replaced) > least

    def next_above(self, tokens: int) -> int:
        """Return the tokens above which the next summary is tried."""
        return tokens + max(1, self.compaction.soft // _STEP)

    def with_short_results(
        self, split: HistorySplit, record: HistoryRecord
    ) -> HistoryCompacted | None:
        """Return the event that cuts older results, if that suffices."""
        limit = self.compaction.shorten_results
        if limit is None:
            return None
        older = split.messages[: split.recent]
        shorter = tuple(shorten_message(each, limit) for each in older)
        if all(new is old for new, old in zip(shorter, older, strict=True)):
            return None
        event = self.compacted(
            (*shorter, *split.messages[split.recent :]),
            summary_number=record.summary_number,
            replaced=0,
            usage=Usage(),
        )
        suffices = event.tokens_after <= self.compaction.soft * _ENOUGH
        return event if suffices else None

    def compacted(
        self,
        messages: tuple[Message, ...],
        *,
        summary_number: int,
        replaced: int,
        usage: Usage,
    ) -> HistoryCompacted:
        """Return the event that replaces the messages."""
        after = self._tokens_with(messages)
        return HistoryCompacted(
            frame_id=self.frame.id,
            log_id=self.log.id,
            count=len(self.log.messages),
            messages=messages,
            summary_number=summary_number,
            replaced=replaced,
            tokens_before=self.tokens,
            tokens_after=after,
            attempt_above=self.next_above(after),
            usage=usage,
        )

    def _tokens_with(self, messages: tuple[Message, ...]) -> int:
        """Return the tokens of other messages, from what the provider counted.

        The provider also counts tools, which stay. If it counts less than the estimate,
        the estimate is corrected.
        """
        old, new = self.count(self.log.messages), self.count(messages)
        if self.tokens >= old:
            return self.tokens - old + new
        return -(-self.tokens * new // max(old, 1))

    def failure(self, no_summary: NoSummary) -> CompactionFailed | ModelGaveUp:
        """Return the error that ends the turn."""
        agent, run_id = self.frame.agent, self.state.run.id
        what = (
            f"the history of agent {agent!r} has {self.tokens} tokens, more than "
            f"hard={self.compaction.hard}, and was not shortened: {no_summary}."
        )
        if self.state.run.thread_key is None:
            msg = (
                f"run {run_id}: {what} Correct the cause or raise hard, then resume "
                "the run."
            )
            return CompactionFailed(msg, run_id=run_id, usage=no_summary.usage)
        message = f"{what} Correct the cause or raise hard, then send again."
        failure = Failure(code="compaction", message=message)
        return ModelGaveUp(failure, run_id=run_id, usage=no_summary.usage)
