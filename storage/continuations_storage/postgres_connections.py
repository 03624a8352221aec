"""The connections of a Postgres store: its URL, and a pool for each process.

A connection belongs to one statement at a time, and to the process that opened it. It
has no prepared statements, and no state that PgBouncer could lose between transactions.
This module imports psycopg.
"""

from __future__ import annotations

import os
import re
import select
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlencode

import psycopg
from psycopg import conninfo

from continuations_storage.errors import Unsupported
from continuations_storage.fork_safety import PerProcess

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Connections"]

T = TypeVar("T")

_DEFAULT_SCHEMA = "continuations"
_USER = re.compile(r"\w+://[^@/]*@")
_PORTS = re.compile(r"[0-9]*(,[0-9]*)*")
_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_$-]{0,62}")
_MAX_CONNECT_SECONDS = 10
# An idle connection is asked before its use if it was idle for so long: a firewall or a
# machine that was frozen loses connections without a word.
_TRUSTED_SECONDS = 30.0
_CHECK_SECONDS = 2.0
_MAX_IDLE_SECONDS = 300.0
_ESCAPE = "Write special characters of user and password as %XX, for example %40 for @."


_Idle: TypeAlias = "PerProcess[list[tuple[float, _Connection]]]"
_pools: dict[tuple[tuple[str, Any], ...], _Idle] = {}


class _SilentServer(psycopg.OperationalError):
    """The server did not answer in time."""


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
        self._idle = _idle_connections(self._parameters)

    @contextmanager
    def connection(self) -> Generator[psycopg.Connection[Any]]:
        """Lend a connection; one with an error is closed.

        Raises:
            psycopg.Error: No connection could be made.
        """
        connection = self._take() or self._connect()
        connection.timeout = self._timeout
        try:
            yield connection
        except BaseException:
            connection.end()
            raise
        self._give_back(connection)

    def close_idle(self) -> None:
        """Close the connections that no operation uses."""
        idle = self._idle()
        with suppress(IndexError):
            while True:
                idle.pop()[1].close()

    # Other threads may take any connection in between: then the list is shorter.

    def _take(self) -> _Connection | None:
        idle = self._idle()
        with suppress(IndexError):
            while True:
                since, connection = idle.pop()
                if connection.is_usable(time.time() - since):
                    return connection
                connection.close()
        return None

    def _give_back(self, connection: _Connection) -> None:
        idle = self._idle()
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


def _idle_connections(parameters: dict[str, Any]) -> _Idle:
    """Return the idle connections of all stores with some parameters.

    A program may open a store for each request. The environment belongs to the
    parameters, because it may name another user.
    """
    variables = {name: os.environ[name] for name in os.environ if name[:2] == "PG"}
    key = (*sorted(parameters.items()), *sorted(variables.items()))
    return _pools.setdefault(key, PerProcess(list))


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up a silent server.

    Attributes:
        timeout: Seconds without any progress.
    """

    timeout = 15.0

    def __del__(self, *_: Any) -> None:
        """Do not warn: libpq closes the connection, in the process that opened it."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for an operation as psycopg does, and raise `_SilentServer`."""
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
                raise _SilentServer(f"the server did not answer in {self.timeout:g} s")

    def is_usable(self, idle_seconds: float) -> bool:
        """Return whether an idle connection is still there."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        # A server speaks to an idle connection only to end it.
        if poll.poll(0):
            return False
        if idle_seconds < _TRUSTED_SECONDS:
            return True
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
