"""Groups of statements over a connection of Postgres, in one round trip.

This is the pipeline mode of libpq: all statements are sent at once, and a *sync* ends
each group. A group is a transaction. The server commits it at its sync, and then begins
the next group, also after an error. The pipeline of psycopg would wait at each sync.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from continuations_storage.postgres_sql import Rows, Statement

__all__ = ["Groups", "LoopRun", "Outcome", "SilentServer", "exchange"]

T = TypeVar("T")

Groups: TypeAlias = "Sequence[Sequence[Statement[Any]]]"
# The rows of each statement of a group, or why the group was rolled back.
Outcome: TypeAlias = "list[Rows] | psycopg.Error"
_Waiting: TypeAlias = "Generator[Wait, Ready | None, T]"

# A server keeps the plan of each prepared statement in the memory of its connection.
_MAX_PREPARED = 64
_PAUSE_SECONDS = 0.01


class SilentServer(psycopg.OperationalError):
    """The server did not answer in time."""


def exchange(
    connection: PGconn, groups: Groups, prepared: set[bytes] | None
) -> _Waiting[list[Outcome]]:
    """Send groups of statements, and return their outcomes.

    Yields what it waits for, as the generators of psycopg do.

    Args:
        connection: The connection, without a transaction. After the error of a group it
            may have other prepared statements than `prepared` says.
        groups: The groups.
        prepared: The names of the statements that the connection has prepared. Others
            are added. `None` prepares nothing.

    Returns:
        The outcome of each group. If the connection ended, it is an error from there
        on: that group may have been committed.

    Raises:
        psycopg.Error: The connection ended while this was sent.
    """
    connection.enter_pipeline_mode()
    for group in groups:
        for statement in group:
            _send(connection, statement, prepared)
        connection.pipeline_sync()
    while connection.flush():
        if (yield from _wait(Wait.RW)) & Ready.R:
            connection.consume_input()
    outcomes: list[Outcome] = []
    while len(outcomes) < len(groups):
        outcome = yield from _receive(connection)
        outcomes.append(outcome)
    if connection.status == ConnStatus.OK:
        connection.exit_pipeline_mode()
    return outcomes


def _wait(state: Wait) -> _Waiting[Ready]:
    while not (ready := (yield state)):
        pass
    return ready


def _send(
    connection: PGconn, statement: Statement[Any], prepared: set[bytes] | None
) -> None:
    values = Transformer.from_context(None)
    binary = [PyFormat.BINARY] * len(statement.values)
    dumped = values.dump_sequence(statement.values, binary)
    types = values.types or ()
    name, text = _named(statement.sql, types)
    is_prepared = prepared is not None and name in prepared
    if prepared is not None and not is_prepared and len(prepared) < _MAX_PREPARED:
        connection.send_prepare(name, text, types)
        prepared.add(name)
        is_prepared = True
    if is_prepared:
        connection.send_query_prepared(name, dumped, values.formats, Format.BINARY)
    else:
        connection.send_query_params(text, dumped, types, values.formats, Format.BINARY)


@lru_cache(4 * _MAX_PREPARED)
def _named(sql: str, types: tuple[int, ...]) -> tuple[bytes, bytes]:
    """Return the name of a statement, and its text as libpq wants it.

    No other statement has the name, whichever program prepares it.
    """
    first, *others = sql.split("%s")
    text = first + "".join(f"${n}{part}" for n, part in enumerate(others, 1))
    digest = hashlib.sha256(f"{types} {text}".encode()).hexdigest()
    return f"continuations_{digest[:32]}".encode(), text.encode()


def _receive(connection: PGconn) -> _Waiting[Outcome]:
    """Receive the results of a group, up to its sync."""
    rows: list[Rows] = []
    error: psycopg.Error | None = None
    is_over = False
    while True:
        try:
            while connection.is_busy():
                yield from _wait(Wait.R)
                connection.consume_input()
        except psycopg.Error as end:
            # The server may have said why it ends the connection.
            return error or end
        result = connection.get_result()
        if result is None:  # after each statement once
            if is_over:
                return error or psycopg.OperationalError("the connection ended")
            is_over = True
            continue
        is_over = False
        if result.status == ExecStatus.PIPELINE_SYNC:
            return error or rows
        if result.status == ExecStatus.TUPLES_OK:
            rows.append(_load(result))
        elif result.status == ExecStatus.FATAL_ERROR:
            error = error or error_from_result(result)


def _load(result: PGresult) -> Rows:
    values = Transformer.from_context(None)
    values.set_pgresult(result)
    return values.load_rows(0, result.ntuples, tuple)


class LoopRun(Generic[T]):
    """An exchange that the event loop goes on with when its socket is ready.

    Args:
        operation: The exchange.
        descriptor: The socket of its connection.
        timeout: Seconds without any progress.
    """

    def __init__(self, operation: _Waiting[T], descriptor: int, timeout: float) -> None:
        self._operation = operation
        self._descriptor = descriptor
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._is_writing = False
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._outcome: list[T] = []
        self._error: Exception | None = None

    async def result(self) -> T:
        """Run the exchange.

        After an error or a cancellation, the connection must be closed.

        Raises:
            SilentServer: There was no progress.
            NotImplementedError: The event loop cannot wait for a socket. Nothing was
                sent.
        """
        self._loop.add_reader(self._descriptor, self._go_on, Ready.R)
        self._timer = self._loop.call_later(self._timeout, self._check_silence)
        try:
            self._go_on(None)
            await self._end
        finally:
            self._timer.cancel()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._descriptor)
                if self._is_writing:
                    self._loop.remove_writer(self._descriptor)
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def _go_on(self, ready: Ready | None) -> None:
        if self._end.done():
            return
        self._heard_at = self._loop.time()
        try:
            state = self._operation.send(ready)
        except StopIteration as end:
            self._outcome.append(end.value)
            self._finish()
        except Exception as error:  # noqa: BLE001 -- raised by `result`
            self._fail(error)
        else:
            if state & Wait.W:
                self._is_writing = True
                self._loop.add_writer(self._descriptor, self._go_on, Ready.W)
            elif self._is_writing:
                self._is_writing = False
                self._loop.remove_writer(self._descriptor)

    def _check_silence(self, *, is_last: bool = False) -> None:
        left = self._heard_at + self._timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        elif not is_last:
            # A loop that was blocked for so long may call this before it reads.
            check = partial(self._check_silence, is_last=True)
            self._timer = self._loop.call_later(_PAUSE_SECONDS, check)
        elif not self._end.done():
            text = f"the server did not answer in {self._timeout:g} s"
            self._fail(SilentServer(text))

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._finish()

    def _finish(self) -> None:
        # The handler of SIGINT cancels the task between any two instructions.
        with suppress(asyncio.InvalidStateError):
            self._end.set_result(None)
