"""Watch keys of a Postgres store: a connection that listens, outside of the pool.

The event loop reads what the server sends. All that may wait runs in a thread: to
connect, to listen, and to ask a quiet connection whether it is still there.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from continuations_storage.postgres_connections import Connections

__all__ = ["PostgresWatch", "postgres_watch"]

# A firewall or a machine that was frozen loses connections without a word.
_QUIET_SECONDS = 30.0
_RETRY_SECONDS = 2.0
_RETRY_SECONDS_BEHIND_A_POOLER = 600.0
# All workers get a notification at the same moment, and one of them can claim the run.
_MAX_DELAY_SECONDS = 0.01
# Not the threads of the store: a server that does not answer blocks this one.
_threads = DaemonThreadPool(4, "continuations-postgres-watch")


class PostgresWatch:
    """The notifications of one channel; see `contract.Watch`.

    Args:
        connections: Opens the connection.
        channel: The channel.
    """

    def __init__(self, connections: Connections, channel: str) -> None:
        self._connections = connections
        self._channel = channel
        self._connection: psycopg.Connection[Any] | None = None
        self._is_reported = self._is_closed = False
        self._thread_call: asyncio.Future[None] | None = None
        # When to check the connection, or to connect again.
        self._check_at = 0.0

    async def wait(self, seconds: float) -> bool:
        """Sleep until a key was created; see `Watch.wait`."""
        ends_at = time.monotonic() + seconds
        while not self._is_reported:
            left = ends_at - time.monotonic()
            if left <= 0:
                return False
            until_check = self._check_at - time.monotonic()
            if self._thread_call is not None or until_check <= 0:
                await self._check_connection(left)
            elif self._connection is None:
                await asyncio.sleep(min(left, until_check))
            else:
                await self._read_for(self._connection, min(left, until_check))
        await asyncio.sleep(_MAX_DELAY_SECONDS * os.urandom(1)[0] / 255)
        self._is_reported = False
        return True

    async def _check_connection(self, seconds: float) -> None:
        """Connect, or ask the server for an answer; wait for it some seconds."""
        if self._thread_call is None:
            self._thread_call = asyncio.ensure_future(_threads.run(self._check))
        # A cancelled wait must not leave a thread with the connection of the next one.
        done, _ = await asyncio.wait({self._thread_call}, timeout=seconds)
        if done:
            self._thread_call = None

    async def begin(self) -> None:
        """Connect; creates before that are not reported."""
        await self._check_connection(_RETRY_SECONDS)
        self._is_reported = False

    def close(self) -> None:
        """Close the connection; a thread that still uses it does so."""
        self._is_closed = True
        if self._thread_call is None:
            self._drop()
        else:
            self._thread_call.cancel()

    def _check(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._connections.connect()
                is_usable = self._listen(self._connection)
            else:
                self._connection.execute("SELECT", prepare=False)
                is_usable = True
        except Exception:  # noqa: BLE001 -- the statements of the caller raise it
            self._drop()
            self._check_at = time.monotonic() + _RETRY_SECONDS
        else:
            pause = _QUIET_SECONDS if is_usable else _RETRY_SECONDS_BEHIND_A_POOLER
            self._check_at = time.monotonic() + pause
            if not is_usable:
                self._drop()
        if self._is_closed:
            self._drop()

    def _listen(self, connection: psycopg.Connection[Any]) -> bool:
        """Listen; return False behind a pooler, which would lose the notifications."""
        [row] = connection.execute("SELECT pg_backend_pid()", prepare=False)
        if row[0] != connection.info.backend_pid:
            return False
        connection.add_notify_handler(lambda _: self._report())
        connection.execute(f'LISTEN "{self._channel}"'.encode(), prepare=False)
        # Without a connection, no create was reported.
        self._report()
        return True

    def _report(self) -> None:
        self._is_reported = True

    async def _read_for(
        self, connection: psycopg.Connection[Any], seconds: float
    ) -> None:
        """Read what the server sends, until a notification or an end."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] = loop.create_future()

        def read() -> None:
            if self._read(connection) and not heard.done():
                heard.set_result(None)

        try:
            read()  # libpq may have read it before
            if not heard.done():
                descriptor = connection.pgconn.socket
                loop.add_reader(descriptor, read)
                try:
                    await asyncio.wait({heard}, timeout=seconds)
                finally:
                    loop.remove_reader(descriptor)
        finally:
            if self._connection is None:
                connection.close()

    def _read(self, connection: psycopg.Connection[Any]) -> bool:
        """Read once; return whether there is a notification, or no connection."""
        try:
            connection.pgconn.consume_input()
        except psycopg.Error:
            # It is closed when the event loop does not read it any more.
            self._connection, self._check_at = None, 0.0
            return True
        while connection.pgconn.notifies() is not None:
            self._report()
        self._check_at = time.monotonic() + _QUIET_SECONDS
        return self._is_reported

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@asynccontextmanager
async def postgres_watch(
    connections: Connections, channel: str
) -> AsyncGenerator[PostgresWatch]:
    """Watch the creates that notify a channel, in a block.

    Without a server, the block begins, and reports nothing until there is one.

    Args:
        connections: Opens the connection.
        channel: The channel.

    Yields:
        The watch.
    """
    watch = PostgresWatch(connections, channel)
    try:
        await watch.begin()
        yield watch
    finally:
        watch.close()
