"""Ephemeral values of a Postgres store: a table that the server keeps in no log.

After a crash of the server the table is empty. `migrate` makes it, with the rights of
roles. Each request is sent once: a value that was not set in time has no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from continuations_storage.contract import (
    MAX_EPHEMERAL_BYTES,
    MAX_EPHEMERAL_NAMES,
    MAX_EPHEMERAL_SECONDS,
    check_ephemeral,
)
from continuations_storage.keys import check_prefix
from continuations_storage.postgres_sql import Statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from typing import Any

__all__ = ["PostgresEphemeral"]

_IS_VALID = f"""\
ends_at > clock_timestamp()
    AND ends_at <= clock_timestamp() + interval '{MAX_EPHEMERAL_SECONDS + 1:g} seconds'\
"""


T = TypeVar("T")


class Run(Protocol):
    """Sends a statement once."""

    def __call__(self, statement: Statement[T], /) -> Awaitable[T]:
        """Return the result, or raise a `StorageError`."""
        ...


class PostgresEphemeral:
    """Ephemeral values in a table; see `contract.Ephemeral`.

    Args:
        table: The table, as SQL names it.
        run: Sends a statement.
    """

    def __init__(self, table: str, run: Run) -> None:
        self._table = table
        self._run = run

    async def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        """Set values, and when they end; see `Ephemeral.put`."""
        check_ephemeral(values, seconds)
        # In one order, no two statements wait for each other.
        sql = f"""\
INSERT INTO {self._table} (name, ends_at, value)
SELECT name, clock_timestamp() + %s * interval '1 second', value
FROM unnest(%s::text[], %s::bytea[]) AS new (name, value) ORDER BY name
ON CONFLICT (name) DO UPDATE SET ends_at = EXCLUDED.ends_at, value = EXCLUDED.value
RETURNING 1"""  # noqa: S608 -- a quoted name
        await self._change(sql, seconds, list(values), list(values.values()))

    async def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the values that there are; see `Ephemeral.get`."""
        sql = f"""\
SELECT name, value FROM {self._table}
WHERE name = ANY (%s::text[]) AND length(value) <= {MAX_EPHEMERAL_BYTES}
    AND {_IS_VALID}"""  # noqa: S608 -- a quoted name and numbers
        return await self._run(
            Statement(
                sql,
                (list(names),),
                lambda rows: {name: bytes(value) for name, value in rows},
            )
        )

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the values that there are; see `Ephemeral.names`."""
        check_prefix(prefix)
        sql = f"""\
SELECT name FROM {self._table}
WHERE starts_with(name, %s) AND {_IS_VALID} LIMIT {MAX_EPHEMERAL_NAMES}"""  # noqa: S608 -- see above
        return await self._run(
            Statement(sql, (prefix,), lambda rows: [name for (name,) in rows])
        )

    async def remove(self, names: Sequence[str]) -> None:
        """Remove values, and all that have ended; see `Ephemeral.remove`."""
        sql = f"""\
DELETE FROM {self._table}
WHERE name = ANY (%s::text[]) OR NOT ({_IS_VALID}) RETURNING 1"""  # noqa: S608 -- see above
        await self._change(sql, list(names))

    async def _change(self, sql: str, *values: Any) -> None:
        await self._run(Statement(sql, values, len))
