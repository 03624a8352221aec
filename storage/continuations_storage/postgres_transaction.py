"""A Postgres store in the open transaction of an application.

All that is written here is committed, or rolled back, with the rest of the transaction.
Nothing is repeated: after an error of the server, the transaction can only be rolled
back.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from continuations_storage.errors import NoTransaction, Unavailable
from continuations_storage.keys import check_key
from continuations_storage.postgres_sql import TableVerbs, failure_of
from continuations_storage.retries import AttemptFailed, located_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from continuations_storage.errors import Operation
    from continuations_storage.postgres_sql import ObjectTable, Rows, Statement

__all__ = ["TransactionStore"]

T = TypeVar("T")

_OF_OTHERS = (
    "Pass `connection.connection.driver_connection` of SQLAlchemy, or "
    "`connection.connection` of Django."
)
_ROLL_BACK = "Roll back the transaction and repeat it."


class TransactionStore(TableVerbs):
    """The verbs of a Postgres store, as statements of an open transaction.

    Args:
        table: The statements of the table.
        database: Returns the name of the database of the store.
        connection: The connection of the application.

    Raises:
        NoTransaction: The connection commits each statement, or is of another kind.
    """

    def __init__(
        self,
        table: ObjectTable,
        database: Callable[[], Awaitable[str]],
        connection: object,
    ) -> None:
        if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
            kind = type(connection).__name__
            detail = f"it must be a connection of psycopg 3, got {kind}"
            raise NoTransaction(detail, _OF_OTHERS)
        self._connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
        self._connection = connection
        super().__init__(table)
        self._database = database
        self._check_open()
        info = connection.info
        self._place = f"postgresql://{info.host}:{info.port}/{info.dbname}"
        self._is_checked = False
        # Another task of the same call must not send its statement at the same time.
        self._lock = asyncio.Lock()

    @property
    def place(self) -> str:
        """The host, the port and the database of the connection."""
        return self._place

    def __repr__(self) -> str:
        return f"<TransactionStore {self._place}>"

    async def create(self, key: str, body: bytes) -> datetime:
        """Put the body if the key is absent; other readers see it after the commit.

        If another transaction puts the same key, this waits until that one has ended.
        """
        check_key(key)
        statement = self._table.create(key, body, os.urandom(16).hex(), is_patient=True)
        return await self._run("create", key, statement)

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success."""
        await self._delete(key, is_flushed=True)

    async def probe(self) -> None:
        """Do nothing: the store proves put-if-absent with transactions of its own."""

    async def _run(
        self, operation: Operation, key: str | None, statement: Statement[T]
    ) -> T:
        with located_errors(operation, self._place):
            async with self._lock:
                await self._check_database()
                rows = await self._rows(key, statement)
            try:
                return statement.parse(rows)
            except AttemptFailed as failure:
                raise failure.to_storage_error(key) from failure

    async def _check_database(self) -> None:
        """Raise `NoTransaction` for the connection of another database, once asked."""
        if self._is_checked:
            return
        statement = self._table.database()
        [(found,)] = await self._rows(None, statement)
        wanted = await self._database()
        if found != wanted:
            detail = (
                f"it is connected to database {found}, and the runs are in {wanted}"
            )
            raise NoTransaction(detail, "Pass a connection to the same database.")
        self._is_checked = True

    async def _rows(self, key: str | None, statement: Statement[Any]) -> Rows:
        self.check_intact(key)
        self._check_open()
        query, values = statement.sql.encode(), statement.values
        connection = self._connection
        try:
            if isinstance(connection, psycopg.AsyncConnection):
                # Not `connection.cursor()`: its class may send values in another way.
                async with psycopg.AsyncCursor(
                    connection, row_factory=tuple_row
                ) as cursor:
                    await cursor.execute(query, values, prepare=False, binary=True)
                    return await cursor.fetchall()
            execute = partial(_execute, connection, query, values)
            return await asyncio.to_thread(execute)
        except psycopg.errors.ReadOnlySqlTransaction as error:
            detail = "its transaction is read-only"
            raise NoTransaction(detail, "Open one that may write.") from error
        except psycopg.Error as error:
            failure = failure_of(error, is_sent=True)
            if failure.rule.retry:
                # Nothing of a transaction is stored before its commit.
                raise Unavailable(key, failure.detail, advice=_ROLL_BACK) from error
            raise failure.to_storage_error(key) from error

    def check_intact(self, key: str | None = None) -> None:
        """Raise `Unavailable` if the transaction has failed.

        Its commit would roll it back without an error.
        """
        status = self._connection.info.transaction_status
        if not self._connection.closed and status == TransactionStatus.INERROR:
            detail = "the transaction has failed"
            raise Unavailable(key, detail, advice=_ROLL_BACK)

    def _check_open(self) -> None:
        """Raise `NoTransaction` if a statement would be committed alone, or refused."""
        status = self._connection.info.transaction_status
        if self._connection.closed:
            raise NoTransaction("it is closed", "Pass an open connection.")
        if status == TransactionStatus.INERROR:
            raise NoTransaction("its transaction has failed", _ROLL_BACK)
        if self._connection.info.encoding == "ascii":
            detail = "its client_encoding is SQL_ASCII"
            raise NoTransaction(detail, "Set client_encoding to UTF8.")
        if self._connection.autocommit and status == TransactionStatus.IDLE:
            detail = "it commits each statement on its own (autocommit)"
            raise NoTransaction(detail, "Use `with connection.transaction():`.")


def _execute(
    connection: psycopg.Connection[Any], query: bytes, values: Sequence[object]
) -> Rows:
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(query, values, prepare=False, binary=True)
        return cursor.fetchall()
