"""The hooks and guardrails of one turn of a model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from continuations.authoring.agent_options import copy_settings
from continuations.authoring.errors import OutputInvalid
from continuations.authoring.guardrails import Guardrail, Tripped
from continuations.authoring.hooks import (
    ChangeReply,
    ChangeRequest,
    Continue,
    RefuseReply,
    ReplyInfo,
    TurnInfo,
)
from continuations.core import jsontext, output_retries
from continuations.core.denials import TRIPPED_CODE
from continuations.core.events import TurnRefused
from continuations.core.messages import MalformedMessage, Message, user_message
from continuations.core.model_protocol import ModelReply, ModelRequest
from continuations.core.state import frame_path
from continuations.core.usage import Usage
from continuations.engine.hook_calls import HookProblem, call_hook, turn_error
from continuations.engine.new_run import with_instructions
from continuations.engine.trip_texts import failure_text, new_trip
from continuations.errors import InvalidInput, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.authoring.hooks import ReplyChange
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.events import ModelDelayed, ModelReplied
    from continuations.core.frames import FrameRow
    from continuations.core.state import RunState
    from continuations.core.trips import GuardrailStage, Trip
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.run_options import RunOptions

# The code of an agent that ends because a hook refused its reply.
REFUSED_CODE = "refused"
# The metadata of messages that are not of a user: a compaction need not keep them.
_OF_HOOK = '{"from":"hook"}'
_ADDED_ROLES = ("user", "system", "developer")


class GuardedTurn:
    """Asks the hooks and guardrails of an agent about one turn; use it once.

    Attributes:
        added: The messages that `before_model` added to the request.
        usage: The cost of guardrails that are agents.
    """

    def __init__(
        self,
        state: RunState,
        frame: FrameRow,
        agent: AgentProtocol,
        model_registry: ModelRegistry,
        run_options: RunOptions,
        may_request: Callable[[], bool],
    ) -> None:
        self.added: tuple[Message, ...] = ()
        self.usage = Usage()
        self._state = state
        self._frame = frame
        self._agent = agent
        self._model_registry = model_registry
        self._run_options = run_options
        self._may_request = may_request
        self._path = frame_path(state, frame.id)

    # Before the request -------------------------------------------------------

    async def refused_input(self) -> TurnRefused | None:
        """Return the end of a frame whose new input a guardrail refuses, or `None`.

        Raises `HookFailed`, and the `ModelError` of a guardrail that is an agent.
        """
        guardrails = self._agent.guardrails
        if guardrails is None or not guardrails.input:
            return None
        text = new_input(self._frame, self._state.logs[self._frame.id].messages)
        if text is None:
            return None
        trip = await self._first_trip("input", self._turn_info(text), text)
        if trip is None:
            return None
        return TurnRefused(
            frame_id=self._frame.id,
            code=TRIPPED_CODE,
            content=failure_text(trip[1], "the input"),
            message=_note("(This message was refused.)"),
            usage=self.usage,
            trip=trip[1],
        )

    async def changed(self, request: ModelRequest) -> ModelRequest:
        """Return the request as `before_model` changes it; raises `HookFailed`."""
        hooks = self._agent.hooks
        if hooks is None or hooks.before_model is None:
            return request
        messages = self._state.logs[self._frame.id].messages
        info = self._turn_info(new_input(self._frame, messages) or "")
        try:
            change: ChangeRequest | None = await call_hook(
                hooks.before_model,
                info,
                (ChangeRequest,),
                who=self._who("before_model"),
            )
            if change is None:
                return request
            added = _added_messages(change)
            # They are stored already if a pending reply to them was lost.
            if messages[len(messages) - len(added) :] != added:
                self.added = added
            settings = _changed_settings(change)
        except HookProblem as problem:
            raise self._error("before_model", problem) from problem
        return replace(
            request,
            messages=(*request.messages, *self.added),
            settings={**request.settings, **settings},
        )

    def delayed(self, event: ModelDelayed) -> ModelDelayed:
        """Return the event of a reply that comes later, with what was sent."""
        return replace(event, usage=event.usage + self.usage, added=self.added)

    def _turn_info(self, text: str) -> TurnInfo:
        messages = self._state.logs[self._frame.id].messages
        return TurnInfo(
            run_id=self._state.run.id,
            agent=self._agent.name,
            path=self._path,
            turns=self._frame.turns,
            usage=self._state.run.usage,
            text=text,
            context=self._run_options.context,
            make_messages=lambda: [message.data for message in messages],
        )

    # After the reply ----------------------------------------------------------

    async def replied(
        self, event: ModelReplied, check: Callable[[Message], str | None]
    ) -> ModelReplied:
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
        self, event: ModelReplied, check: Callable[[Message], str | None]
    ) -> ModelReplied:
        hooks = self._agent.hooks
        if hooks is None or hooks.after_model is None:
            return event
        info = self._reply_info(event)
        try:
            change: ReplyChange | None = await call_hook(
                hooks.after_model,
                info,
                (ChangeReply, RefuseReply, Continue),
                who=self._who("after_model"),
            )
            _check_reply_change(change, info)
        except HookProblem as problem:
            raise self._error("after_model", problem) from problem
        match change:
            case ChangeReply(text=text):
                message = _with_text(event.message, text)
                return replace(event, message=message, output_error=check(message))
            case RefuseReply(reason=reason):
                return self._refused(event, reason, REFUSED_CODE, retries=True)
            case Continue(text=text):
                following = user_message(text).with_metadata(_OF_HOOK)
                return replace(event, output_error=None, next_message=following)
            case _:
                return event

    async def _guarded(self, event: ModelReplied) -> ModelReplied:
        guardrails = self._agent.guardrails
        is_output = event.output_error is None and guardrails is not None
        if not is_output or guardrails is None or not guardrails.output:
            return event
        text = event.message.content
        info = replace(self._reply_info(event), output=self._agent.parse_output(text))
        tripped = await self._first_trip("output", info, text)
        if tripped is None:
            return event
        guardrail, trip = tripped
        refused = self._refused(
            event,
            failure_text(trip, "the output"),
            TRIPPED_CODE,
            retries=guardrail.on_trip == "retry",
        )
        return replace(refused, trip=trip)

    def _refused(
        self, event: ModelReplied, reason: str, code: str, *, retries: bool
    ) -> ModelReplied:
        """Return the event of a reply that is not used, without its text and calls."""
        messages = self._state.logs[self._frame.id].messages
        count = output_retries.count_retries(self._frame, messages)
        return replace(
            event,
            message=_note("(This reply was withheld.)"),
            finish_reason="stop",
            output_error=reason,
            error_code=code,
            may_retry=retries and count < self._agent.output_retries,
        )

    def _reply_info(self, event: ModelReplied) -> ReplyInfo:
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
        self, stage: GuardrailStage, info: TurnInfo | ReplyInfo, text: str
    ) -> tuple[Guardrail, Trip] | None:
        guardrails = self._agent.guardrails
        for guardrail in guardrails.of_stage(stage) if guardrails is not None else ():
            name = guardrail.name or ""
            try:
                tripped = await self._asked(guardrail, info, text)
            except HookProblem as problem:
                raise self._error(f"guardrail {name}", problem) from problem
            if tripped is not None:
                trip = new_trip(self._path, self._frame.id, name, stage, tripped)
                return guardrail, trip
        return None

    async def _asked(
        self, guardrail: Guardrail, info: TurnInfo | ReplyInfo, text: str
    ) -> Tripped | None:
        if guardrail.agent is None:
            check: Any = guardrail.check
            who = self._who(guardrail.name or "")
            tripped: Tripped | None = await call_hook(check, info, (Tripped,), who=who)
            return tripped
        return await self._asked_agent(cast("AgentProtocol", guardrail.agent), text)

    async def _asked_agent(self, agent: AgentProtocol, text: str) -> Tripped | None:
        """Let an agent check a text, with one request; raises `HookProblem`."""
        context = self._run_options.context

        async def instructions(_: object) -> str:
            return await agent.make_instructions(text, context)

        system = await call_hook(instructions, text, (str,), who=self._who(agent.name))
        request = ModelRequest(
            messages=with_instructions((user_message(text),), system or ""),
            output_schema=agent.output_schema,
            settings=agent.settings,
            agent=agent.name,
            run_id=self._state.run.id,
            prices=self._model_registry.prices,
        )
        reply = await self._model_registry.get_reply(
            agent,
            request,
            self._run_options.should_pause,
            may_request=self._may_request,
        )
        self.usage += reply.usage
        if not isinstance(reply, ModelReply):
            msg = "gives its reply later, and a guardrail must reply at once"
            raise HookProblem(msg)
        try:
            verdict: Any = agent.parse_output(reply.message.content)
        except OutputInvalid:
            msg = "replied with an output that does not fit its output_type"
            raise HookProblem(msg) from None
        fields = jsontext.as_object(verdict)
        tripped = verdict.tripped if fields is None else fields["tripped"]
        reason = verdict.reason if fields is None else fields["reason"]
        return Tripped(str(reason)) if tripped else None

    # Errors -------------------------------------------------------------------

    def _error(self, hook: str, problem: HookProblem) -> ModelError:
        run_id = self._state.run.id
        return turn_error(hook, self._agent.name, run_id, problem)

    def _who(self, name: str) -> str:
        return f"run {self._state.run.id}: {name} of agent {self._agent.name}"


def add_cost(error: ModelError, usage: Usage) -> None:
    """Add the cost of requests to the error of a turn."""
    if usage.requests:
        known = error.usage if isinstance(error.usage, Usage) else Usage()
        error.usage = known + usage


def new_input(frame: FrameRow, messages: tuple[Message, ...]) -> str | None:
    """Return the text that a turn answers first, `None` if it answers no new text.

    A text that asks a model again does not come from a user.
    """
    if frame.retries or frame.continues:
        return None
    texts: list[str] = []
    for message in reversed(messages):
        if message.metadata_json == _OF_HOOK:
            continue
        if message.role != "user":
            break
        texts.append(message.content)
    if not texts and frame.turns:
        return None
    return "\n\n".join(reversed(texts))


def _added_messages(change: ChangeRequest) -> tuple[Message, ...]:
    """Return the messages of a change; raises `HookProblem`."""
    if type(change.messages) not in (list, tuple):
        msg = "returned ChangeRequest with messages that are no list"
        raise HookProblem(msg)
    added: list[Message] = []
    for item in change.messages:
        try:
            made = (
                user_message(item)
                if isinstance(item, str)
                else Message.from_mapping(item)
            )
        except (MalformedMessage, jsontext.NotJson, TypeError, ValueError) as error:
            msg = "returned a message that is no chat message"
            raise HookProblem(msg) from error
        if made.role not in _ADDED_ROLES:
            msg = (
                f"returned a message with the role {made.role}, and only user, system "
                "and developer messages can be added"
            )
            raise HookProblem(msg)
        added.append(made.with_metadata(_OF_HOOK))
    return tuple(added)


def _changed_settings(change: ChangeRequest) -> dict[str, Any]:
    try:
        return dict(copy_settings("", change.settings))
    except InvalidInput as error:
        msg = f"returned invalid settings ({str(error).removeprefix('agent : ')})"
        raise HookProblem(msg) from error


def _check_reply_change(change: ReplyChange | None, info: ReplyInfo) -> None:
    """Raise `HookProblem` if a reply cannot be changed in this way."""
    text: object = getattr(change, "text", getattr(change, "reason", ""))
    if not isinstance(text, str):
        msg = f"returned {type(change).__name__} without a text"
        raise HookProblem(msg)
    if isinstance(change, Continue) and not info.is_final:
        msg = "returned Continue for a reply with calls"
        raise HookProblem(msg)


def _note(text: str) -> Message:
    return Message.from_mapping({"role": "assistant", "content": text})


def _with_text(message: Message, text: str) -> Message:
    """Return a reply with another text and the same calls, without other fields."""
    data: dict[str, Any] = {"role": "assistant", "content": text}
    if message.tool_call_ids:
        data["tool_calls"] = message.data["tool_calls"]
    return Message.from_mapping(data)
