"""The classes of threads and of the messages that wait in them.

from continuations.threads import AsyncThread, AsyncTicket
"""

from __future__ import annotations

from continuations.engine.threads.async_thread import AsyncThread
from continuations.engine.threads.async_ticket import AsyncTicket
from continuations.engine.threads.sync_thread import Thread, Ticket

__all__ = [
    "AsyncThread",
    "AsyncTicket",
    "Thread",
    "Ticket",
]
