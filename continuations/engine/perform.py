"""Do one action of the plan and return the fact that came of it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from continuations.authoring import calling
from continuations.authoring.context import ToolContext
from continuations.authoring.faults import (
    ArgumentsInvalid,
    OutputInvalid,
    PolicyFailed,
    ResultUnstorable,
)
from continuations.authoring.subagent import AgentTool
from continuations.core import jsontext, transcript
from continuations.core.actions import Ask, Verify
from continuations.core.calls import Unknown
from continuations.core.decisions import Answer, Approve, Decision, Deny
from continuations.core.events import (
    Admitted,
    Answered,
    Approved,
    Begun,
    CallRaised,
    CallReturned,
    Denied,
    Entered,
    Gated,
    ModelReplied,
    Rejected,
    Unverified,
)
from continuations.engine.opening import (
    approved_meaning,
    digest_of,
    first_messages,
    new_wait,
)
from continuations.errors import ModelError, TranscriptInvalid
from continuations.models.contract import ModelRequest, Reply, ToolSpec

if TYPE_CHECKING:
    from continuations.authoring.agent import Agent, AnyTool
    from continuations.authoring.tool import Tool
    from continuations.core.actions import Run
    from continuations.core.calls import CallRow
    from continuations.core.decisions import Verdict
    from continuations.core.events import Event
    from continuations.core.table import Table
    from continuations.engine.bound import Bound
    from continuations.engine.ports import Ports
    from continuations.models.contract import Model

_log = logging.getLogger("continuations")
_DOUBTFUL = (
    "Versions of this run were lost, and the call may have been made in them. Find out "
    "before you approve it; if it was made, deny it and say so."
)


@dataclass(slots=True)
class Performer:
    """Asks models and runs tools; `context` is the user's live object."""

    bound: Bound
    ports: Ports
    models: ModelShelf
    context: Any = None
    max_depth: int | None = None

    # In this process, at once ------------------------------------------------

    async def examine(self, table: Table, call_id: str) -> Event:
        """Find a proposed call's tool, validate its arguments, ask its policy.

        Nothing that a tool or a policy raises lets the call run.
        """
        call = table.calls[call_id]
        agent = self.bound.agent(table, call.frame)
        tool = agent.tool(call.tool)
        if tool is None:
            names = ", ".join(agent.toolbox) or "none"
            text = f"there is no tool {call.tool!r}. The tools are: {names}."
            return _rejected(call, "unknown_tool", text)
        if isinstance(tool, AgentTool) and self._is_too_deep(table, call):
            text = f"{self.max_depth} levels of agents are the most."
            return _rejected(call, "depth", text)
        try:
            arguments = tool.bind(call.written)
            asks = await tool.needs_approval(arguments)
        except BaseException as error:
            if calling.is_ours(error):
                raise
            _note(table, call, "was not executed", error)
            return _unfit(call, error)
        seen = _Seen(
            call=call_id,
            arguments=arguments,
            meaning=tool.meaning,
            repeatable=tool.repeatable,
            verifiable=tool.verify is not None,
        )
        # An idempotent tool, too: a call made anew has a new key.
        acts = not isinstance(tool, AgentTool) and not tool.read_only
        doubtful = table.run.doubtful and acts
        if not asks and not doubtful:
            return Admitted(**seen)
        now = self.ports.clock.now()
        wait = new_wait(
            table,
            call,
            tool,
            kind="approval",
            now=now,
            ulid=self.ports.ids.ulid(now),
            arguments=arguments,
            note=_DOUBTFUL if doubtful else None,
        )
        return Gated(wait=wait, **seen)

    def _is_too_deep(self, table: Table, call: CallRow) -> bool:
        depth = table.frames[call.frame].depth + 1
        return self.max_depth is not None and depth >= self.max_depth

    def begin(self, table: Table, call_id: str) -> Event:
        """Return the intent to run a ready call, or the way into its agent."""
        call = table.calls[call_id]
        tool = self.bound.same_tool(table, call)
        if not isinstance(tool, AgentTool):
            return Begun(call=call_id)
        messages = first_messages(tool.agent, tool.opening(call.arguments or "{}"))
        return Entered(
            call=call_id,
            agent=tool.agent.name,
            messages=messages,
            max_turns=tool.agent.max_turns,
        )

    # In the world ------------------------------------------------------------

    async def perform(
        self, action: Ask | Run | Verify, table: Table, fence: int
    ) -> Event:
        """Ask a model, run a tool or have it checked; raises only `ModelError`."""
        if isinstance(action, Ask):
            return await self._ask(table, action.frame)
        call = table.calls[action.call]
        if isinstance(action, Verify):
            return await self._verify(table, call, fence)
        return await self._run(table, call, fence)

    async def _ask(self, table: Table, frame_id: str) -> Event:
        agent = self.bound.agent(table, frame_id)
        messages = table.logs[frame_id].messages
        wrong = transcript.fault(messages)
        if wrong is not None:
            msg = f"Run {table.run.id}, frame {frame_id}: {wrong}. It was not sent."
            raise TranscriptInvalid(msg, run_id=table.run.id)
        specs = tuple(
            ToolSpec(name=name, description=description, parameters=parameters)
            for name, description, parameters in agent.specs
        )
        settings = dict(agent.settings)
        if agent.response_format is not None:
            settings.setdefault("response_format", agent.response_format)
        request = ModelRequest(
            messages=messages,
            tools=specs,
            settings=settings,
            agent=agent.name,
            run_id=table.run.id,
        )
        reply = await self.models.ask(agent, request)
        return ModelReplied(
            frame=frame_id,
            message=reply.message,
            usage=reply.usage,
            finish=reply.finish,
            fault=_fault(agent, reply),
        )

    async def _run(self, table: Table, call: CallRow, fence: int) -> Event:
        tool = self.bound.same_tool(table, call)
        assert not isinstance(tool, AgentTool)  # noqa: S101 - agents are entered
        arguments = call.arguments or "{}"
        if call.approved is not None:
            # The last look before the call: what runs is what was approved.
            meaning = approved_meaning(tool)
            if digest_of(table, call, arguments, meaning) != call.approved:
                text = "ERROR: what would run is not what was approved. Not executed."
                return CallRaised(call=call.id, code="digest", content=text)
        if self._is_too_late(call):
            text = "ERROR: the approval was too old when the call began. Not executed."
            return CallRaised(call=call.id, code="stale", content=text)
        context = self._context(table, call, tool, fence)
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                content = await tool.invoke(arguments, context)
        except ResultUnstorable as error:
            text = f"ERROR: the tool ran, but its result cannot be kept: {error}"
            return CallRaised(call=call.id, code="result", content=text)
        except BaseException as error:
            if calling.is_ours(error):
                raise
            _note(table, call, "failed", error)
            return _raised(call, tool, error, late=limit.expired())
        return CallReturned(call=call.id, content=content)

    def _is_too_late(self, call: CallRow) -> bool:
        # Only of the first attempt can it be said that it did not begin.
        until = call.approved_until if call.attempts <= 1 else None
        return until is not None and self.ports.clock.now() > until

    def _context(
        self, table: Table, call: CallRow, tool: Tool[Any, Any], fence: int
    ) -> ToolContext:
        deadline = None
        if tool.timeout is not None:
            deadline = self.ports.clock.now() + timedelta(seconds=tool.timeout)
        return ToolContext(
            run_id=table.run.id,
            call_id=call.id,
            idempotency_key=f"{table.run.birth}-{call.id}",
            fence=fence,
            attempt=max(call.attempts, 1),
            deadline=deadline,
            context=self.context,
        )

    async def _verify(self, table: Table, call: CallRow, fence: int) -> Event:
        tool = self.bound.tool(table, call)
        if tool is None or isinstance(tool, AgentTool) or tool.meaning != call.meaning:
            return Unverified(call=call.id)
        context = self._context(table, call, tool, fence)
        try:
            found = await tool.verify_call(call.arguments or "{}", context)
        except BaseException as error:
            if calling.is_ours(error):
                raise
            _note(table, call, "could not be verified", error)
            found = None  # a check that fails cannot tell
        return self._found(table, call, tool, found)

    def _found(
        self, table: Table, call: CallRow, tool: AnyTool, found: Verdict | None
    ) -> Event:
        """Return what a tool's own check established."""
        assert isinstance(call.state, Unknown)  # noqa: S101 - nothing else is verified
        match found:
            case Answer(value=str(text)):
                return Answered(call=call.id, content=text)
            case Answer(value=value):
                try:
                    return Answered(call=call.id, content=jsontext.canonical(value))
                except jsontext.NotJson:
                    return Unverified(call=call.id)
            case Approve(arguments=None):
                meaning = approved_meaning(tool)
                digest = digest_of(table, call, call.arguments or "{}", meaning)
                return Approved(call=call.id, digest=digest)
            case Deny(reason=reason):
                now = self.ports.clock.now()
                wait = table.waits[call.state.wait]
                decision = Decision(
                    id=self.ports.ids.ulid(now),
                    wait_id=wait.id,
                    kind="deny",
                    at=now,
                    digest=wait.digest,
                    by="verify",
                    reason=reason,
                )
                return Denied(call=call.id, decision=decision)
            case _:
                return Unverified(call=call.id)


def _is_reply(given: object) -> bool:
    # A model may be anybody's: what it says that it returns is a promise.
    return isinstance(given, Reply) and given.message.role == "assistant"


class _Seen(TypedDict):
    """What an examination of a call establishes, gated or not."""

    call: str
    arguments: str
    meaning: str
    repeatable: bool
    verifiable: bool


def _rejected(call: CallRow, code: str, why: str) -> Rejected:
    content = f"ERROR: the call was not executed: {why}"
    return Rejected(call=call.id, code=code, content=content)


def _unfit(call: CallRow, error: BaseException) -> Rejected:
    if isinstance(error, ArgumentsInvalid):
        return _rejected(call, "arguments", f"its arguments are wrong: {error}")
    if isinstance(error, PolicyFailed):
        return _rejected(call, "policy", str(error))
    # A validator of the application's own may raise anything.
    return _rejected(call, "arguments", f"{type(error).__name__} was raised")


class ModelShelf:
    """The models of this process by name; an adapter is made when first asked."""

    def __init__(self) -> None:
        self._by_name: dict[str, Model] = {}

    async def ask(self, agent: Agent, request: ModelRequest) -> Reply:
        """Return a model's reply; raises `ModelError` and nothing else."""
        model = self._find(agent, request)
        try:
            reply = await model.reply(request)
        except ModelError as error:
            error.run_id = request.run_id
            raise
        except BaseException as error:
            if calling.is_ours(error):
                raise
            msg = (
                f"Run {request.run_id}: the model of agent {agent.name!r} raised "
                f"{type(error).__name__}. The run is kept; mend that and resume it."
            )
            raise ModelError(msg, run_id=request.run_id) from error
        if _is_reply(reply):
            return reply
        msg = (
            f"Run {request.run_id}: the model of agent {agent.name!r} returned no "
            "Reply with an assistant's message. The run is kept; mend that."
        )
        raise ModelError(msg, run_id=request.run_id)

    def _find(self, agent: Agent, request: ModelRequest) -> Model:
        if agent.model is None:
            msg = (
                f"Run {request.run_id}: agent {agent.name!r} has no model. Give it "
                'one: Agent(..., model="gpt-5-mini").'
            )
            raise ModelError(msg, run_id=request.run_id)
        if not isinstance(agent.model, str):
            return agent.model
        if agent.model not in self._by_name:
            from continuations.models.openai_chat import OpenAIChat  # noqa: PLC0415 - only when a model is asked

            self._by_name[agent.model] = OpenAIChat(agent.model)
        return self._by_name[agent.model]


def _fault(agent: Agent, reply: Reply) -> str | None:
    if agent.output_type is None or reply.message.calls:
        return None
    try:
        agent.parse_output(reply.message.content)
    except OutputInvalid as error:
        return str(error)
    return None


def _note(table: Table, call: CallRow, what: str, error: BaseException) -> None:
    # The words of an error may hold anything; they are for those who debug.
    kind = type(error).__name__
    run = table.run.id
    _log.warning("run %s: call %s of %s %s: %s", run, call.id, call.tool, what, kind)
    _log.debug("run %s: call %s", run, call.id, exc_info=error)


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as worse:  # noqa: BLE001 - its own __str__ fails
        return f"(its text raised {type(worse).__name__})"


def _raised(
    call: CallRow, tool: AnyTool, error: BaseException, *, late: bool
) -> CallRaised:
    if late:
        text = (
            f"ERROR: the tool did not answer within {tool.timeout} s. Whether it had "
            "an effect is not known."
        )
        return CallRaised(call=call.id, code="timeout", content=text)
    text = f"ERROR: the tool failed: {type(error).__name__}: {_words_of(error)}"
    return CallRaised(call=call.id, code="exception", content=text)
