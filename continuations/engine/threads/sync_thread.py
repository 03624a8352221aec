"""Thread and Ticket: the methods of AsyncThread and AsyncTicket, without an event loop.

The types and docstrings of all methods are in `sync_thread.pyi`, which
`tools/sync_stubs.py` writes.
"""

from __future__ import annotations

from typing import Generic

from continuations.core.declared_types import Output
from continuations.engine.sync import sync_face
from continuations.engine.threads.async_thread import AsyncThread
from continuations.engine.threads.async_ticket import AsyncTicket


@sync_face.of(AsyncTicket, "_async_ticket", without={"work", "closed_error"})
class Ticket(Generic[Output]):
    """A posted message of a thread, and the way to its reply.

    Attributes:
        run_id: Id of the thread's run.
        number: Number of the message.
    """

    run_id: str
    number: int

    def __init__(self, async_ticket: AsyncTicket[Output]) -> None:
        self.run_id = async_ticket.run_id
        self.number = async_ticket.number
        self._async_ticket = async_ticket

    def __repr__(self) -> str:
        """Return the run and the number of the message."""
        return f"<Ticket {self.number} of {self.run_id}>"


@sync_face.of(
    AsyncThread,
    "async_thread",
    wraps={"stream": sync_face.run_stream, "post": Ticket, "ticket": Ticket},
)
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

    def __init__(self, async_thread: AsyncThread[Output]) -> None:
        self.agent = async_thread.agent
        self.key = async_thread.key
        self.async_thread = async_thread

    def __repr__(self) -> str:
        """Return the agent and the key."""
        return f"<Thread {self.key!r} of {self.agent}>"
