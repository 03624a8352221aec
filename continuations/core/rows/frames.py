"""Frames: one activation of an agent, with its messages, open calls and state.

The state is one JSON object. Tools change it with patches: JSON objects whose fields
replace fields of the state. A patch stays in the row of its call until the turn ends.
Then the patches of the calls that returned are applied in the order in which the model
asked for the calls.

A frame also counts how often its model repeats a call that is denied. A person, a rule,
a guardrail or a deadline denies a call, the model reads the denial, and may make the
same call again. The count is stored, so that it does not depend on what messages say,
and a suspension or a crash does not start it again.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.messages import NOTHING_CHECKED, TranscriptCheck
from continuations.core.rows.calls import (
    CLOSED_STATES,
    CallRow,
    Errored,
    Proposed,
    Ready,
    Refused,
    Returned,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.run import Trip
    from continuations.core.rows.workflow_history import Entry


@dataclass(frozen=True, slots=True)
class ConditionCount:
    """From where a condition counts that has suspended a frame.

    Attributes:
        name: Name of the condition.
        turns: Turns of the frame when the condition last suspended it.
        since: When that suspension ended, or began if it has not ended.
    """

    name: str
    turns: int
    since: datetime


@dataclass(frozen=True, slots=True)
class DenialCount:
    """In how many turns of a frame one call was denied.

    Attributes:
        tool: Name of the tool.
        digest: Digest of the tool and the effective arguments.
        count: Number of turns.
    """

    tool: str
    digest: str
    count: int


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """How large the messages of a frame are, and what compactions did to them.

    Attributes:
        tokens: Tokens of the first messages, as the provider counted them; 0 if it did
            not.
        counted: Number of those messages.
        summary_number: Number of the summary among the messages, from 1; 0: none.
        attempt_above: The tokens above which the next summary is tried, if they are
            more than the soft budget.
        tokens_before: Tokens before the last compaction; 0 after the next reply.
        replaced: Messages that the summary replaced; 0 after the next reply.
    """

    tokens: int = 0
    counted: int = 0
    summary_number: int = 0
    attempt_above: int = 0
    tokens_before: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRow:
    """One frame in the flat table of a run; its messages are in the log of the same id.

    Attributes:
        id: Id of the frame, unique in its run.
        agent: Name of the agent that has the conversation now.
        parent_call_id: Call whose tool is this agent, or `None` for the root frame.
        depth: Number of frames above this one.
        turns: How often the model replied in this frame.
        max_turns: Turns after which the frame fails, or `None` for no limit.
        open_call_ids: Calls of the current turn, in the model's order.
        failed_requests: How many requests of this turn failed in a row.
        woken_until: The end of the time in which `wake` asks the model once and not
            again, or `None` if `wake` did not end the last wait for the model.
        pending_reply: Id of the reply that the provider computes for this turn, or
            `None` if the model must be asked.
        polls: How often the pending reply was not ready.
        model_error: Why the model refused the last request, or `None`. The frame can be
            resumed: its model is asked again.
        watched_since: When the conditions of the agent (`suspend_when`) were first
            asked, or `None`.
        counts: The conditions that have suspended this frame.
        earlier_turns: Turns of a thread's root frame before the message that it answers
            now.
        denials: The calls that were denied since the last message of a user, and in how
            many turns, the newest denial last.
        retries: How often the model was asked again since the last message of a user,
            because its reply was no output.
        continues: How often a hook asked for another turn since the last message of a
            user.
        trips: The guardrails that tripped since the model last replied, the newest
            last.
        history: How large the messages are, and what compactions did to them, or
            `None`. Only frames of agents with a compaction have it.
        accepted_input: Digest of the input that a person accepted, about which a
            guardrail had asked; empty for none. See `judged_texts`.
        held_reply: The reply whose use as the output a person must accept, or `None`.
            It is no message of the frame yet. It goes with its wait.
        state_json: The state of the agent as the text of a JSON object, with the fields
            that tools have changed. Empty before the first change. A delta stores it
            apart from the row.
        step: Empty for an agent, whose model decides the next step. In a workflow, what
            its code can do: `"new"` (it never ran), `"due"` (it can go on), `"waits"`
            (it needs an outcome or a time) or `"ends"` (its function has ended, and
            calls that it began have not).
        began_as: Name of the agent with which the frame began, if a handoff gave it to
            another one; empty otherwise.
    """

    id: str
    agent: str
    parent_call_id: str | None
    depth: int = 0
    turns: int = 0
    max_turns: int | None = None
    open_call_ids: tuple[str, ...] = ()
    failed_requests: int = 0
    woken_until: datetime | None = None
    pending_reply: str | None = None
    polls: int = 0
    model_error: str | None = None
    watched_since: datetime | None = None
    counts: tuple[ConditionCount, ...] = ()
    earlier_turns: int = 0
    denials: tuple[DenialCount, ...] = ()
    retries: int = 0
    continues: int = 0
    trips: tuple[Trip, ...] = ()
    history: HistoryRecord | None = None
    accepted_input: str = ""
    held_reply: Message | None = None
    state_json: str = ""
    step: str = ""
    began_as: str = ""

    def count_of(self, condition: str) -> ConditionCount | None:
        """Return the count of a condition that has suspended this frame, or `None`."""
        return next((each for each in self.counts if each.name == condition), None)

    @property
    def limited_turns(self) -> int:
        """The turns that `max_turns` limits."""
        return self.turns - self.earlier_turns

    def has_turns(self, more: int = 0) -> bool:
        """Return whether the model may be asked again, after some more turns."""
        turns = self.turns - self.earlier_turns
        return self.max_turns is None or turns + more < self.max_turns

    @property
    def reads_messages(self) -> bool:
        """Whether a message may be added: no call and no reply is outstanding."""
        has_reply = self.pending_reply is not None or self.held_reply is not None
        return not self.open_call_ids and not has_reply and not self.step


@dataclass(frozen=True, slots=True)
class MessageLog:
    """The messages of a frame; under one `id`, messages are only ever added.

    Code that replaces messages gives the log a new id. A delta says "keep the first k
    messages of this log", and must never keep messages of a different history.
    """

    id: int
    messages: tuple[Message, ...]
    # The check of the messages, once it was made. It follows from them.
    _check: TranscriptCheck | None = field(
        default=None, init=False, compare=False, repr=False
    )
    # The entries of the history of a workflow, once they were read, in the same way.
    _entries: tuple[Entry, ...] | None = field(
        default=None, init=False, compare=False, repr=False
    )

    def read_messages(self, known: MessageLog | None = None) -> None:
        """Read all messages, or those after `known`; raises `FormatError`."""
        if self._check is not None:
            return
        count = len(known.messages) if known is not None else 0
        if known is not None and self.messages[:count] != known.messages:
            count = 0
        for message in self.messages[count:]:
            message.read()

    @property
    def transcript_check(self) -> TranscriptCheck:
        """The check of the messages; each message of a log is checked once."""
        check = self._check
        if check is None:
            check = NOTHING_CHECKED.extended(self.messages)
            # The value is the same as before; a repeat need not compute it again.
            object.__setattr__(self, "_check", check)
        return check

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the history of a workflow; raises `InvalidEntry`.

        They are read once, for their check and for the replay.
        """
        entries = self._entries
        if entries is None:
            from continuations.core.rows.workflow_history import entries_of  # noqa: PLC0415 - few runs have a workflow

            entries = entries_of(self.messages)
            object.__setattr__(self, "_entries", entries)
        return entries

    def appended(self, *messages: Message) -> MessageLog:
        """Return the log with more messages at its end."""
        log = MessageLog(self.id, self.messages + messages)
        if self._check is not None:
            object.__setattr__(log, "_check", self._check.extended(messages))
        return log


def final_reply(frame: FrameRow, log: MessageLog) -> Message | None:
    """Return the model's reply without tool calls that ends a log, or `None`.

    The input of a run may end with an assistant message too. It is no reply.
    """
    last = log.messages[-1] if log.messages and frame.turns else None
    if last is None or last.role != "assistant" or last.tool_call_ids:
        return None
    return last


def with_state_patch(state_json: str, patch_json: str | None) -> str:
    """Return a state, or a patch, whose fields a later patch has replaced."""
    if patch_json in (None, "{}"):
        return state_json
    return jsontext.canonical({**state_fields(state_json), **state_fields(patch_json)})


def state_after_turn(state_json: str, rows: Iterable[CallRow]) -> str:
    """Return the state after a turn with these calls, in the model's order."""
    for row in rows:
        if row.patch is not None and isinstance(row.state, Returned):
            state_json = with_state_patch(state_json, row.patch)
    return state_json


def state_seen_by(call: CallRow, frame: FrameRow, calls: Mapping[str, CallRow]) -> str:
    """Return the state that the tool of a call reads.

    A call that writes reads what the calls before it wrote: they have ended. Another
    call reads the state of the beginning of its turn, whatever runs at the same time.
    """
    if call.patch is None:
        return frame.state_json
    before = state_after_turn(frame.state_json, _calls_before(call, frame, calls))
    return with_state_patch(before, call.patch)


def is_held_back(call: CallRow, frame: FrameRow, calls: Mapping[str, CallRow]) -> bool:
    """Return whether a call must not begin yet, because an earlier one may write."""
    return isinstance(call.state, Ready) and any(
        (row.patch is not None or isinstance(row.state, Proposed))
        and not isinstance(row.state, CLOSED_STATES)
        for row in _calls_before(call, frame, calls)
    )


def _calls_before(
    call: CallRow, frame: FrameRow, calls: Mapping[str, CallRow]
) -> Iterable[CallRow]:
    number = frame.open_call_ids.index(call.id)
    return [calls[call_id] for call_id in frame.open_call_ids[:number]]


def state_fields(state_json: str) -> dict[str, Any]:
    """Return the fields of a state, or of a patch, as a new dict."""
    parsed: dict[str, Any] = jsontext.parse(state_json or "{}")
    return parsed


def changed_state_fields(before_json: str, after_json: str) -> str:
    """Return the fields of the later state that the earlier one does not have."""
    before = state_fields(before_json)
    changed = {
        name: value
        for name, value in state_fields(after_json).items()
        if name not in before
        or jsontext.canonical(before[name]) != jsontext.canonical(value)
    }
    return jsontext.canonical(changed)


# The code of a frame that ended because its model repeated a denied call.
DENIALS_CODE = "max_denials"
# The code of a failure, or of the end of a call, because a guardrail tripped.
TRIPPED_CODE = "guardrail"
# Older denials are forgotten, so the row of a frame stays small.
_MAX_COUNTED = 32
_DIGEST_LENGTH = 32  # 128 bits
# `denied` is also the end of a call whose deadline denied it. `not_executed`: a person
# said so of an unknown outcome, and the call will not be repeated.
_REFUSAL_CODES = frozenset({"denied", "expired", "not_executed"})


def denials_after_turn(
    counts: tuple[DenialCount, ...], rows: Sequence[CallRow]
) -> tuple[DenialCount, ...]:
    """Return the counts after a turn whose calls are closed, the newest denial last.

    Identical calls of one turn count once: the model had not read the denial. The count
    of a call that returned a result begins again.
    """
    denied = {_call_digest(row): row.tool for row in rows if _is_denied(row)}
    if not denied and not counts:
        return ()
    returned = {_call_digest(row) for row in rows if isinstance(row.state, Returned)}
    before = {each.digest: each.count for each in counts}
    kept = [
        each
        for each in counts
        if each.digest not in denied and each.digest not in returned
    ]
    new = [
        DenialCount(tool, digest, before.get(digest, 0) + 1)
        for digest, tool in denied.items()
    ]
    return (*kept, *new)[-_MAX_COUNTED:]


def denial_count(counts: tuple[DenialCount, ...], row: CallRow) -> int:
    """Return in how many turns a closed call was denied, 0 if it is not denied now."""
    if not counts or not _is_denied(row):
        return 0
    digest = _call_digest(row)
    return next((each.count for each in counts if each.digest == digest), 0)


def denied_too_often(
    counts: tuple[DenialCount, ...], limit: int | None
) -> DenialCount | None:
    """Return a call that was denied as often as the limit allows, or `None`."""
    if limit is None:
        return None
    return next((each for each in counts if each.count >= limit), None)


def denial_text(count: int) -> str:
    """Return what the model reads about a denial of a call that was denied before."""
    return (
        f" The same call was denied in {count} turns. Do not repeat it: your task may "
        "end."
    )


def denials_end_text(agent: str, denied: DenialCount) -> str:
    """Return the reason for a frame that ends."""
    return (
        f"{denied.tool} was denied in {denied.count} turns of agent {agent}, with the "
        "same arguments each time. Change the instructions or the policy of the tool, "
        "or raise max_denials."
    )


def _is_denied(row: CallRow) -> bool:
    match row.state:
        case Refused(code=code):
            return code in _REFUSAL_CODES
        case Errored(code=code):
            # A sub-agent that repeated a denied call has not learned more.
            return code in (DENIALS_CODE, TRIPPED_CODE)
        case _:
            return False


def _call_digest(row: CallRow) -> str:
    asked = row.original_arguments or row.arguments or row.raw_arguments
    return jsontext.digest(row.tool, asked)[:_DIGEST_LENGTH]
