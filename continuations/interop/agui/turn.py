"""One turn: the answers and the message of a client, the work, and its end."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ag_ui import core as agui
from ag_ui.encoder import EventEncoder
from pydantic_core import PydanticSerializationError, to_jsonable_python

from continuations import Failed, Suspended, WaitSummary, errors
from continuations.events import LiveEvent, RunEvent
from continuations.interop.agui import conversation
from continuations.interop.agui.conversation import interrupt_of, verdict_of
from continuations.interop.agui.translation import Translator
from continuations.results import Door, Verdict
from continuations.serve.http import problems
from continuations.serve.http.event_stream import KEEP_ALIVE, KEEP_ALIVE_LINE
from continuations.serve.rights import name_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from continuations import AsyncRunner, Continuation, Identity, Outcome, Wait
    from continuations.threads import AsyncThread

_log = logging.getLogger("continuations")
_DOOR = Door("ag-ui", "verifier")
# The wait is over: its decision stands, or nothing can be decided any more.
_OVER = (
    errors.AlreadyDecided,
    errors.WaitExpired,
    errors.Cancelled,
    errors.WaitNotFound,
)
_STOPPED = ("cancelled", "stopped")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# asyncio keeps no task alive.
_tasks: set[asyncio.Task[Any]] = set()


@dataclass(frozen=True)
class Subject:
    """The thread or run that a client calls `threadId`."""

    runner: AsyncRunner[Any]
    run_id: str
    thread: AsyncThread[Any] | None = None

    @property
    def stored_ids(self) -> str:
        """The beginning of the ids of messages that this door sends."""
        if self.thread is None:
            return f"{self.run_id}:"
        # Each run of a thread has a number.
        return self.run_id.rpartition("-")[0] + "-"

    async def look(self) -> Continuation | None:
        """Return the newest state; `None` for a thread before its first message."""
        if self.thread is not None:
            return await self.thread.look()
        return await self.runner.look(self.run_id)

    async def post(
        self,
        content: Any,
        by: str | Identity,
        own_id: str,
        newest: Continuation | None,
    ) -> str:
        """Post a message, once for its id, and return the run that reads it."""
        if self.thread is None:
            return await self._send(self.run_id, content, by, own_id)
        if newest is not None and newest.run_state.run.has_ended:
            # A browser may repeat a message of the run that has ended.
            with suppress(errors.InvalidInput):
                return await self._send(newest.run_id, content, by, own_id)
        ticket = await self.thread.post(content, by=by, id=own_id, door=_DOOR)
        return ticket.run_id

    async def _send(
        self, run_id: str, content: Any, by: str | Identity, own_id: str
    ) -> str:
        await self.runner.send(run_id, content, by=name_of(by), id=own_id)
        return run_id

    async def state(self, newest: Continuation | None) -> dict[str, Any] | None:
        """Return the state of the root agent, or `None` for an agent without state."""
        if self.thread is None:
            return None if newest is None else newest.root.state or None
        try:
            found: Any = to_jsonable_python(await self.thread.state)
        except (
            errors.InvalidInput
        ):  # the agent has no state, or this process has no agent
            return None if newest is None else newest.root.state or None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None


class _Work:
    """Works on a run, and hands on its events as long as they are read.

    The work does not end if the reader leaves: a later turn finds what it did.
    """

    def __init__(self, runner: AsyncRunner[Any], run_id: str, after: str) -> None:
        self._runner = runner
        self._run_id = run_id
        self._cursor = after
        self._events: asyncio.Queue[RunEvent | None] = asyncio.Queue(maxsize=1_000)
        self._has_reader = True
        self._task = asyncio.create_task(self._work())
        _tasks.add(self._task)
        self._task.add_done_callback(self._note_end)

    async def events(self) -> AsyncGenerator[RunEvent | None]:
        """Iterate over the events; `None` if none came for some time."""
        has_ended = False
        try:
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        event = await self._events.get()
                except TimeoutError:
                    yield None
                    continue
                if event is None:
                    has_ended = True
                    return
                yield event
        finally:
            self._has_reader = has_ended
            while not self._events.empty():  # the work may wait for a free place
                self._events.get_nowait()

    async def outcome(self) -> Outcome[Any]:
        """Return the outcome of the work, or raise its error."""
        return await self._task

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        _tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        is_of_others = isinstance(error, errors.RunBusy | errors.StaleRun)
        if error is not None and not self._has_reader and not is_of_others:
            text = "run %s: the work for a client that has left ended with an error"
            _log.warning(text, self._run_id, exc_info=error)

    async def _work(self) -> Outcome[Any]:
        pause = _FIRST_PAUSE
        try:
            while True:
                try:
                    return await self._attempt()
                except (errors.RunBusy, errors.StaleRun):
                    # Another worker has the run: it stores what it does.
                    if not self._has_reader:
                        raise
                    async for event in self._runner.events(
                        self._run_id, after=self._cursor
                    ):
                        await self._hand_on(event)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            if self._has_reader:
                await self._events.put(None)

    async def _attempt(self) -> Outcome[Any]:
        stream = self._runner.resume_stream(self._run_id, after=self._cursor)
        async for event in stream:
            await self._hand_on(event)
        return stream.outcome

    async def _hand_on(self, event: RunEvent) -> None:
        if not isinstance(event, LiveEvent):
            self._cursor = event.cursor
        if self._has_reader:
            await self._events.put(event)


@dataclass
class Turn:
    """One turn of one client.

    Attributes:
        subject: The thread or run.
        given: The request of the client.
        by: The person.
        newest: The state of the run before the turn.
        new: The new messages of the client.
        may_decide: Whether the person has the right `decide`.
        reads: Whether the person may read texts.
    """

    subject: Subject
    given: agui.RunAgentInput
    by: str | Identity
    newest: Continuation | None
    new: Sequence[agui.UserMessage]
    may_decide: bool
    reads: bool
    _decided: set[str] = field(default_factory=set[str])

    async def lines(self) -> AsyncGenerator[str]:
        """Iterate over the server-sent events of the turn."""
        yield _line(
            agui.RunStartedEvent(
                thread_id=self.given.thread_id,
                run_id=self.given.run_id,
                protocol_version=agui.PROTOCOL_VERSION,
            )
        )
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield KEEP_ALIVE_LINE if event is None else _line(event)
        except Exception as error:  # noqa: BLE001 - every error is an event
            yield _line(_error_event(error))

    async def _events(self) -> AsyncGenerator[agui.BaseEvent | None]:
        async for warning in self._decide():
            yield warning
        run_id = self._run_id
        for message in self.new:
            content, left_out = conversation.content_of(message)
            if left_out:
                yield _warning("part-left-out", f"left out: {', '.join(left_out)}.")
            run_id = await self.subject.post(content, self.by, message.id, self.newest)
        if self.newest is not None and self.newest.run_id != run_id:
            self.newest = None  # the thread was closed: this is its next run
        if self.newest is None and not self.new:
            yield self._finished(agui.RunFinishedSuccessOutcome(type="success"))
            return
        translator = Translator(run_id, reads=self.reads)
        for missed in await self._catch_up(translator):
            yield missed
        async with aclosing(self._work(translator)) as events:
            async for event in events:
                yield event

    async def _catch_up(self, translator: Translator) -> list[agui.BaseEvent]:
        """Return what the client has missed: messages, and the state."""
        missed: list[agui.BaseEvent] = []
        known = self.given.messages
        stored = self._conversation(self.newest)
        if conversation.is_behind(self.newest, known, stored):
            missed += conversation.snapshots(known, stored)
        translator.own_texts = [conversation.client_text(each) for each in self.new]
        if self.newest is not None:
            translator.know(self.newest)
        state = await self.subject.state(self.newest)
        if state is not None:
            translator.state = state
            translator.has_state_baseline = state == self.given.state
            if not translator.has_state_baseline:
                missed.append(translator.state_snapshot())
        return missed

    def _conversation(
        self, state: Continuation | None, *sent: agui.UserMessage
    ) -> list[agui.Message]:
        known = [*self.given.messages, *sent]
        return conversation.conversation(state, known, self.new, reads=self.reads)

    # Answers --------------------------------------------------------------------

    async def _decide(self) -> AsyncGenerator[agui.BaseEvent]:
        """Record the answers; yield a warning for each that no wait takes.

        All are read before one is recorded. A wait without a resolved entry stays open.
        """
        read: list[tuple[agui.ResumeEntry, Verdict]] = []
        for entry in self.given.resume or ():
            if entry.status != "resolved":
                continue
            if WaitSummary(id=entry.interrupt_id).run_id != self._run_id:
                yield _warning("unknown-interrupt", _UNKNOWN, entry.interrupt_id)
                continue
            if not self.may_decide:
                raise problems.forbidden("decide")
            try:
                wait = await self.subject.runner.wait(entry.interrupt_id)
            except _OVER as error:
                yield _over(error, entry.interrupt_id)
                continue
            read.append((entry, _verdict(wait, entry, self.by)))
        refused: errors.DecisionRefused | None = None
        for entry, verdict in read:
            try:
                await self._record(entry, verdict)
            except _OVER as error:
                yield _over(error, entry.interrupt_id)
            except errors.DecisionRefused as error:
                refused = refused or error
        if refused is not None:
            raise refused

    @property
    def _run_id(self) -> str:
        return self.subject.run_id if self.newest is None else self.newest.run_id

    async def _record(self, entry: agui.ResumeEntry, verdict: Verdict) -> None:
        shown: object = (entry.metadata or {}).get("digest")
        await self.subject.runner.decide(
            entry.interrupt_id,
            verdict,
            shown=None if shown is None else str(shown),
            door=_DOOR,
        )

    # Work -----------------------------------------------------------------------

    async def _work(
        self, translator: Translator
    ) -> AsyncGenerator[agui.BaseEvent | None]:
        """Work on the run until it rests, ends, or waits."""
        while True:
            version, ordinal = translator.cursor
            after = f"{version}.{ordinal}" if version else ""
            work = _Work(self.subject.runner, translator.run_id, after)
            async with aclosing(work.events()) as events:
                async for event in events:
                    for each in translator.translate(event) if event else (None,):
                        yield each
            outcome = await work.outcome()
            interrupts: list[agui.Interrupt] | None = None
            if isinstance(outcome, Suspended):
                interrupts = await self._interrupts(outcome, translator)
                if interrupts is None:
                    continue
            for each in self._end(outcome, interrupts, translator):
                yield each
            return

    async def _interrupts(
        self, outcome: Suspended, translator: Translator
    ) -> list[agui.Interrupt] | None:
        """Return what the run waits for; `None` if it can go on.

        Another door may have decided a wait since the work ended.
        """
        asking = [wait for wait in outcome.waits if wait.rules.asks_person]
        still_open: list[Wait] = []
        decided: set[str] = set()
        for wait in asking:
            try:
                still_open.append(await self.subject.runner.wait(wait.id))
            except _OVER:
                decided.add(wait.id)
        if decided - self._decided:
            self._decided |= decided
            return None
        found: list[agui.Interrupt] = []
        translator.know(outcome.continuation)
        # A run that asks no person has not succeeded either: name its waits.
        for wait in still_open or outcome.waits:
            frame = translator.frame_of(wait.call_id) if wait.call_id else wait.frame_id
            call = translator.call_of(wait.call_id)
            found.append(interrupt_of(wait, call, translator.subagent_of(frame)))
        if not found:
            outcome.result()  # raises: the run can go on, and no process works on it
        return found

    def _end(
        self,
        outcome: Outcome[Any],
        interrupts: Sequence[agui.Interrupt] | None,
        translator: Translator,
    ) -> Iterator[agui.BaseEvent]:
        """Return the last events of the turn."""
        if isinstance(outcome, Failed) and outcome.error.code not in _STOPPED:
            message = outcome.error.message or outcome.error.code
            usage = self._usage(outcome.continuation)
            yield agui.RunErrorEvent(
                message=message, code=outcome.error.code, usage=usage
            )
            return
        by_subagent: dict[str, list[str]] = {}
        for each in interrupts or ():
            if each.subagent_run_id is not None:
                by_subagent.setdefault(each.subagent_run_id, []).append(each.id)
        yield from translator.close(None if interrupts is None else by_subagent)
        if translator.is_out_of_step:
            messages = self._conversation(outcome.continuation, *translator.sent)
            yield agui.MessagesSnapshotEvent(messages=messages)
        usage = self._usage(outcome.continuation)
        if interrupts is not None:
            waiting = agui.RunFinishedInterruptOutcome(
                type="interrupt", interrupts=[*interrupts]
            )
            yield self._finished(waiting, usage)
        elif isinstance(outcome, Failed):
            yield self._finished(
                agui.RunFinishedCancelledOutcome(type="cancelled"), usage
            )
        else:
            result = to_jsonable_python(outcome.output) if self.reads else None
            success = agui.RunFinishedSuccessOutcome(type="success")
            yield self._finished(success, usage, result)

    def _finished(
        self,
        outcome: Any,
        usage: list[agui.TokenUsage] | None = None,
        result: Any = None,
    ) -> agui.BaseEvent:
        return agui.RunFinishedEvent(
            thread_id=self.given.thread_id,
            run_id=self.given.run_id,
            outcome=outcome,
            usage=usage,
            result=result,
        )

    def _usage(self, after: Continuation) -> list[agui.TokenUsage] | None:
        """Return the tokens of this turn, without counts that no provider returned."""
        before, now = None if self.newest is None else self.newest.usage, after.usage
        counts: dict[str, Any] = {}
        for name, own in _COUNTS.items():
            spent = getattr(now, own) - (getattr(before, own) if before else 0)
            if spent > 0:
                counts[name] = spent
        return [agui.TokenUsage(**counts)] if counts else None


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "total_tokens": "total_tokens",
    "cached_input_tokens": "cached_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
_UNKNOWN = "this conversation has no such interrupt. The answer was not recorded."


def _line(event: agui.BaseEvent) -> str:
    """Return the server-sent event of an event."""
    try:
        return EventEncoder().encode(event)
    except PydanticSerializationError:
        # A model may write half of a surrogate pair, which has no form in UTF-8.
        text = json.dumps(event.model_dump(by_alias=True), ensure_ascii=False)
        readable = json.loads(text.encode(errors="replace"))
        return EventEncoder().encode(type(event).model_validate(readable))


def _verdict(wait: Wait, entry: agui.ResumeEntry, by: str | Identity) -> Verdict:
    if "payload" in entry.model_fields_set:
        return verdict_of(wait, entry.payload, by)
    msg = (
        f"the answer to wait {wait.id} was not recorded: the entry has no payload. "
        "Send a payload that fits the responseSchema of the interrupt."
    )
    raise errors.DecisionRefused(msg, run_id=wait.run_id, wait_id=wait.id)


def _warning(code: str, text: str, interrupt_id: str | None = None) -> agui.CustomEvent:
    value = {"code": code, "message": text}
    if interrupt_id is not None:
        value["interruptId"] = interrupt_id
    return agui.CustomEvent(name="continuations.warning", value=value)


def _over(error: errors.ContinuationsError, interrupt_id: str) -> agui.CustomEvent:
    found = _problem(error)
    return _warning(found.type.slug, found.detail or found.type.title, interrupt_id)


def _error_event(error: Exception) -> agui.RunErrorEvent:
    found = _problem(error)
    return agui.RunErrorEvent(
        message=found.detail or found.type.title, code=found.type.slug
    )


def _problem(error: Exception) -> problems.Problem:
    return problems.from_error(error, "A turn of AG-UI")
