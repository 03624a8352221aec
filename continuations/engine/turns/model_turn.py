"""One turn of a frame's model: whether it may begin, its request, its reply."""

from __future__ import annotations

import logging
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.authoring.errors import EnabledInvalid, OutputInvalid
from continuations.authoring.suspend_conditions import AgentProgress, SuspendCondition
from continuations.authoring.tool.call_gate import current_gate
from continuations.authoring.tool.tool_options import OfferInfo
from continuations.core import model_protocol
from continuations.core.changes import tool_messages
from continuations.core.changes.events import (
    FrameAbandoned,
    FrameWatched,
    ModelReplied,
    SuspensionBegan,
)
from continuations.core.changes.operator_changes import operator_wait
from continuations.core.rows import frames
from continuations.core.rows.frames import ConditionCount, DenialCount, FrameRow
from continuations.core.rows.state import RunState, frame_path
from continuations.engine.call_failures import describe_error
from continuations.engine.inbox_messages import with_inbox_messages
from continuations.engine.model_delays import ModelDelays, may_be_first
from continuations.errors import ModelError, TranscriptInvalid
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.changes.events import (
        Event,
        InputHeld,
        ModelDelayed,
        TurnRefused,
    )
    from continuations.core.messages import Message
    from continuations.core.usage import Usage
    from continuations.engine.events.event_feeds import EventFeed
    from continuations.engine.guards.guarded_turn import GuardedTurn
    from continuations.engine.journal.file_storing import AttachedFiles
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding
    from continuations.engine.worker_options import RunOptions
    from continuations.wire.arrivals import InboxMessage


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


_log = logging.getLogger("continuations")
# These values of `tool_choice` leave the choice to the model.
_FREE_CHOICES = (None, "auto", "none")


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """Asks the model of a frame for one reply."""

    model_registry: ModelRegistry
    run_options: RunOptions
    ports: Ports
    feed: EventFeed | None = None
    files_of: Callable[[RunState], AttachedFiles] | None = None

    async def ask(
        self, state: RunState, frame: FrameRow, agent: AgentProtocol, fence: int
    ) -> ModelReplied | ModelDelayed | TurnRefused | InputHeld:
        """Ask a frame's model, or poll its pending reply, behind the current gate.

        Raises `ModelError` and `TranscriptInvalid`.
        """
        guarded = None
        if agent.hooks is not None or agent.guardrails is not None:
            guarded = self._guarded(state, frame, agent)
        try:
            return await self._ask(state, frame, agent, guarded, fence)
        except ModelError as error:
            if guarded is not None:
                from continuations.engine.guards.guarded_turn import add_cost  # noqa: PLC0415

                add_cost(error, guarded.usage)
            if not error.retryable:
                raise
            delays = ModelDelays(self.ports, self.model_registry.max_failures)
            # `should_pause` ends the retries before `model_retry_time` is over.
            if self.run_options.should_pause():
                return delays.after_interruption(state, frame, error)
            return delays.after_error(state, frame, error)

    def _guarded(
        self, state: RunState, frame: FrameRow, agent: AgentProtocol
    ) -> GuardedTurn:
        from continuations.engine.guards.guarded_turn import GuardedTurn  # noqa: PLC0415 - few agents have one

        gate = current_gate()
        return GuardedTurn(
            state,
            frame,
            agent,
            self.model_registry,
            self.run_options,
            lambda: gate.is_open,
            self.ports,
        )

    def _listener(
        self, state: RunState, frame: FrameRow, fence: int
    ) -> model_protocol.DeltaListener | None:
        return None if self.feed is None else self.feed.turn(state, frame, fence)

    async def _ask(
        self,
        state: RunState,
        frame: FrameRow,
        agent: AgentProtocol,
        guarded: GuardedTurn | None,
        fence: int,
    ) -> ModelReplied | ModelDelayed | TurnRefused | InputHeld:
        has_attachments = _check_transcript(state, frame)
        tools = await enabled_tools(agent, self.run_options.context, state, frame)
        request = model_protocol.ModelRequest(
            messages=await _messages(agent, frame, state),
            tools=tuple(_spec(tool) for tool in tools),
            output_schema=agent.output_schema,
            settings=_settings(agent, frame, tools, state.run.settings_json),
            agent=agent.name,
            run_id=state.run.id,
            on_delta=self._listener(state, frame, fence),
            frame=frame.id,
            call=frame.parent_call_id,
        )
        gate = current_gate()
        if has_attachments and self.files_of is not None:
            from continuations.engine.journal.file_storing import with_files  # noqa: PLC0415 - few runs have one

            files = self.files_of(state)
            request = await with_files(request, files, lambda: gate.is_open)
        delays = ModelDelays(self.ports, self.model_registry.max_failures)
        if guarded is not None and frame.pending_reply is None:
            refused = await guarded.refused_input()
            if refused is not None:
                return refused
            request = await guarded.changed(request)
        reply = await self.model_registry.get_reply(
            agent,
            request,
            self.run_options.should_pause,
            pending_reply=frame.pending_reply,
            may_request=lambda: gate.is_open,
            may_be_first=lambda: may_be_first(state, frame),
        )
        if isinstance(reply, model_protocol.PendingReply):
            delayed = delays.until_reply(state, frame, reply)
            return delayed if guarded is None else guarded.delayed(delayed)
        if isinstance(reply, model_protocol.LostReply):
            return delays.after_loss(state, frame, reply)
        problem = _output_problem(agent, reply.message)
        event = ModelReplied(
            frame_id=frame.id,
            message=reply.message,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            output_error=problem,
            may_retry=problem is not None and frame.retries < agent.output_retries,
            context_tokens=_context_tokens(reply.usage) if agent.compaction else 0,
        )
        if guarded is None:
            return event
        return await guarded.replied(event, lambda each: _output_problem(agent, each))


async def _messages(
    agent: AgentProtocol, frame: FrameRow, state: RunState
) -> tuple[Message, ...]:
    """Return the messages of a request; raises `HookFailed`."""
    messages = tool_messages.sent_messages(state.logs[frame.id])
    if not agent.renders_state or frame.pending_reply is not None:
        return messages
    from continuations.engine.stack.state_checks import with_rendered  # noqa: PLC0415 - few agents have them

    return await with_rendered(messages, agent, frame, state.run.id)


def _check_transcript(state: RunState, frame: FrameRow) -> bool:
    """Check the messages; return whether one refers to an attachment."""
    check = state.logs[frame.id].transcript_check
    violation = check.violation_at_end()
    if violation is not None:
        msg = (
            f"run {state.run.id}, frame {frame.id}: its messages cannot be sent to the "
            f"model: {violation}. No request was sent."
        )
        raise TranscriptInvalid(msg, run_id=state.run.id)
    return check.has_attachments


async def enabled_tools(
    agent: AgentProtocol,
    context: Any,
    state: RunState,
    frame: FrameRow,
    *,
    without: str | None = None,
) -> list[ToolProtocol]:
    """Return the tools of an agent that its model may call now, but for one."""
    tools = [each for name, each in agent.tools_by_name.items() if name != without]
    return [
        tool for tool in tools if await is_enabled(tool, agent, context, state, frame)
    ]


async def is_enabled(
    tool: ToolProtocol,
    agent: AgentProtocol,
    context: Any,
    state: RunState,
    frame: FrameRow,
) -> bool:
    """Return whether a model may call a tool now; an exception means no."""
    try:
        verdict = await tool.enabled(context)
        if verdict is True or verdict is False:
            return verdict
        return await verdict(offer_info(agent, state, frame))
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        wrong = isinstance(error, EnabledInvalid)
        why = str(error) if wrong else f"is_enabled raised {describe_error(error)}"
        _log.warning("agent %s: tool %s is not offered: %s", agent.name, tool.name, why)
        return False


def _spec(tool: ToolProtocol) -> model_protocol.ToolSpec:
    return model_protocol.ToolSpec(
        name=tool.name, description=tool.description, parameters=tool.parameters
    )


def _settings(
    agent: AgentProtocol,
    frame: FrameRow,
    tools: Sequence[ToolProtocol],
    settings_of_run: str | None,
) -> Mapping[str, Any]:
    """Return the settings of one turn.

    With a tool forced in each turn, an agent would never end. Providers refuse a
    `tool_choice` without tools.
    """
    settings = agent.settings
    if settings_of_run is not None:
        settings = model_protocol.merged_settings(settings, settings_of_run)
    choice = settings.get("tool_choice")
    is_forced_again = bool(
        agent.reset_tool_choice and frame.limited_turns and choice not in _FREE_CHOICES
    )
    if "tool_choice" in settings and (is_forced_again or not tools):
        return {name: settings[name] for name in settings if name != "tool_choice"}
    return settings


def _context_tokens(usage: Usage) -> int:
    """Return the tokens of the conversation, 0 if they are not known.

    A usage of several responses is the sum of their requests.
    """
    if usage.requests > 1 or not usage.input_tokens:
        return 0
    return usage.total_tokens


def _output_problem(agent: AgentProtocol, message: Message) -> str | None:
    """Return why a final reply cannot be the output of an agent, or `None`."""
    if message.tool_call_ids:
        return None
    if tool_messages.is_empty_reply(message):
        return tool_messages.EMPTY_REPLY
    if agent.output_type is None:
        return None
    try:
        agent.parse_output(message.content)
    except OutputInvalid as error:
        return f"{error}\nThe final reply must match output_type."
    return None


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
        if message.role == "user" and not tool_messages.is_retry_request(message):
            break
        if message.role == "tool":
            round_results[message.answered_call_id or ""] = message
        elif message.role == "assistant" and round_results:
            for request in reversed(message.tool_calls):
                result = round_results.get(request.tool_call_id)
                if result is not None and tool_messages.end_in(result) == "returned":
                    results.setdefault(request.tool, result.content)
            round_results = {}
    return results
