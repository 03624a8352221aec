# Written by tools/sync_stubs.py. Do not edit it: change the async source.
from collections.abc import Iterator
from continuations.core.declared_types import Output
from continuations.core.identity import Identity
from continuations.core.reading.live_events import RunEvent
from continuations.core.rows.decisions import Door, PYTHON
from continuations.core.rows.run import WhenBusy
from continuations.engine.outcomes import SendResult
from continuations.engine.ports import OnEvent
from continuations.engine.start.new_run import UserText
from continuations.engine.sync.run_streams import RunStream
from continuations.engine.threads.async_thread import AsyncThread
from continuations.engine.threads.async_ticket import AsyncTicket
from continuations.engine.worker_options import ShouldPause
from continuations.wire.continuation import Continuation
from typing import Any, Generic

class Ticket(Generic[Output]):
    """A posted message of a thread, and the way to its reply.

    Attributes:
        run_id: Id of the thread's run.
        number: Number of the message.
    """

    run_id: str
    number: int

    def __init__(self, async_ticket: AsyncTicket[Output]) -> None: ...
    def __repr__(self) -> str:
        """Return the run and the number of the message."""

    @property
    def can_work(self) -> bool:
        """Whether this process has the agent, so that `reply` works on the thread."""

    @property
    def was_answered(self) -> bool:
        """Whether the message had its reply when it was posted: then it is a repeat."""

    def reply(
        self,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        on_event: OnEvent | None = None,
    ) -> SendResult[Output]:
        """Return the reply to this message, and work on the thread if it is missing.

        Args:
            context: Your object for the tools, `ctx.context`. It is never stored.
            should_pause: As for `send`.
            on_event: As for `send`.

        Returns:
            As for `send`.

        Raises:
            ThreadClosed: The thread was closed before this message.
            InvalidInput: The reply is missing, and the runner has no agents.
            ModelError, AgentChanged, ClockOff, StoreError: As for `resume` of a runner.
                Call again.
        """

    def look(self) -> SendResult[Output] | None:
        """Return the reply to this message if it exists; never work on the thread.

        Returns:
            `Replied` or `Failed` if the message has its reply. `Suspended` if the reply
            waits. `Queued` if the message is not read yet, or a process works on its
            reply. `None` if there is no such message.

        Raises:
            ThreadClosed: The thread was closed before this message.
            RunNotFound, RunErased: The thread has no such run, or it was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """

class Thread(Generic[Output]):
    """One conversation with an agent, kept in a store; made by `Runner.thread`.

    The same agent and key are the same thread, in every process. It rests between
    messages: no process works on it, and no list of open waits shows it.

    Attributes:
        agent: Name of the agent.
        key: The key of the thread.
        async_thread: The `AsyncThread` of the same agent and key.
    """

    agent: str
    key: str
    async_thread: AsyncThread[Output]

    def __init__(self, async_thread: AsyncThread[Output]) -> None: ...
    def __repr__(self) -> str:
        """Return the agent and the key."""

    def send(
        self,
        text: UserText,
        *,
        by: str | Identity | None = None,
        id: str | None = None,
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

    @property
    def run_id(self) -> str:
        """The id of the thread's run, also before its first message.

        A thread that was closed has one more run with its next message. This object
        knows the id of that run after it has read the thread or posted to it.
        """

    @property
    def can_work(self) -> bool:
        """Whether this process has the agent, so that `send` and `reply` work."""

    def stream(
        self,
        text: UserText,
        *,
        by: str | Identity | None = None,
        id: str | None = None,
        when_busy: WhenBusy = "queue",
        after: str | None = None,
        context: Any = None,
        should_pause: ShouldPause | None = None,
    ) -> RunStream[SendResult[Output]]:
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

    def post(
        self,
        text: UserText,
        *,
        by: str | Identity | None = None,
        id: str | None = None,
        when_busy: WhenBusy = "queue",
        context: Any = None,
        door: Door = PYTHON,
    ) -> Ticket[Output]:
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

    def ticket(
        self, number: int, *, run_id: str | None = None
    ) -> Ticket[Output] | None:
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

    def follow(
        self, *, after: str | Continuation = "", words: bool = False
    ) -> Iterator[RunEvent]:
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

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation in the chat completions format, as new dicts.

        Returns:
            The messages, `[]` before the first one.

        Raises:
            RunErased: The thread was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """

    @property
    def state(self) -> Any:
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

    def look(self) -> Continuation | None:
        """Return the newest state of the thread, or `None` before the first message.

        Returns:
            The state. Its `status` is `resting` between messages.

        Raises:
            RunErased: The thread was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """

    def stop_turn(
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

    def close(self, *, by: str | Identity | None = None, context: Any = None) -> None:
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
