"""The hooks and guardrails of one turn of a model, and the waits about its texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.agent.agent_options import copy_settings
from continuations.authoring.hooks import (
    ChangeReply,
    ChangeRequest,
    Continue,
    RefuseReply,
    ReplyInfo,
    TurnInfo,
)
from continuations.core import jsontext
from continuations.core.changes import events, judged_texts, tool_messages
from continuations.core.changes.history import last_request
from continuations.core.messages import (
    MalformedMessage,
    Message,
    is_instructions,
    user_message,
)
from continuations.core.reading.views import with_refused
from continuations.core.rows.decisions import Decision, Deny
from continuations.core.rows.frames import TRIPPED_CODE, FrameRow
from continuations.core.rows.run import (
    GuardrailStage,
    Trip,
    failure_text,
    new_trip,
    text_note,
)
from continuations.core.rows.state import RunState, frame_path, frame_wait
from continuations.core.rows.waits import Wait, consequence_of_deadline
from continuations.core.usage import Usage
from continuations.engine import hook_calls
from continuations.engine.model_delays import may_be_first
from continuations.engine.stack.state_checks import typed_state
from continuations.errors import InvalidInput, ModelError
from continuations.ledger import layout
from continuations.value_class import replace
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.guardrails import Guardrail
    from continuations.authoring.hooks import ReplyChange
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.model_protocol import ModelRequest
    from continuations.core.rows.wait_rules import WaitKind
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.ports import Ports
    from continuations.engine.worker_options import RunOptions


# The code of an agent that ends because a hook refused its reply.
REFUSED_CODE = "refused"


class GuardedTurn:
    """Asks the hooks and guardrails of an agent about one turn; use it once.

    Attributes:
        added: The messages that `before_model` added to the request.
    """

    def __init__(
        self,
        state: RunState,
        frame: FrameRow,
        agent: AgentProtocol,
        model_registry: ModelRegistry,
        run_options: RunOptions,
        may_request: Callable[[], bool],
        ports: Ports,
    ) -> None:
        self.added: tuple[Message, ...] = ()
        self._state = state
        self._frame = frame
        self._agent = agent
        self._run_options = run_options
        self._ports = ports
        self._agents = hook_calls.GuardrailAgents(
            state.run.id,
            model_registry,
            run_options,
            may_request,
            lambda: may_be_first(state, frame),
        )
        self._path = frame_path(state, frame.id)

    @property
    def usage(self) -> Usage:
        """The cost of guardrails that are agents."""
        return self._agents.usage

    # Before the request -------------------------------------------------------

    async def refused_input(self) -> events.TurnRefused | events.InputHeld | None:
        """Return the end, or the wait, of a frame whose new input a guardrail refuses.

        A guardrail that asks is not asked about an input that a person accepted.
        Raises `HookFailed`, and the `ModelError` of a guardrail that is an agent.
        """
        guardrails = self._agent.guardrails
        if guardrails is None or not guardrails.input:
            return None
        text = new_input(self._frame, self._state.logs[self._frame.id].messages)
        if text is None:
            return None
        digest = judged_texts.input_digest(self._state.run, self._frame.id, text)
        is_accepted = self._frame.accepted_input == digest
        tripped = await self._first_trip(
            "input", self._turn_info(text), text, asks=not is_accepted
        )
        if tripped is None:
            return None
        guardrail, trip = tripped
        if guardrail.on_trip == "ask":
            wait = self._wait(guardrail, trip, text)
            return events.InputHeld(wait=wait, usage=self.usage, trip=trip)
        return events.TurnRefused(
            frame_id=self._frame.id,
            code=TRIPPED_CODE,
            content=failure_text(trip, "the input"),
            message=judged_texts.REFUSED_INPUT,
            usage=self.usage,
            trip=trip,
        )

    async def changed(self, request: ModelRequest) -> ModelRequest:
        """Return the request as `before_model` changes it; raises `HookFailed`."""
        hooks = self._agent.hooks
        if hooks is None or hooks.before_model is None:
            return request
        messages = self._state.logs[self._frame.id].messages
        info = self._turn_info(new_input(self._frame, messages) or "")
        try:
            change: ChangeRequest | None = await hook_calls.call_hook(
                hooks.before_model,
                info,
                (ChangeRequest,),
                who=self._who("before_model"),
            )
            if change is None:
                return request
            added = added_messages(change.messages)
            for_request = added_messages(change.request_messages)
            # They are stored already if a pending reply to them was lost.
            if messages[len(messages) - len(added) :] != added:
                self.added = added
            settings = changed_settings(change)
        except hook_calls.HookProblem as problem:
            raise self._error("before_model", problem) from problem
        return replace(
            request,
            messages=(*request.messages, *self.added, *for_request),
            settings={**request.settings, **settings},
        )

    def delayed(self, event: events.ModelDelayed) -> events.ModelDelayed:
        """Return the event of a reply that comes later, with what was sent."""
        return replace(event, usage=event.usage + self.usage, added=self.added)

    def _turn_info(self, text: str) -> TurnInfo:
        log = self._state.logs[self._frame.id]
        return TurnInfo(
            run_id=self._state.run.id,
            agent=self._agent.name,
            path=self._path,
            turns=self._frame.turns,
            usage=self._state.run.usage,
            text=text,
            context=self._run_options.context,
            make_messages=lambda: [
                message.data for message in tool_messages.sent_messages(log)
            ],
            make_state=self._typed_state,
        )

    def _typed_state(self) -> Any:
        if self._agent.state_spec is None:
            return None
        return typed_state(self._agent, self._frame.state_json, self._state.run.id)

    # After the reply ----------------------------------------------------------

    async def replied(
        self, event: events.ModelReplied, check: Callable[[Message], str | None]
    ) -> events.ModelReplied:
        """Return the event of a reply, as hooks and guardrails change it.

        `check` returns why a message cannot be the output, or `None`. Raises
        `HookFailed`, and the `ModelError` of a guardrail that is an agent.
        """
        spent = event.usage
        try:
            event = await self._hooked(event, check)
            if not event.message.tool_call_ids and event.next_message is None:
                event = await self._guarded(event)
        except ModelError as error:
            if self._frame.pending_reply is None:  # else the same reply is polled again
                add_cost(error, spent)
            raise
        return replace(event, usage=spent + self.usage, added=self.added)

    async def _hooked(
        self, event: events.ModelReplied, check: Callable[[Message], str | None]
    ) -> events.ModelReplied:
        hooks = self._agent.hooks
        if hooks is None or hooks.after_model is None:
            return event
        info = self._reply_info(event)
        try:
            change: ReplyChange | None = await hook_calls.call_hook(
                hooks.after_model,
                info,
                (ChangeReply, RefuseReply, Continue),
                who=self._who("after_model"),
            )
            check_reply_change(change, info)
        except hook_calls.HookProblem as problem:
            raise self._error("after_model", problem) from problem
        match change:
            case ChangeReply(text=text):
                message = with_text(event.message, text)
                return replace(event, message=message, output_error=check(message))
            case RefuseReply(reason=reason):
                refused = self._refused(event, reason, REFUSED_CODE, retries=True)
                text = event.message.content
                kept = with_refused(refused.message, text, reason)
                return replace(refused, message=kept)
            case Continue(text=text):
                following = user_message(text).with_metadata(OF_HOOK)
                return replace(event, output_error=None, next_message=following)
            case _:
                return event

    async def _guarded(self, event: events.ModelReplied) -> events.ModelReplied:
        guardrails = self._agent.guardrails
        is_output = event.output_error is None and guardrails is not None
        if not is_output or guardrails is None or not guardrails.output:
            return event
        text = event.message.content
        info = replace(self._reply_info(event), output=self._agent.parse_output(text))
        # A reply that was cut off is no output, whatever a person says.
        asks = not tool_messages.is_incomplete(event)
        tripped = await self._first_trip("output", info, text, asks=asks)
        if tripped is None:
            return event
        guardrail, trip = tripped
        if guardrail.on_trip == "ask":
            wait = self._wait(guardrail, trip, text)
            return replace(event, trip=trip, wait=wait)
        refused = self._refused(
            event,
            failure_text(trip, "the output"),
            TRIPPED_CODE,
            retries=guardrail.on_trip == "retry",
        )
        return replace(refused, trip=trip)

    def _refused(
        self, event: events.ModelReplied, reason: str, code: str, *, retries: bool
    ) -> events.ModelReplied:
        """Return the event of a reply that is not used, without its text and calls."""
        return replace(
            event,
            message=judged_texts.WITHHELD_REPLY,
            finish_reason="stop",
            output_error=reason,
            error_code=code,
            may_retry=retries and self._frame.retries < self._agent.output_retries,
        )

    def _reply_info(self, event: events.ModelReplied) -> ReplyInfo:
        return ReplyInfo(
            run_id=self._state.run.id,
            agent=self._agent.name,
            path=self._path,
            turns=self._frame.turns,
            text=event.message.content,
            tools=tuple([call.tool for call in event.message.tool_calls]),
            finish_reason=event.finish_reason,
            usage=event.usage,
            context=self._run_options.context,
        )

    # Guardrails ---------------------------------------------------------------

    async def _first_trip(
        self,
        stage: GuardrailStage,
        info: TurnInfo | ReplyInfo,
        text: str,
        *,
        asks: bool,
    ) -> tuple[Guardrail, Trip] | None:
        """Return the first guardrail that refuses a text, or else that asks about it.

        Without `asks`, the guardrails that ask are left out.
        """
        guardrails = self._agent.guardrails
        if guardrails is None:
            return None
        question = hook_calls.GuardrailQuestion(
            info=info,
            text=lambda: text,
            agents=self._agents,
            who=self._who,
            may_ask=asks,
        )
        try:
            found = await question.first_trip(guardrails.of_stage(stage))
        except hook_calls.HookProblem as problem:
            raise self._error(f"guardrail {problem.guardrail}", problem) from problem
        if found is None:
            return None
        guardrail, tripped = found
        name, reason = guardrail.name or "", tripped.reason
        trip = new_trip(self._path, self._frame.id, name, stage, reason)
        return guardrail, trip

    def _wait(self, guardrail: Guardrail, trip: Trip, text: str) -> Wait:
        return new_text_wait(
            self._state, self._frame, guardrail.approval, trip, text, self._ports
        )

    # Errors -------------------------------------------------------------------

    def _error(self, hook: str, problem: hook_calls.HookProblem) -> ModelError:
        run_id = self._state.run.id
        return hook_calls.turn_error(hook, self._agent.name, run_id, problem)

    def _who(self, name: str) -> str:
        return f"run {self._state.run.id}: {name} of agent {self._agent.name}"


def add_cost(error: ModelError, usage: Usage) -> None:
    """Add the cost of requests to the error of a turn."""
    if usage.requests:
        known = error.usage if isinstance(error.usage, Usage) else Usage()
        error.usage = known + usage


def new_input(frame: FrameRow, messages: tuple[Message, ...]) -> str | None:
    """Return the text that a turn answers first, `None` if it answers no new text.

    A text that asks a model again does not come from a user. The first turn after a
    handoff answers the last text, which is new for its agent.
    """
    if frame.retries or frame.continues:
        return None
    if _was_handed_over(messages):
        return last_request(messages, frame)
    texts: list[str] = []
    for message in reversed(messages):
        if message.metadata_json == OF_HOOK or is_instructions(message):
            continue
        if message.role != "user":
            break
        texts.append(message.content)
    if not texts and frame.turns:
        return None
    return "\n\n".join(reversed(texts))


def _was_handed_over(messages: tuple[Message, ...]) -> bool:
    """Return whether the last turn handed the conversation to the agent."""
    for message in reversed(messages):
        if message.role == "tool":
            if tool_messages.agent_after(message) is not None:
                return True
        elif message.metadata_json != OF_HOOK and not is_instructions(message):
            return False
    return False


# The metadata of messages that are not of a user: a compaction need not keep them.
OF_HOOK = '{"from":"hook"}'
_ADDED_ROLES = ("user", "system", "developer")


def added_messages(
    items: Sequence[str | Mapping[str, Any]],
) -> tuple[Message, ...]:
    """Return the messages of a `ChangeRequest`; raises `HookProblem`."""
    if type(items) not in (list, tuple):
        msg = "returned ChangeRequest with messages that are no list"
        raise hook_calls.HookProblem(msg)
    added: list[Message] = []
    for item in items:
        try:
            made = (
                user_message(item)
                if isinstance(item, str)
                else Message.from_mapping(item)
            )
        except (MalformedMessage, jsontext.NotJson, TypeError, ValueError) as error:
            msg = "returned a message that is no chat message"
            raise hook_calls.HookProblem(msg) from error
        if made.role not in _ADDED_ROLES:
            raise hook_calls.HookProblem(
                f"returned a message with the role {made.role}, and only user, system "
                "and developer messages can be added"
            )
        added.append(made.with_metadata(OF_HOOK))
    return tuple(added)


def changed_settings(change: ChangeRequest) -> dict[str, Any]:
    """Return the settings of a change; raises `HookProblem`."""
    try:
        return dict(copy_settings("", change.settings))
    except InvalidInput as error:
        msg = f"returned invalid settings ({str(error).removeprefix('agent : ')})"
        raise hook_calls.HookProblem(msg) from error


def check_reply_change(change: ReplyChange | None, info: ReplyInfo) -> None:
    """Raise `HookProblem` if a reply cannot be changed in this way."""
    text: object = getattr(change, "text", getattr(change, "reason", ""))
    if not isinstance(text, str):
        raise hook_calls.HookProblem(f"returned {type(change).__name__} without a text")
    if isinstance(change, Continue) and not info.is_final:
        raise hook_calls.HookProblem("returned Continue for a reply with calls")


def with_text(message: Message, text: str) -> Message:
    """Return a reply with another text, and the same calls and metadata."""
    data: dict[str, Any] = {"role": "assistant", "content": text}
    if message.tool_call_ids:
        data["tool_calls"] = message.data["tool_calls"]
    changed = Message.from_mapping(data)
    known = message.metadata_json
    return changed if known is None else changed.with_metadata(known)


# Waits about texts ----------------------------------------------------------------


def new_text_wait(
    state: RunState,
    frame: FrameRow,
    policy: ApprovalPolicy | None,
    trip: Trip,
    text: str,
    ports: Ports,
) -> Wait:
    """Return the wait of a guardrail that lets a person accept a text."""
    now, run, stage = ports.clock.now(), state.run, trip.stage
    wait_id = layout.build_wait_id(stage, ports.ids.new_ulid(now), run.id)
    schema = {
        "type": "object",
        "properties": {stage: {"type": "string"}},
        "required": [stage],
    }
    kind: WaitKind = "input" if stage == "input" else "output"
    plain = replace(
        frame_wait(state, kind, wait_id, now, frame.id),
        arguments_json=jsontext.canonical({stage: text}),
        schema_json=jsontext.canonical(schema),
        note=text_note(trip),
        policy=trip.guardrail,
    )
    wait = judged_texts.with_digest(run, plain)
    if policy is None:
        return wait
    timeout, quorum = policy.decision_timeout, policy.quorum
    return replace(
        wait,
        deadline=None if timeout is None else whole_milliseconds(now + timeout),
        quorum=quorum and quorum.of_run(run),
        on_deadline_json=policy.deadline_action_json,
        remind_after=policy.reminder_seconds,
    )


def event_of_decision(
    wait: Wait, decision: Decision
) -> events.TextAccepted | events.TextRefused:
    """Return what a decision means for a text: only `Approve` accepts it."""
    if decision.kind == "approve":
        return events.TextAccepted(wait.id)
    is_denied = decision.kind == "deny"
    ended_by = "a person refused" if is_denied else "no person accepted"
    given = decision.reason
    if decision.kind == "expire":
        action = consequence_of_deadline(wait)
        given = action.reason if isinstance(action, Deny) else given
    reason = f": {given}" if given else ""
    in_time = " in time" if decision.kind == "expire" else ""
    text = f"{ended_by} the {wait.kind}{in_time}{reason}. {wait.note or ''}"
    is_input = wait.rules.judges == "input"
    message = judged_texts.REFUSED_INPUT if is_input else judged_texts.WITHHELD_REPLY
    return events.TextRefused(wait_id=wait.id, content=text.rstrip(), message=message)
