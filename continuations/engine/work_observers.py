"""Observers of the work on runs: worker sessions, model requests, calls, versions.

A session is the time from the first version that a worker writes until it stops. An
observer never changes a run: what it raises is logged.
"""

from __future__ import annotations

import logging
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from continuations.core import jsontext
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.trace_context import is_trace_parent
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.core.model_protocol import Model, ModelRequest
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.waits import Wait

_log = logging.getLogger("continuations")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFrame:
    """A frame in which something happens.

    Attributes:
        id: Id of the frame.
        agent: Name of the agent that has the conversation now.
        model: Name of its model, or `None`.
        is_workflow: Whether the agent is a workflow.
        call: Id of the call whose tool is this agent; `None` for the root agent.
        above: The frame of that call, or `None`.
    """

    id: str
    agent: str
    model: str | None = None
    is_workflow: bool = False
    call: str | None = None
    above: ObservedFrame | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSession:
    """A worker session that begins.

    Attributes:
        run_id: Id of the run.
        created_at: When the run was started.
        root: The frame of the root agent.
        version: Number of the version that the worker found; 0 for a new run.
        trace_context: The headers of `start(trace_context=...)`; empty for none.
        previous: The `traceparent` of the session before, or `None`.
    """

    run_id: str
    created_at: datetime
    root: ObservedFrame
    version: int
    trace_context: Mapping[str, str]
    previous: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRequest:
    """A model request that begins, or a poll of a pending reply.

    Attributes:
        frame: The frame for which the model is asked.
        agent: Name of the agent that asks: the agent of the frame, or another one that
            summarizes or judges.
        model: The model.
        model_name: Name of the model.
        request: The request. Its messages and the reply may have secret arguments.
        pending_reply: Id of the reply that is polled, or `None`.
        shown: Returns messages with a mask for each secret argument in them. Pass all
            messages at once: a message may quote the call of another one.
    """

    frame: ObservedFrame
    agent: str
    model: Model
    model_name: str
    request: ModelRequest
    pending_reply: str | None
    shown: Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]] = field(
        repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCall:
    """A tool that begins.

    Attributes:
        frame: The frame that made the call.
        id: Id of the call.
        tool_call_id: Id of the call in the transcript.
        tool: Name of the tool.
        description: Its description.
        attempt: Number of the attempt, from 1.
        shown_arguments: Returns the arguments as JSON text, secret values masked.
        scrubbed: Returns a text with a mask for each secret argument in it.
    """

    frame: ObservedFrame
    id: str
    tool_call_id: str
    tool: str
    description: str
    attempt: int
    shown_arguments: Callable[[], str] = field(repr=False)
    scrubbed: Callable[[str], str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWait:
    """A wait that was opened or that ended with a version.

    Attributes:
        id: Id of the wait.
        kind: Kind of the wait.
        tool: Name of the tool of its call, or empty.
        tool_call_id: Id of that call, or empty.
        deadline: Its deadline, or `None`.
        asks_person: Whether a person is asked.
        asks_system: Whether another system ends it.
        may_have_run: Whether the outcome of its call is unknown.
        decision: Kind of the decision that ended it. `None` for an open wait, and for
            one without a stored decision, such as a timer.
    """

    id: str
    kind: str
    tool: str
    tool_call_id: str
    deadline: datetime | None
    asks_person: bool
    asks_system: bool
    may_have_run: bool
    decision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedVersion:
    """A version that the worker wrote.

    Attributes:
        number: Number of the version.
        opened: The waits that it opened.
        ended: The waits that it ended.
        ended_frames: Ids of the frames that it ended.
    """

    number: int
    opened: tuple[ObservedWait, ...]
    ended: tuple[ObservedWait, ...]
    ended_frames: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedEnd:
    """The end of a worker session.

    Attributes:
        result: `finished`, `failed`, `cancelled`, `suspended` or `paused`, or the name
            of the error that ended the work.
        failure: The code of the failure of the run, or `None`.
        error: The error that ended the work, or `None`.
    """

    result: str
    failure: str | None = None
    error: BaseException | None = None


class ActionObserver(Protocol):
    """Observes one model request or call; its methods are called in the same task."""

    def ended(self, result: Any, error: BaseException | None) -> None:
        """Take the end of the action.

        Args:
            result: A `ModelReply`, `PendingReply` or `LostReply`, or the text of a
                tool. `None` after an error, and if the tool returned no text.
            error: The error that ended the action, or `None`.
        """
        ...

    def never_began(self) -> None:
        """Take that the tool was not called; a later action begins it."""
        ...

    def trace_context(self) -> Mapping[str, str]:
        """Return the headers with which a tool hands the trace on.

        Returns:
            The values by the names of the headers.
        """
        ...


class SessionObserver(Protocol):
    """Observes one worker session, on the event loop that works.

    If another worker is faster, the first version of the session is not stored. Then
    nothing is called after `began`.
    """

    def began(self, session: ObservedSession) -> str | None:
        """Take the beginning of the session.

        Args:
            session: The session.

        Returns:
            The `traceparent` that the run stores, or `None`.
        """
        ...

    def request_began(self, request: ObservedRequest) -> ActionObserver:
        """Take the beginning of a model request.

        Args:
            request: The request.

        Returns:
            The observer of the request.
        """
        ...

    def call_began(self, call: ObservedCall) -> ActionObserver:
        """Take the beginning of a tool.

        Args:
            call: The call.

        Returns:
            The observer of the call.
        """
        ...

    def committed(self, version: ObservedVersion) -> None:
        """Take a version that was stored and that opened or ended something.

        Args:
            version: The version.
        """
        ...

    def ended(self, end: ObservedEnd) -> None:
        """Take the end of the session.

        Args:
            end: The end.
        """
        ...


class WorkObserver(Protocol):
    """Makes an observer for each worker session; see `Runner.observe`."""

    def session(self) -> SessionObserver:
        """Return the observer of a session that begins.

        Returns:
            A new observer.
        """
        ...


def _quietly(
    what: str, run_id: str, function: Callable[..., T], *args: Any
) -> T | None:
    try:
        return function(*args)
    except Exception:  # noqa: BLE001 - an observer changes no run
        _log.exception("run %s: the observer raised at %s", run_id, what)
        return None


class AgentsOfRun(Protocol):
    """The agents of a run: a `StackBinding`."""

    @property
    def secrets_by_tool(self) -> Mapping[str, Collection[str]]:
        """The paths of the secret arguments of all tools, by the names of the tools."""
        ...

    def find_agent(self, state: RunState, frame_id: str) -> AgentProtocol | None:
        """Return the agent of a frame, or `None`."""
        ...


class WatchedSession:
    """The observer of one worker's session, if it has begun. It never raises."""

    def __init__(
        self, observer: WorkObserver, run_id: str, binding: AgentsOfRun
    ) -> None:
        self._observer, self._run_id, self._binding = observer, run_id, binding
        self._kinds: dict[str, str] = {}
        self._reset()

    def _reset(self) -> None:
        self._made: SessionObserver | None = None
        self._begun = self._is_stored = False
        self._trace: str | None = None

    def traced(self, before: RunState | None, state: RunState, number: int) -> RunState:
        """Return the state of the next version with the trace of the session.

        The session begins with the first version that takes the claim, opens or ends a
        wait, or ends the run. `before` is the last version, `number` its number.
        """
        run = state.run
        waits = before.waits.keys() if before else set[str]()
        tells = run.claim is not None or run.has_ended
        if not self._begun and (tells or waits != state.waits.keys()):
            self._begin(state, number)
        if self._trace in (None, run.session_trace):
            return state
        return replace(state, run=replace(run, session_trace=self._trace))

    def _begin(self, state: RunState, number: int) -> None:
        self._begun, run = True, state.run
        self._made = _quietly("a session", self._run_id, self._observer.session)
        if self._made is None:
            return
        session = ObservedSession(
            run_id=run.id,
            created_at=run.created_at,
            root=self.frame(state, ROOT_FRAME_ID),
            version=number,
            trace_context=dict(run.trace_context),
            previous=run.session_trace,
        )
        trace = _quietly("a session", self._run_id, self._made.began, session)
        self._trace = trace if is_trace_parent(trace) else None

    def know(self, decisions: Mapping[str, Decision]) -> None:
        """Keep the kinds of decisions for the waits that they end."""
        self._kinds.update((key, each.kind) for key, each in decisions.items())

    def committed(self, before: RunState | None, after: RunState, number: int) -> None:
        """Hand a version on."""
        if self._made is None:
            return
        self._is_stored = True
        waits: Mapping[str, Wait] = before.waits if before else {}
        frames = before.frames.keys() if before else set[str]()
        opened = [each for key, each in after.waits.items() if key not in waits]
        ended = [each for key, each in waits.items() if key not in after.waits]
        gone = frames - after.frames.keys()
        if not opened and not ended and not gone:
            return
        version = ObservedVersion(
            number=number,
            opened=tuple(self._wait(each, after) for each in opened),
            ended=tuple(self._wait(each, before or after) for each in ended),
            ended_frames=tuple(sorted(gone)),
        )
        _quietly("a version", self._run_id, self._made.committed, version)

    def _wait(self, wait: Wait, state: RunState) -> ObservedWait:
        call = state.calls.get(wait.call_id)
        return ObservedWait(
            id=wait.id,
            kind=wait.kind,
            tool=call.tool if call else "",
            tool_call_id=call.tool_call_id if call else "",
            deadline=wait.deadline,
            asks_person=wait.rules.asks_person,
            asks_system=wait.rules.has_object and not wait.rules.asks_person,
            may_have_run=wait.rules.may_have_run,
            decision=self._kinds.get(wait.id) if wait.rules.has_object else None,
        )

    def end(
        self, result: str, failure: str | None, error: BaseException | None
    ) -> None:
        """End the session, if it has begun and a version of it was stored.

        A start of a run that exists may be followed by another session.
        """
        if self._is_stored and self._made is not None:
            end = ObservedEnd(result=result, failure=failure, error=error)
            _quietly("the end", self._run_id, self._made.ended, end)
        self._reset()

    def shown(
        self, state: RunState, messages: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return messages with a mask for each secret argument of the run's calls."""
        from continuations.core.words.secret_arguments import (  # noqa: PLC0415 - for observers
            masked_messages,
            secret_texts,
        )

        texts: set[str] = set()
        for call in state.calls.values():
            if call.secrets and call.arguments is not None:
                arguments = jsontext.parse(call.arguments)
                texts.update(secret_texts(arguments, call.secrets))
        return masked_messages(messages, self._binding.secrets_by_tool, texts)

    def frame(self, state: RunState, frame_id: str) -> ObservedFrame:
        """Return a frame with those above it."""
        return observed_frame(state, self._binding, frame_id)

    def action(
        self, what: str, begin: Callable[[SessionObserver], ActionObserver]
    ) -> WatchedAction | None:
        """Begin an action; `None` if nothing observes it."""
        if self._made is None:
            return None
        made = _quietly(what, self._run_id, begin, self._made)
        return None if made is None else WatchedAction(made, self._run_id)

    def call(
        self, state: RunState, call: CallRow, tool: ToolProtocol
    ) -> WatchedAction | None:
        """Begin the call of a tool."""
        agents = self._binding
        return self.action(
            "a call",
            lambda made: made.call_began(_observed_call(state, call, tool, agents)),
        )


class WatchedAction:
    """The observer of one action. It never raises."""

    def __init__(self, observer: ActionObserver, run_id: str) -> None:
        self._observer, self._run_id = observer, run_id

    def ended(self, result: Any, error: BaseException | None = None) -> None:
        """Hand the end on."""
        _quietly("an end", self._run_id, self._observer.ended, result, error)

    def never_began(self) -> None:
        """Hand on that the tool was not called."""
        _quietly("an end", self._run_id, self._observer.never_began)

    def trace_context(self) -> Mapping[str, str]:
        """Return the headers for others, or none."""
        found = _quietly("a context", self._run_id, self._observer.trace_context)
        return dict(found or {})


def observed_frame(
    state: RunState, binding: AgentsOfRun, frame_id: str
) -> ObservedFrame:
    """Return a frame with those above it, also of a stack of a thousand agents."""
    ids = [frame_id]
    while (call := state.frames[ids[-1]].parent_call_id) is not None:
        ids.append(state.calls[call].frame_id)
    above = None
    for each in reversed(ids):
        row, agent = state.frames[each], binding.find_agent(state, each)
        above = ObservedFrame(
            id=each,
            agent=row.agent,
            model=agent.model_name if agent else None,
            is_workflow=bool(row.step),
            call=row.parent_call_id,
            above=above,
        )
    assert above is not None  # noqa: S101 - the frame itself is among them
    return above


def _observed_call(
    state: RunState, call: CallRow, tool: ToolProtocol, binding: AgentsOfRun
) -> ObservedCall:
    """Return a call whose tool begins."""
    from continuations.core.words.secret_arguments import masked_json, scrubbed  # noqa: PLC0415 - for observers

    arguments = call.arguments or "{}"
    secrets = (*call.secrets, *tool.secrets)
    return ObservedCall(
        frame=observed_frame(state, binding, call.frame_id),
        id=call.id,
        tool_call_id=call.tool_call_id,
        tool=call.tool,
        description=tool.description,
        attempt=max(call.attempts, 1),
        shown_arguments=lambda: scrubbed(
            masked_json(arguments, secrets), arguments, secrets
        ),
        scrubbed=lambda text: scrubbed(text, arguments, secrets),
    )


@dataclass(frozen=True, slots=True)
class Work:
    """The frame for which the present task asks models, and its session."""

    session: WatchedSession
    state: RunState
    frame_id: str

    async def request(
        self,
        asked: Any,
        model: Model,
        request: ModelRequest,
        pending_reply: str | None,
        answer: Awaitable[T],
    ) -> T:
        """Return the answer of a model, and hand the request on."""

        def begin(session: SessionObserver) -> ActionObserver:
            return session.request_began(
                ObservedRequest(
                    frame=self.session.frame(self.state, self.frame_id),
                    agent=asked.name,
                    model=model,
                    model_name=asked.model_name or "",
                    request=request,
                    pending_reply=pending_reply,
                    shown=partial(self.session.shown, self.state),
                )
            )

        action = self.session.action("a request", begin)
        try:
            result = await answer
        except BaseException as error:
            if action is not None:
                action.ended(None, error)
            raise
        if action is not None:
            action.ended(result)
        return result
