"""A store in a table of Postgres: one row for each key.

`create` is one `INSERT … ON CONFLICT DO NOTHING`. Postgres shows a row after it has
flushed the commit, so every body that a reader sees is durable. All times are those of
the database. `migrate` makes the table; no other verb does.

**Lost replies.** Each create has a random maker id, which is a column of the row. If a
connection ends before the reply, the create is repeated. If the key then exists, its
maker id is compared. If that cannot be read, the create is `Inconclusive`.

`continuations_storage.postgres_sql` has the statements and the table of errors,
`continuations_storage.postgres_connections` the pool.
"""

from __future__ import annotations

import os
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from continuations_storage import retries
from continuations_storage.contract import Committed
from continuations_storage.keys import check_key, check_prefix
from continuations_storage.postgres_connections import Connections
from continuations_storage.postgres_sql import ObjectTable, TableVerbs, failure_of
from continuations_storage.retries import AttemptFailed, RetryPolicy, located_errors
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from typing import Any

    from continuations_storage.contract import Changes, Ephemeral, Page, Store, Watch
    from continuations_storage.errors import Operation
    from continuations_storage.postgres_sql import RoleRights, Rows, Statement
    from continuations_storage.retries import StoredObjectInfo

__all__ = ["PostgresStore"]

T = TypeVar("T")

# The most connections of a process: a server allows 100 by default.
_MAX_CONNECTIONS = 10
_MAX_BODIES_IN_TEXT = 1 << 18
_threads = DaemonThreadPool(_MAX_CONNECTIONS, "continuations-postgres")


class PostgresStore(TableVerbs):
    """A store that keeps each body as a row of a table.

    Loops, threads and forked children may share it. The constructor does not use the
    network. A connection is opened when an operation needs one, and kept for the next.

    Args:
        url: ``postgresql://USER@HOST/DATABASE``, as libpq reads it. The parameter
            ``schema`` names the schema of the table, by default ``continuations``.
        timeout: Seconds until a silent connection counts as lost.
        retry_policy: How often to retry; by default 8 attempts in 30 seconds.
        watched_prefixes: The prefixes that can be watched. A create of another key
            notifies no process: notices let one commit wait for another one.

    Raises:
        Unsupported: The URL is not valid. The error does not quote the URL, because it
            may contain a password.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 15.0,
        retry_policy: RetryPolicy | None = None,
        watched_prefixes: Sequence[str] = (),
    ) -> None:
        self._connections = Connections(url, timeout)
        self._watched_prefixes = (*watched_prefixes,)
        super().__init__(ObjectTable(self._connections.schema, self._watched_prefixes))
        self._retry_policy = retry_policy or RetryPolicy()
        self._database_name: str | None = None

    @property
    def place(self) -> str:
        """The host, the database and the schema, as errors name them."""
        return self._connections.place

    def __repr__(self) -> str:
        return f"<PostgresStore {self.place}>"

    @cached_property
    def ephemeral(self) -> Ephemeral:
        """Values that last some seconds, in a table of their own.

        An older `migrate` did not make the table. Then each method raises
        `Unavailable`, and the text names `continuations migrate`.
        """
        from continuations_storage.postgres_ephemeral import PostgresEphemeral  # noqa: PLC0415 -- cold start

        return PostgresEphemeral(self._table.ephemeral_name, self._run_once)

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; one round trip unless something fails.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The time of the database.

        Raises:
            StorageError: As `Store.create` states.
        """
        check_key(key)
        maker_id = os.urandom(16).hex()
        create = self._table.create(key, body, maker_id)

        async def put() -> StoredObjectInfo:
            time = await self._send(create)
            return retries.StoredObjectInfo(
                maker_id=maker_id, store_time=time, version_id=None
            )

        with located_errors("create", self.place):
            created = await retries.create_with_retries(
                self._retry_policy,
                key,
                maker_id,
                put=put,
                head=lambda: self._send(self._table.describe(key)),
            )
        return created.store_time

    async def commit(self, changes: Changes) -> Committed:
        """Make several changes in one round trip; see `contract.Changes`.

        The creates are one transaction. The listing and the deletes are another one,
        which begins after its commit: what other processes committed before, it shows.

        Args:
            changes: The changes.

        Returns:
            The time of the database, the listing, and whether the keys are removed.

        Raises:
            StorageError: As `create` states.
        """
        for key in (changes.key, *changes.also):
            check_key(key)
        maker_id = os.urandom(16).hex()
        create = self._table.create_together(changes, maker_id)
        steps = self._table.steps_after(changes, maker_id)
        page: Page | None = None
        is_cleaned = False

        describe = self._table.describe(changes.key)
        send = partial(_rows_together, create, steps, (maker_id, describe))
        if sum(map(len, (changes.body, *changes.also.values()))) > _MAX_BODIES_IN_TEXT:
            send = partial(_rows_one_by_one, create, steps)

        async def put() -> StoredObjectInfo:
            nonlocal page, is_cleaned
            created, *rows = await self._in_thread(send)
            time = create.parse(created)
            # If the steps failed, they have no rows.
            for step, found in zip(steps, rows, strict=False):
                result = step.parse(found)
                if isinstance(result, bool):
                    is_cleaned = result
                else:
                    page = result
            return retries.StoredObjectInfo(
                maker_id=maker_id, store_time=time, version_id=None
            )

        with located_errors("create", self.place):
            created = await retries.create_with_retries(
                self._retry_policy,
                changes.key,
                maker_id,
                put=put,
                head=lambda: self._send(describe),
            )
        return Committed(
            store_time=created.store_time, page=page, is_cleaned=is_cleaned
        )

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success.

        The server does not flush a delete before it answers.
        """
        await self._delete(key, is_flushed=False)

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch] | None:
        """Watch the creates of a prefix over a connection that listens.

        Behind a pooler of connections, such as PgBouncer, nothing is reported.

        Args:
            prefix: The beginning of the keys.

        Returns:
            A block in which keys are watched; `None` if the prefix is not one of
            `watched_prefixes`.

        Raises:
            InvalidKey: No valid key begins with the prefix.
        """
        from continuations_storage.postgres_watch import postgres_watch  # noqa: PLC0415 -- cold start

        check_prefix(prefix)
        if prefix not in self._watched_prefixes:
            return None
        return postgres_watch(self._connections, self._table.channel(prefix))

    async def probe(self) -> None:
        """Check the table, and prove put-if-absent; or raise `Unsafe`."""
        from continuations_storage.probe import prove_put_if_absent  # noqa: PLC0415 -- cold start

        await self._run("read", None, self._table.check())
        await prove_put_if_absent(self)

    def within(self, connection: object) -> Store:
        """Return this table in the open transaction of an application.

        Args:
            connection: A `psycopg.Connection` or `psycopg.AsyncConnection` to the same
                database, with an open transaction.

        Returns:
            A store whose writes are committed or rolled back with the transaction.

        Raises:
            NoTransaction: The connection commits each statement, or is of another kind.
        """
        from continuations_storage.postgres_transaction import TransactionStore  # noqa: PLC0415 -- rarely needed

        return TransactionStore(self._table, self._database, connection)

    async def _database(self) -> str:
        if self._database_name is None:
            name = await self._run("read", None, self._table.database())
            self._database_name = name
        return self._database_name

    # The table --------------------------------------------------------------------

    async def migrate(self, rights: Sequence[RoleRights] = ()) -> bool:
        """Make the schema and the table, if they are missing; give rights to roles.

        Several processes may migrate at once. A table of the same name and of another
        form is not changed. *A crash* leaves everything or nothing.

        Args:
            rights: The roles that get rights.

        Returns:
            Whether the table was made.

        Raises:
            Unsafe: There is another table of this name.
            StorageError: The table was not made.
        """
        with located_errors("create", self.place):
            return await retries.retry(
                self._retry_policy,
                None,
                lambda: self._in_thread(partial(self._migrate, rights)),
            )

    def migration(self, rights: Sequence[RoleRights] = ()) -> str:
        """Return the SQL of `migrate`, for people who run it themselves.

        Args:
            rights: The roles that get rights.

        Returns:
            One script with one transaction. It may be run again.
        """
        statements = (
            self._table.limit_waiting(),
            self._table.lock(),
            self._table.make_schema(),
            self._table.make(),
            self._table.make_ephemeral(),
            self._table.give(rights),
        )
        return "\n".join(("BEGIN;", *filter(None, statements), "COMMIT;\n"))

    def _migrate(
        self, rights: Sequence[RoleRights], connection: psycopg.Connection[Any]
    ) -> bool:
        with connection.transaction():
            connection.execute(self._table.limit_waiting().encode())
            connection.execute(self._table.lock().encode())
            check, has_schema = self._table.check(), self._table.has_schema()
            exists = check.parse(_rows(check, connection))
            if not exists:
                # A role without rights on the database may not even ask for a schema
                # that exists.
                if not has_schema.parse(_rows(has_schema, connection)):
                    connection.execute(self._table.make_schema().encode())
                connection.execute(self._table.make().encode())
            has_ephemeral = self._table.has_ephemeral()
            if not has_ephemeral.parse(_rows(has_ephemeral, connection)):
                connection.execute(self._table.make_ephemeral().encode())
            if rights:
                connection.execute(self._table.give(rights).encode())
        return not exists

    # Statements -------------------------------------------------------------------

    async def _run(
        self, operation: Operation, key: str | None, statement: Statement[T]
    ) -> T:
        with located_errors(operation, self.place):
            return await retries.retry(
                self._retry_policy, key, lambda: self._send(statement)
            )

    async def _run_once(self, statement: Statement[T]) -> T:
        with located_errors("read", self.place):
            return await retries.retry(
                RetryPolicy(max_attempts=1), None, lambda: self._send(statement)
            )

    async def _send(self, statement: Statement[T]) -> T:
        rows = await self._in_thread(partial(_rows, statement))
        try:
            return statement.parse(rows)
        except AttemptFailed as failure:
            if failure.rule.retry:  # another connection may reach the primary
                self._connections.close_idle()
            raise

    async def _in_thread(self, use: Callable[[psycopg.Connection[Any]], T]) -> T:
        return await _threads.run(partial(self._attempt, use))

    def _attempt(self, use: Callable[[psycopg.Connection[Any]], T]) -> T:
        is_sent = False
        try:
            with self._connections.connection() as connection:
                is_sent = True
                return use(connection)
        except AttemptFailed:
            raise
        except Exception as error:
            raise failure_of(error, is_sent=is_sent) from error


def _rows_together(
    create: Statement[datetime],
    steps: Sequence[Statement[Any]],
    maker: tuple[str, Statement[StoredObjectInfo]],
    connection: psycopg.Connection[Any],
) -> list[Rows]:
    """Send a create as one transaction, and the steps after it as the next one.

    They are sent at once, as one text: a pipeline of psycopg would wait between them.
    If only the steps fail, the rows of the create are returned alone. `maker` has the
    id of this create, and the statement that reads the id in the row of the key.

    Raises:
        AttemptFailed: The connection ended, perhaps after the commit.
    """
    try:
        return _rows_of_text(("BEGIN", create, "COMMIT", *steps), connection)
    except psycopg.Error as error:
        status = connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise  # in the first transaction
        if status != TransactionStatus.IDLE:
            failure = failure_of(error, is_sent=True)
            raise AttemptFailed(
                failure.rule, failure.detail, may_be_stored=True
            ) from error
        # Either the commit failed, or a step after it: who made the key tells.
        maker_id, describe = maker
        [(_, made_by, microseconds)] = _rows(describe, connection)
        if made_by != maker_id:
            raise
        return [[(microseconds,)]]


def _rows_one_by_one(
    create: Statement[datetime],
    steps: Sequence[Statement[Any]],
    connection: psycopg.Connection[Any],
) -> list[Rows]:
    """Send a create of large bodies, and then the steps after it.

    In a text, a body has twice its size, and psycopg holds the interpreter meanwhile.
    """
    created = _rows(create, connection)
    if not created or not steps:
        return [created]
    try:
        return [created, *_rows_of_text(steps, connection)]
    except psycopg.Error:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.close()  # the pool drops it
        return [created]


def _rows_of_text(
    parts: Sequence[Statement[Any] | str], connection: psycopg.Connection[Any]
) -> list[Rows]:
    """Send statements as one text; return the rows of each that has a result."""
    statements = [part for part in parts if not isinstance(part, str)]
    text = ";\n".join(part if isinstance(part, str) else part.sql for part in parts)
    values = [*chain.from_iterable(each.values for each in statements)]
    with psycopg.ClientCursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(text.encode(), values)
        rows = [cursor.fetchall()] if cursor.description else []
        while cursor.nextset():
            rows += [cursor.fetchall()] if cursor.description else []
        return rows


def _rows(statement: Statement[Any], connection: psycopg.Connection[Any]) -> Rows:
    values = statement.values
    return connection.execute(statement.sql.encode(), values, binary=True).fetchall()
