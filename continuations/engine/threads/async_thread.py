"""AsyncThread: a conversation that rests between messages, also for a year."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Literal

from continuations.core.declared_types import Output
from continuations.core.rows.decisions import PYTHON, Door
from continuations.core.rows.run import ENDED_STATUSES, WHEN_BUSY
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.engine.requests.request_checks import agent_is_missing, optional_text
from continuations.engine.requests.run_requests import (
    MessagePost,
    RunRequests,
    own_id_of,
)
from continuations.engine.start.new_run import parse_user_message
from continuations.engine.start.run_description import RunDescription
from continuations.engine.threads.async_ticket import AsyncTicket
from continuations.errors import InvalidInput, RunErased, StaleRun
from continuations.ledger import layout
from continuations.ledger.arrivals import thread_arrivals
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace
from continuations.wire.arrivals import InboxMessage
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.authoring.agent.agent import Agent
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.identity import Identity
    from continuations.core.reading.live_events import RunEvent
    from continuations.core.rows.run import Budget, RunRow, WhenBusy
    from continuations.engine.events.event_listeners import EventBuffer
    from continuations.engine.outcomes import SendResult
    from continuations.engine.ports import OnEvent
    from continuations.engine.start.new_run import UserText
    from continuations.engine.sync.run_streams import AsyncRunStream
    from continuations.engine.threads.async_ticket import ThreadParts
    from continuations.engine.worker_options import ShouldPause
    from continuations.ledger.arrivals.thread_arrivals import Generation
    from continuations.wire.versions import VersionHeader


_CLOSING_TEXT = "The thread is closed."


class AsyncThread(Generic[Output]):
    """One conversation with an agent, kept in a store; made by `AsyncRunner.thread`.

    The same agent and key are the same thread, in every process. It rests between
    messages: no process works on it, and no list of open waits shows it.

    Attributes:
        agent: Name of the agent.
        key: The key of the thread.
    """

    def __init__(
        self,
        parts: ThreadParts,
        name: str,
        agent: Agent[Output] | None,
        key: str,
        description: RunDescription,
        budget: Budget | None,
    ) -> None:
        self.agent = name
        self.key = check_key(key)
        self._agent = agent
        self._parts = parts
        self._run_id = layout.thread_run_id(name, self.key, 1)
        self._posts = ThreadPosts(parts, name, agent, self.key, description, budget)

    def __repr__(self) -> str:
        """Return the agent and the key."""
        return f"<AsyncThread {self.key!r} of {self.agent}>"

    async def send(
        self,
        text: UserText,
        *,
        by: str | Identity | None = None,
        id: str | None = None,  # noqa: A002 - the best name for the caller
        when_busy: WhenBusy = "queue",
        context: Any = None,
        should_pause: ShouldPause | None = None,
        on_event: OnEvent | None = None,
    ) -> SendResult[Output]:
        """Post a message, and work on the thread until the message has its reply.

        If another process works on the thread, this one waits for the reply.

        Args:
            text: The text of the message, or a list of texts and attachments.
            by: The sender: a name or an `Identity`, whose name is stored.
            id: Your id of the message. A repeat with the same id posts nothing, and
                returns the same reply.
            when_busy: The effect while an earlier message is answered. `queue`: the
                message gets its own reply. `merge`: the agent reads it before its next
                request, if both have the same sender; then both have one reply.
                `interrupt`: like `merge`, and calls that have not begun are cancelled,
                also approved ones.
            context: Your object for the tools, `ctx.context`. It is never stored.
            should_pause: Called before every model call and every new tool call. Once
                it returns True, calls in progress are completed and nothing new begins.
                Then the result is `Suspended` or `Queued`, and `paused` is true.
            on_event: A function or coroutine function that gets each event of the
                thread, in order, while this call works on it.

        Returns:
            `Replied`, or `Failed` if this reply failed. `Suspended` if the reply waits,
            for example for an approval. `Queued` if the thread waits for something
            else.

        Raises:
            InvalidInput: An argument is invalid, or `id` names another message. Or the
                runner has no agents, and then nothing is posted.
            RunExists: A run that is not a thread has the id of this thread.
            InboxFull: The thread has too many unread messages.
            ThreadClosed: The thread was closed before this message.
            ModelError, AgentChanged, ClockOff, StoreError: As for `resume` of a runner.
                The message is posted. A repeat with the same `id` returns its reply.
        """
        self._check_can_work("send")
        ticket = await self._ticket(text, by, id, when_busy, context, PYTHON)
        return await ticket.reply(
            context=context, should_pause=should_pause, on_event=on_event
        )

    @property
    def run_id(self) -> str:
        """The id of the thread's run, also before its first message.

        A thread that was closed has one more run with its next message. This object
        knows the id of that run after it has read the thread or posted to it.
        """
        return self._run_id

    @property
    def can_work(self) -> bool:
        """Whether this process has the agent, so that `send` and `reply` work."""
        return self._agent is not None

    def _check_can_work(self, method: str) -> None:
        if not self.can_work:
            what = f"{method}() to thread {self.key!r:.60} of {self.agent!r:.60}"
            raise agent_is_missing(what, "Call post(...) to leave it to a worker")

    def stream(
        self,
        text: UserText,
        *,
        by: str | Identity | None = None,
        id: str | None = None,  # noqa: A002 - the best name for the caller
        when_busy: WhenBusy = "queue",
        after: str | None = None,
        context: Any = None,
        should_pause: ShouldPause | None = None,
    ) -> AsyncRunStream[SendResult[Output]]:
        """Post a message, and yield the events of the thread until it has its reply.

        Stored events come with live ones: parts of replies, and progress of tools. If
        another process works on the thread, only its stored events are yielded.

        Args:
            text: As for `send`, as all arguments but `after`.
            by: The sender.
            id: Your id of the message.
            when_busy: The effect while an earlier message is answered.
            after: The `cursor` of the last event that you handled. The events after it
                come first. Default: the events after the message was posted.
            context: Your object for the tools, `ctx.context`.
            should_pause: Called before every model call and every new tool call.

        Returns:
            The stream. Iterate over it; at the end, `stream.outcome` has the result of
            `send`. The iteration raises the errors of `send`.

        Raises:
            InvalidInput: `after` is not a cursor, or the runner has no agents.
        """
        self._check_can_work("stream")
        from continuations.engine.event_reading import Cursor  # noqa: PLC0415 - only for streams
        from continuations.engine.sync.run_streams import AsyncRunStream  # noqa: PLC0415

        async def work(events: EventBuffer) -> SendResult[Output]:
            ticket = await self._ticket(text, by, id, when_busy, context, PYTHON)
            events.after = events.after or Cursor(ticket.posted_after + 1)
            return await ticket.reply(
                context=context, should_pause=should_pause, on_event=events
            )

        return AsyncRunStream(work, None if after is None else Cursor.parse(after))

    async def post(
        self,
        text: UserText,
        *,
        by: str | Identity | None = None,
        id: str | None = None,  # noqa: A002 - the best name for the caller
        when_busy: WhenBusy = "queue",
        context: Any = None,
        door: Door = PYTHON,
    ) -> AsyncTicket[Output]:
        """Post a message and return; a sweep or `ticket.reply()` works on it.

        The first message makes the thread. No agents are needed: a worker that has the
        agent replies.

        Args:
            text: The text of the message, or a list of texts and attachments.
            by: As for `send`.
            id: As for `send`.
            when_busy: As for `send`.
            context: Your object, for a function that returns the instructions.
            door: The way by which the message came, for the audit of an interruption.

        Returns:
            The ticket of the message. The message is stored.

        Raises:
            InvalidInput: An argument is invalid, or `id` names another message.
            RunExists: A run that is not a thread has the id of this thread.
            InboxFull: The thread has too many unread messages.
            ThreadClosed: The thread was closed at the same time.
            StoreError: The store failed. Call again, with `id` so that the message is
                not posted twice.
        """
        ticket = await self._ticket(text, by, id, when_busy, context, door)
        if ticket.was_answered:
            return ticket
        versions = Versions(self._parts.objects, ticket.run_id)
        newest = await versions.newest_header()
        is_over = newest is None or newest.status in ENDED_STATUSES
        if is_over and (newest is None or newest.answered < ticket.number):
            raise ticket.closed_error()
        return ticket

    async def ticket(
        self, number: int, *, run_id: str | None = None
    ) -> AsyncTicket[Output] | None:
        """Return the ticket of a message that was posted before, in any process.

        Args:
            number: Number of the message, from 1.
            run_id: Id of the thread's run, for a thread that was closed and opened
                again; by default its newest run.

        Returns:
            The ticket, or `None` if the thread does not exist. Its `look` tells whether
            the message exists.

        Raises:
            InvalidInput: An argument is invalid.
            StoreError: The store failed.
        """
        value: object = number
        if type(value) is not int or value < 1:
            msg = f"number must be an integer, at least 1, got {number!r:.60}."
            raise InvalidInput(msg)
        if run_id is None:
            newest = await self._newest()
            if not newest.version:
                return None
            run_id = newest.run_id
        elif not layout.is_generation(run_id, self.agent, self.key):
            raise InvalidInput(
                f"run_id must be the id of a run of this thread, got {run_id!r:.60}. "
                "Pass the run_id of the result that has the number."
            )
        return AsyncTicket(self._parts, self._agent, run_id, number)

    async def _newest(self) -> Generation:
        newest = await self._posts.newest()
        if newest.version:
            self._run_id = newest.run_id
        return newest

    async def _ticket(
        self,
        text: UserText,
        by: object,
        own_id: object,
        when_busy: str,
        context: Any,
        door: Door,
    ) -> AsyncTicket[Output]:
        if when_busy not in WHEN_BUSY:
            wanted = ", ".join(sorted(WHEN_BUSY))
            raise InvalidInput(
                f"when_busy must be one of {wanted}, got {when_busy!r:.60}. Pass one "
                "of these texts."
            )
        message = self._posts.new_message(text, by, own_id)
        if when_busy != "queue":
            message = replace(message, when_busy=when_busy)
        header = await self._posts.open(text, context)
        self._run_id = header.run_id
        ticket = await self._posts.post(header, message, text)
        if when_busy == "interrupt":
            await self._posts.end_turn(
                "interrupt", ticket.run_id, ticket.number, message.by, door
            )
        return ticket

    def follow(
        self, *, after: str | Continuation = "", words: bool = False
    ) -> AsyncIterator[RunEvent]:
        """Iterate over the events of the thread, without an end.

        Stored events come from all processes, over the rests between messages and from
        one run of the thread to the next. If the thread does not exist yet, the
        iteration waits for its first message. Each call has events of its own, so a
        thread has any number of followers, and a slow one changes no run.

        Args:
            after: The place of the last event that you handled,
                `f"{event.run_id}/{event.cursor}"`. A cursor alone is one of the newest
                run. A `Continuation` of `look()` is the place of that state. Default:
                all events of the newest run.
            words: Also yield live events: the parts of replies, and the progress of
                tools, of the work that this runner does. They come from the first such
                call on. Give the events to a `LiveTranscript`.

        Returns:
            The iterator. Leave it when you need no more events.

        Raises:
            InvalidInput: `after` is invalid, or the run has no such event.
            Corrupt: A stored object is damaged.
            StoreError: The store failed. Continue after the last event.
        """
        from continuations.engine.sync.portal import Flattened  # noqa: PLC0415 - for followers
        from continuations.engine.threads.thread_following import (  # noqa: PLC0415
            ThreadFollowing,
            ThreadPlace,
        )

        place = ThreadPlace.parse(after, self.agent, self.key)
        following = ThreadFollowing(
            objects=self._parts.objects,
            sleep=self._parts.ports.sleep,
            agent=self.agent,
            key=self.key,
            hub=self._parts.word_hub() if words else None,
        )
        return Flattened(following.batches(place))

    async def messages(self) -> list[dict[str, Any]]:
        """Return the conversation in the chat completions format, as new dicts.

        Returns:
            The messages, `[]` before the first one.

        Raises:
            RunErased: The thread was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """
        newest = await self.look()
        return [] if newest is None else newest.root.messages

    @property
    async def state(self) -> Any:
        """The state of the agent in this conversation, read from the store.

        It is a new value of `Agent(state=...)`, with the changes of all turns that have
        ended. Before the first message, it has the defaults. In `AsyncThread`, write
        `await thread.state`.

        Raises:
            InvalidInput: The agent has no state, or the runner has no agents.
            AgentChanged: The stored state does not fit the type of the agent's state.
            RunErased: The thread was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """
        from continuations.engine.stack.state_checks import typed_state  # noqa: PLC0415 - few agents have a state

        if self._agent is None:
            what = f"the state of thread {self.key!r:.60}"
            raise agent_is_missing(what, "Read look().root of the thread")
        newest = await self.look()
        if newest is None:
            return typed_state(self._agent, "")
        root = newest.run_state.frames[ROOT_FRAME_ID]
        agent: AgentProtocol | None = self._agent
        if root.began_as and self._parts.factory is not None:
            agent = self._parts.factory.find_holder(self._agent, root.agent)
        if agent is None:
            raise InvalidInput(
                f"the state of thread {self.key!r:.60} was not read: this process has "
                f"no handoff to agent {root.agent}, which has the conversation. Read "
                "look().root.state, or make the runner with the handoff."
            )
        return typed_state(agent, root.state_json, newest.run_id)

    async def look(self) -> Continuation | None:
        """Return the newest state of the thread, or `None` before the first message.

        Returns:
            The state. Its `status` is `resting` between messages.

        Raises:
            RunErased: The thread was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """
        newest = await self._newest()
        if not newest.version:
            return None
        loaded = await Versions(self._parts.objects, newest.run_id).load_newest()
        thread_arrivals.check_thread(loaded.state.run)
        return Continuation(loaded.state, loaded.number)

    async def stop_turn(
        self,
        *,
        by: str | Identity | None = None,
        reason: str | None = None,
        door: Door = PYTHON,
    ) -> None:
        """Stop the reply to the present message; then the thread rests.

        Calls that run return first, and their results stay in the conversation. Calls
        that have not begun never run, also if they are approved. The reply to the
        message is `Failed` with code `stopped`. If the message already has its reply,
        the request has no effect.

        Args:
            by: The person or program that stops it.
            reason: The reason, for the sender and the agent.
            door: The way by which the request came, for the audit.

        Raises:
            InvalidInput: An argument is invalid.
            StoreError: The store failed. Call again.
        """
        reason = optional_text("reason", reason)
        name = self._posts.new_message(_CLOSING_TEXT, by, None).by
        header = await self._posts.header(await self._newest())
        if header is not None and header.answered < header.inbox:
            await self._posts.end_turn(
                "stop", header.run_id, header.inbox, name, door, reason
            )

    async def close(
        self, *, by: str | Identity | None = None, context: Any = None
    ) -> None:
        """Close the thread after the earlier messages have their replies.

        Messages that were posted before get their replies. A later message raises
        `ThreadClosed`, or opens the thread again with an empty conversation. A thread
        that does not exist or is closed does not change. Without agents, the request to
        close is posted, and the next worker closes the thread.

        Args:
            by: The person or program that closes it.
            context: As for `send`, for the earlier messages.

        Raises:
            InvalidInput: `by` is invalid.
            RunErased: The thread was erased.
            StoreError: The store failed. Call again.
        """
        message = self._posts.new_message(_CLOSING_TEXT, by, None)
        header = await self._posts.header(await self._newest())
        if header is None or header.status in ENDED_STATUSES:
            return
        closing = replace(message, closes=True)
        ticket = await self._posts.post(header, closing)
        if ticket.can_work:
            await ticket.work(context=context)


_MAX_KEY_CHARS = 500


@dataclass(frozen=True, slots=True)
class ThreadPosts(Generic[Output]):
    """Opens one thread, and posts its messages."""

    parts: ThreadParts
    name: str
    agent: Agent[Output] | None
    key: str
    description: RunDescription
    budget: Budget | None

    async def end_turn(
        self,
        action: Literal["stop", "interrupt"],
        run_id: str,
        number: int,
        by: str | None,
        door: Door,
        reason: str | None = None,
    ) -> None:
        """Stop or interrupt the turn of a thread, if it has one."""
        parts = self.parts
        requests = RunRequests(
            objects=parts.objects,
            ports=parts.ports,
            options=parts.options,
            run_id=run_id,
        )
        # A thread that has ended has no turn.
        with suppress(InvalidInput):
            await requests.end_turn(action, number, reason=reason, by=by, door=door)

    def new_message(self, text: object, by: object, own_id: object) -> InboxMessage:
        """Return a message without a number; raises `InvalidInput`."""
        now = self.parts.ports.clock.now()
        return InboxMessage(
            id=own_id_of(own_id) or self.parts.ports.ids.new_ulid(now),
            number=0,
            at=now,
            message=parse_user_message(text),
            by=RunDescription.from_arguments(labels=None, title=None, by=by).requester,
        )

    async def newest(self) -> Generation:
        """Return the newest run of the thread."""
        return await thread_arrivals.newest_generation(
            self.parts.objects, self.name, self.key
        )

    async def header(self, generation: Generation) -> VersionHeader | None:
        """Return the newest header, or `None` without a run or for an erased one.

        Raises `RunExists` for a run that is not a thread, and `Corrupt` for the thread
        of another key. So nothing is posted to either.
        """
        if not generation.version:
            return None
        versions = Versions(self.parts.objects, generation.run_id)
        try:
            header = generation.header or await versions.header(generation.version)
        except RunErased:
            return None
        await thread_arrivals.check_key(self.parts.objects, header)
        # Only the header of a thread has numbers of messages.
        if not header.inbox and header.status != "resting":
            loaded = await versions.load(generation.version)
            thread_arrivals.check_thread(loaded.state.run)
        return header

    async def open(self, text: UserText, context: Any) -> VersionHeader:
        """Return the header of the newest version; make the thread if it is missing."""
        while True:
            newest = await self.newest()
            header = await self.header(newest)
            if header is not None and header.status not in ENDED_STATUSES:
                return header
            run_id = layout.thread_run_id(self.name, self.key, newest.number + 1)
            # Another sender may make it at the same time.
            with suppress(StaleRun):
                await self._create(run_id, text, context)

    async def _create(self, run_id: str, text: UserText, context: Any) -> None:
        """Store the first version of the thread; raises `StaleRun` if it exists."""
        factory = self.parts.factory
        if self.agent is None or factory is None:
            from continuations.engine.threads.agentless_threads import create_thread  # noqa: PLC0415 - rarely needed

            await self.parts.probe()
            await create_thread(
                self.parts,
                self.name,
                self.key,
                run_id=run_id,
                budget=self.budget,
                description=self.description,
            )
            return
        state = await factory.thread_state(
            self.agent,
            self.key,
            run_id=run_id,
            text=text,
            budget=self.budget,
            context=context,
            description=self.description,
        )
        await self.parts.probe()
        await factory.make_worker(run_id).start(state)

    async def post(
        self, header: VersionHeader, message: InboxMessage, text: object = ""
    ) -> AsyncTicket[Output]:
        """Post a message, once if it has an id of its sender.

        The attachments of `text` are stored first.
        """
        run_id, objects = header.run_id, self.parts.objects

        async def run_row() -> RunRow:
            versions = Versions(objects, run_id)
            return (await versions.load(header.number)).state.run

        post = MessagePost(objects, run_id, message, header.inbox)
        await post.store_attachments(text, run_row)
        new_ulid = self.parts.ports.ids.new_ulid
        posted = await post.post(new_ulid(message.at) if post.has_own_id else "")
        objects.announce_work()
        return AsyncTicket(self.parts, self.agent, run_id, posted.number, header)


def check_key(key: object) -> str:
    """Return the key of a thread; raises `InvalidInput`."""
    if isinstance(key, str) and 0 < len(key) <= _MAX_KEY_CHARS:
        return key
    raise InvalidInput(
        f"key must be a text of 1 to {_MAX_KEY_CHARS} characters, got {key!r:.60}. "
        "Pass what names the conversation, for example the id of a customer."
    )
