"""The connections of a Postgres store: its URL, and a pool for each process.

A connection belongs to one exchange at a time, and to the process that opened it. Only
one that leads to the server itself has settings and prepared statements. A pooler, such
as PgBouncer in transaction mode, could give them to another client. This module imports
psycopg.
"""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, unquote, urlencode

import psycopg
from psycopg import conninfo

from continuations_storage.errors import Unsupported
from continuations_storage.fork_safety import PerProcess
from continuations_storage.postgres_exchange import LoopRun, SilentServer, exchange
from continuations_storage.postgres_sql import Statement, failure_of
from continuations_storage.retries import AttemptFailed
from continuations_storage.thread_pool import AwaitedResult, DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from psycopg.waiting import Ready, Wait

    from continuations_storage.postgres_exchange import Groups, Outcome
    from continuations_storage.postgres_sql import Rows

__all__ = ["Connections"]

T = TypeVar("T")

_DEFAULT_SCHEMA = "continuations"
_USER = re.compile(r"\w+://[^@/]*@")
_PORTS = re.compile(r"[0-9]*(,[0-9]*)*")
_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_$-]{0,62}")
_MAX_CONNECT_SECONDS = 10
# The most connections of a process: a server allows 100 by default.
_MAX_CONNECTIONS = 10
# An idle connection is asked before its use if it was idle for so long: a firewall or a
# machine that was frozen loses connections without a word.
_TRUSTED_SECONDS = 30.0
_CHECK_SECONDS = 2.0
_MAX_IDLE_SECONDS = 300.0
# An event loop that stops tells no other loop.
_LOOP_CHECK_SECONDS = 1.0
# libpq copies what is still to be sent after each part that was sent.
_MAX_BYTES_IN_LOOP = 1 << 18
_ESCAPE = "Write special characters of user and password as %XX, for example %40 for @."
# Only if no pooler is between: it shows another process id than the server. A plan for
# all values is used again, so it must fit also when the table has grown: it always goes
# by the primary key. Where it cannot, it seems so costly that the server would compile
# it each time, in 50 ms.
_SET_UP = """\
SELECT set_config(name, value, false) FROM (VALUES
    ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'),
    ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'),
    ('enable_mergejoin', 'off'), ('jit', 'off')
) AS own (name, value) WHERE pg_backend_pid() = %s"""
# The server, or a pooler, does not have a prepared statement, or has it already.
_LOST_STATEMENT = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)


class Connections:
    """The connections of this process to one database.

    Args:
        url: The URL.
        timeout: Seconds until a silent connection counts as lost.

    Attributes:
        place: The URL without user, password and parameters.
        schema: The schema of the table.

    Raises:
        Unsupported: The URL is not valid. The error does not quote it.
    """

    def __init__(self, url: str, timeout: float) -> None:
        location, self.schema = _take_schema(url)
        self._timeout = timeout
        self._parameters = _parse(location)
        self.place = _describe(self._parameters, self.schema)
        self._pool = _pool_of(self._parameters)

    async def exchange(
        self, statement: Statement[Any], steps: Sequence[Statement[Any]] = ()
    ) -> list[Rows]:
        """Send a statement, and the steps after it.

        It is one round trip, or two if a pooler is between and there are steps.

        Args:
            statement: The statement, which is a transaction.
            steps: Further statements, which are the next transaction.

        Returns:
            The rows of each statement; without those of the steps if these failed.

        Raises:
            AttemptFailed: The statement failed.
        """
        groups = [[statement], *filter(None, [steps])]
        first, *later = await self._exchange(groups)
        if isinstance(first, _LOST_STATEMENT):
            # It did nothing. The steps may have, and may do it twice.
            self._pool().prepares = False
            first, *later = await self._exchange(groups)
        if isinstance(first, psycopg.Error):
            raise failure_of(first, is_sent=True) from first
        return [
            *first,
            *(each for rows in later if isinstance(rows, list) for each in rows),
        ]

    async def _exchange(self, groups: Groups) -> list[Outcome]:
        turn = await _turns().begin()
        try:
            values = [each.values for each in chain.from_iterable(groups)]
            is_small = sum(map(_bytes_in, chain(*values))) <= _MAX_BYTES_IN_LOOP
            connection = self._take(may_wait=False) if is_small else None
            if connection is not None:
                with suppress(NotImplementedError):
                    return await self._exchange_in_loop(connection, groups)

            def use(connection: _Connection) -> list[Outcome]:
                outcomes: list[Outcome] = connection.wait(
                    self._operation(connection, groups)
                )
                return outcomes

            return await _threads.run(self._attempt, turn, use)
        finally:
            turn.end()

    async def _exchange_in_loop(
        self, connection: _Connection, groups: Groups
    ) -> list[Outcome]:
        operation = self._operation(connection, groups)
        try:
            run = LoopRun(operation, connection.pgconn.socket, self._timeout)
            outcomes = await run.result()
        except NotImplementedError:
            self._give_back(connection)
            raise
        except Exception as error:
            if isinstance(error, SilentServer):
                await _threads.run(connection.end)
            connection.close()
            raise failure_of(error, is_sent=True) from error
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return outcomes

    def _operation(
        self, connection: _Connection, groups: Groups
    ) -> Generator[Wait, Ready | None, list[Outcome]]:
        return connection.exchange(groups, prepares=self._pool().prepares)

    async def run(self, use: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Use a connection in a thread.

        Raises:
            AttemptFailed: `use` raised an error, or no connection could be made.
        """
        turn = await _turns().begin()
        try:
            return await _threads.run(self._attempt, turn, use)
        finally:
            turn.end()

    def _attempt(self, turn: _Turn, use: Callable[[_Connection], T]) -> T:
        with turn.in_thread():
            return self._use(use)

    def _use(self, use: Callable[[_Connection], T]) -> T:
        is_sent = False
        try:
            with self._connection() as connection:
                is_sent = True
                return use(connection)
        except AttemptFailed:
            raise
        except Exception as error:
            raise failure_of(error, is_sent=is_sent) from error

    @contextmanager
    def _connection(self) -> Generator[_Connection]:
        """Lend a connection; one with an error is closed.

        Raises:
            psycopg.Error: No connection could be made.
        """
        connection = self._take(may_wait=True) or self._connect()
        connection.timeout = self._timeout
        try:
            yield connection
        except BaseException:
            connection.end()
            raise
        self._give_back(connection)

    def close_idle(self) -> None:
        """Close the connections that no operation uses."""
        idle = self._pool().idle
        with suppress(IndexError):
            while True:
                idle.pop()[1].close()

    # Other threads may take any connection in between: then the list is shorter.

    def _take(self, *, may_wait: bool) -> _Connection | None:
        """Take an idle connection; one that must be asked first, only if it may."""
        idle = self._pool().idle
        with suppress(IndexError):
            while True:
                since, connection = idle.pop()
                is_trusted = time.time() - since < _TRUSTED_SECONDS
                if not is_trusted and not may_wait:
                    idle.append((since, connection))
                    return None
                if connection.is_quiet() and (is_trusted or connection.answers()):
                    return connection
                connection.close()
        return None

    def _give_back(self, connection: _Connection) -> None:
        if connection.is_broken:
            connection.close()
            return
        idle = self._pool().idle
        now = time.time()  # a frozen machine may stop its monotonic clock
        idle.append((now, connection))
        with suppress(IndexError):
            while now - idle[0][0] > _MAX_IDLE_SECONDS:
                idle.pop(0)[1].close()

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection that is not one of the pool.

        Raises:
            psycopg.Error: No connection could be made.
        """
        connection = self._connect()
        connection.timeout = self._timeout
        return connection

    def _connect(self) -> _Connection:
        return _Connection.connect(
            **self._parameters, autocommit=True, prepare_threshold=None
        )


def _bytes_in(value: object) -> int:
    if isinstance(value, list):
        return sum(map(_bytes_in, cast("list[object]", value)))
    return len(value) if isinstance(value, bytes) else 0


class _Pool:
    """The connections of this process to one database that no operation uses.

    Attributes:
        idle: The connections, and since when each is idle.
        prepares: Whether statements are prepared.
    """

    def __init__(self) -> None:
        self.idle: list[tuple[float, _Connection]] = []
        self.prepares = True


_pools: dict[tuple[tuple[str, Any], ...], PerProcess[_Pool]] = {}


def _pool_of(parameters: dict[str, Any]) -> PerProcess[_Pool]:
    """Return the pool of all stores with some parameters.

    A program may open a store for each request. The environment belongs to the
    parameters, because it may name another user.
    """
    variables = {name: os.environ[name] for name in os.environ if name[:2] == "PG"}
    key = (*sorted(parameters.items()), *sorted(variables.items()))
    return _pools.setdefault(key, PerProcess(_Pool))


class _Turns:
    """Lets some operations of a process go on at a time, in any event loops."""

    def __init__(self) -> None:
        # Reentrant: an operation that no task awaits ends when memory is freed.
        self._lock = threading.RLock()
        self._begun: set[_Turn] = set()
        self._waiting: deque[_Turn] = deque()

    async def begin(self) -> _Turn:
        """Wait for a turn; call its `end`."""
        turn = _Turn(self)
        with self._lock:
            if len(self._begun) < _MAX_CONNECTIONS:
                self._begun.add(turn)
                return turn
            self._waiting.append(turn)
        self._end_stopped(turn)
        try:
            await turn.future
        except BaseException:
            with self._lock, suppress(ValueError):
                self._waiting.remove(turn)
            self.end(turn)
            raise
        return turn

    def _end_stopped(self, waiting: _Turn) -> None:
        """End the turns of event loops that do not run; again while a turn waits."""
        if waiting.future.done():
            return
        with self._lock:
            stopped = [each for each in self._begun if each.is_stopped()]
        for each in stopped:
            self.end(each)
        waiting.loop.call_later(_LOOP_CHECK_SECONDS, self._end_stopped, waiting)

    def end(self, turn: _Turn) -> None:
        """End a turn, and let the next one begin."""
        with self._lock:
            if turn not in self._begun:
                return
            self._begun.remove(turn)
            while self._waiting:
                following = self._waiting.popleft()
                with suppress(RuntimeError):  # its loop is closed
                    following.loop.call_soon_threadsafe(following.settle)
                    self._begun.add(following)
                    return


class _Turn(AwaitedResult):
    """The turn of one operation, which waits for it in its event loop."""

    def __init__(self, turns: _Turns) -> None:
        super().__init__()
        self._turns = turns
        self._is_in_thread = False

    @contextmanager
    def in_thread(self) -> Generator[None]:
        """End with the block, also if no task awaits its result any more."""
        self._is_in_thread = True
        try:
            yield
        finally:
            self._turns.end(self)

    def is_stopped(self) -> bool:
        """Return whether only its event loop can end it, and that does not run."""
        return not self._is_in_thread and not self.loop.is_running()

    def end(self) -> None:
        """Let the next operation begin."""
        if not self._is_in_thread:
            self._turns.end(self)


_turns = PerProcess(_Turns)
_threads = DaemonThreadPool(_MAX_CONNECTIONS, "continuations-postgres")


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up a silent server.

    Attributes:
        timeout: Seconds without any progress.
        is_broken: Whether it cannot be used again.
    """

    timeout = 15.0
    is_broken = False
    # The names of its prepared statements; None if a pooler may be between.
    _own_statements: set[bytes] | None = None
    _is_set_up = False

    def __del__(self, *_: Any) -> None:
        """Do not warn: libpq closes the connection, in the process that opened it."""

    def exchange(
        self, groups: Groups, *, prepares: bool
    ) -> Generator[Wait, Ready | None, list[Outcome]]:
        """Send groups of statements; see `postgres_exchange.exchange`.

        Before its first exchange, the connection finds out whether a pooler is between.
        """
        if prepares and not self._is_set_up:
            yield from self._set_up()
        if prepares and self._own_statements is not None:
            outcomes = yield from exchange(self.pgconn, groups, self._own_statements)
        else:
            outcomes = yield from self._one_by_one(groups)
        self.is_broken = any(isinstance(each, psycopg.Error) for each in outcomes)
        return outcomes

    def _one_by_one(
        self, groups: Groups
    ) -> Generator[Wait, Ready | None, list[Outcome]]:
        """Send each group after the reply to the one before it.

        PgBouncer before 1.23 takes a server connection as free after the first sync. If
        the client goes away then, the next client reads the replies that are left.
        """
        outcomes: list[Outcome] = []
        for group in groups:
            try:
                outcomes += yield from exchange(self.pgconn, [group], None)
            except psycopg.Error as error:
                if not outcomes:
                    raise
                outcomes.append(error)  # what came before is committed
            if isinstance(outcomes[-1], psycopg.Error):
                break
        return outcomes

    def _set_up(self) -> Generator[Wait, Ready | None, None]:
        self._is_set_up = True
        own = Statement(_SET_UP, (self.pgconn.backend_pid,), bool)
        [settings] = yield from exchange(self.pgconn, [[own]], None)
        # A server that has not all of the settings prepares nothing.
        if not isinstance(settings, psycopg.Error) and own.parse(settings[0]):
            self._own_statements = set()

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for an operation as psycopg does, and raise `SilentServer`."""
        return super().wait(self._until_silent(gen), *args, **options)

    def _until_silent(
        self, operation: Generator[Any, Any, T]
    ) -> Generator[Any, Any, T]:
        heard_at = time.monotonic()
        ready: Any = None
        while True:
            try:
                state = operation.send(ready)
            except StopIteration as end:
                result: T = end.value
                return result
            ready = yield state
            now = time.monotonic()
            if ready:
                heard_at = now
            elif now - heard_at > self.timeout:
                raise SilentServer(f"the server did not answer in {self.timeout:g} s")

    def is_quiet(self) -> bool:
        """Return whether an idle connection is open, and nothing came."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        # A server speaks to an idle connection only to end it.
        return not poll.poll(0)

    def answers(self) -> bool:
        """Return whether an idle connection is still there; waits for the server."""
        timeout, self.timeout = self.timeout, min(self.timeout, _CHECK_SECONDS)
        try:
            self.execute("SELECT", prepare=False)
        except psycopg.Error:
            return False
        finally:
            self.timeout = timeout
        return True

    def end(self) -> None:
        """Close the connection; end the statement that it may be in."""
        if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=_CHECK_SECONDS)
        self.close()


# The URL ------------------------------------------------------------------------


def _split_query(url: str) -> tuple[str, str]:
    """Return a URL without its parameters, and the parameters.

    libpq reads a password up to the first @, whatever it contains but a slash.
    """
    user = _USER.match(url)
    start = user.end() if user else 0
    place, _, query = url[start:].partition("?")
    return url[:start] + place, query


def _take_schema(url: str) -> tuple[str, str]:
    """Return a URL without our own parameter, and its value."""
    place, query = _split_query(url)
    schema = _DEFAULT_SCHEMA
    kept: list[str] = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name == "schema":
            schema = unquote(value)
            if not _SCHEMA.fullmatch(schema):
                advice = "Use letters, digits, _, $ and -, for example ?schema=agents."
                raise Unsupported("postgresql:", "its schema is not valid", advice)
        elif pair:
            kept.append(pair)
    return place + ("?" + "&".join(kept) if kept else ""), schema


def _parse(url: str) -> dict[str, Any]:
    """Return the parameters of libpq, without those that the environment gives."""
    try:
        parameters: dict[str, Any] = dict(conninfo.conninfo_to_dict(url))
    except (psycopg.Error, ValueError):
        raise Unsupported("postgresql:", *_parse_problem(url)) from None
    # Otherwise a part of the password would be a host, a port or a database, which
    # errors name.
    path = _split_query(url)[0].partition("://")[2].partition("/")[2]
    if "@" in f"{parameters.get('host')}{path}":
        raise Unsupported("postgresql:", "its host or database contains @", _ESCAPE)
    if not _PORTS.fullmatch(str(parameters.get("port", ""))):
        raise Unsupported("postgresql:", "its port is not a number", _ESCAPE)
    defaults = {"fallback_application_name": "continuations"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        defaults["connect_timeout"] = str(_MAX_CONNECT_SECONDS)
    # With SQL_ASCII, psycopg would return keys as bytes.
    return defaults | parameters | {"client_encoding": "UTF8"}


def _parse_problem(url: str) -> tuple[str, str]:
    """Return why libpq cannot read a URL, without a part of its password."""
    query = _split_query(url)[1]
    known = {each.keyword.decode() for each in psycopg.pq.Conninfo.get_defaults()}
    names = {pair.partition("=")[0] for pair in query.split("&") if pair}
    if "@" not in query and names - known:
        detail = f"libpq knows no parameter {min(names - known)!r}"
        return detail, "Correct or remove that parameter."
    return "libpq cannot read it", _ESCAPE


def _describe(parameters: dict[str, Any], schema: str) -> str:
    """Return where the table is: hosts, ports, database and schema."""

    def given(name: str, *variables: str) -> str:
        values = (parameters.get(name), *map(os.environ.get, variables))
        return str(next(filter(None, values), ""))

    hosts = given("host", "PGHOST") or given("hostaddr", "PGHOSTADDR")
    ports = given("port", "PGPORT").split(",")
    places = [
        _host_and_port(host, ports[number % len(ports)] or "5432")
        for number, host in enumerate(hosts.split(","))
    ]
    service = given("service", "PGSERVICE")
    own = {"service": service, "schema": schema if schema != _DEFAULT_SCHEMA else ""}
    query = urlencode({name: value for name, value in own.items() if value})
    user = "" if service else given("user", "PGUSER")
    database = quote(given("dbname", "PGDATABASE") or user)
    return f"postgresql://{','.join(places)}/{database}{'?' if query else ''}{query}"


def _host_and_port(host: str, port: str) -> str:
    if not host or host.startswith("/"):
        return quote(host, safe="")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
