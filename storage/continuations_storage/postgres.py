"""A store in a table of Postgres: one row for each key.

`create` is one `INSERT … ON CONFLICT DO NOTHING`. Postgres shows a row after it has
flushed the commit, so every body that a reader sees is durable. All times are those of
the database. `migrate` makes the table; no other verb does.

**Lost replies.** Each create has a random maker id, which is a column of the row. If a
connection ends before the reply, the create is repeated. If the key then exists, its
maker id is compared. If that cannot be read, the create is `Inconclusive`.

`continuations_storage.postgres_sql` has the statements and the table of errors,
`continuations_storage.postgres_connections` the pool, and
`continuations_storage.postgres_exchange` sends statements and receives rows.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from continuations_storage import retries
from continuations_storage.contract import Committed
from continuations_storage.keys import check_key, check_prefix
from continuations_storage.postgres_connections import Connections
from continuations_storage.postgres_sql import ObjectTable, TableVerbs
from continuations_storage.retries import AttemptFailed, RetryPolicy, located_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from typing import Any

    import psycopg

    from continuations_storage.contract import Changes, Ephemeral, Page, Store, Watch
    from continuations_storage.errors import Operation
    from continuations_storage.postgres_sql import RoleRights, Rows, Statement
    from continuations_storage.retries import StoredObjectInfo

__all__ = ["PostgresStore"]

T = TypeVar("T")


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
        """Make several changes in one request; see `contract.Changes`.

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

        async def put() -> StoredObjectInfo:
            nonlocal page, is_cleaned
            created, *rows = await self._connections.exchange(create, steps)
            time = create.parse(created)
            # Steps that failed have no rows. A pooler may send them to a standby.
            with suppress(AttemptFailed):
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
                head=lambda: self._send(self._table.describe(changes.key)),
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
                lambda: self._connections.run(partial(self._migrate, rights)),
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
        [rows] = await self._connections.exchange(statement)
        try:
            return statement.parse(rows)
        except AttemptFailed as failure:
            if failure.rule.retry:  # another connection may reach the primary
                self._connections.close_idle()
            raise


def _rows(statement: Statement[Any], connection: psycopg.Connection[Any]) -> Rows:
    values = statement.values
    return connection.execute(statement.sql.encode(), values, binary=True).fetchall()
