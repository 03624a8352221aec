"""The SQL of a Postgres store: each statement, its rows, and the errors of the server.

Nothing here opens a connection or imports psycopg. A `Statement` can be sent over any
connection of psycopg, also over one that belongs to an application. Each statement is a
transaction of its own, or a part of the transaction that is open, and needs no state of
the session.

Each reply says whether the server is a standby. A standby may lag behind, so its rows
are not used.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from continuations_storage.contract import PAGE_SIZE, Listing, Page
from continuations_storage.errors import (
    AlreadyExists,
    Damaged,
    Denied,
    NotFound,
    OutOfTime,
    Throttled,
    Unavailable,
    Unsafe,
)
from continuations_storage.keys import check_key, check_limit, check_prefix
from continuations_storage.retries import AttemptFailed, ErrorRule, StoredObjectInfo
from continuations_storage.s3errors import format_detail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from continuations_storage.contract import Changes
    from continuations_storage.errors import Operation

__all__ = [
    "NOT_SENT",
    "ObjectTable",
    "RoleRights",
    "Rows",
    "Statement",
    "TableVerbs",
    "failure_of",
]

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_LIMIT = (1 << 63) - 1
_MAX_SMALL = 1 << 16
# No character of a key is greater than "~".
_AFTER_KEYS = "\x7f"
_NOT_IN_KEYS = re.compile("[\\0\x7f-\U0010ffff].*", re.DOTALL)
_MICROSECONDS = "(extract(epoch FROM {}) * 1000000)::bigint"
# Without a text: the listening process lists the keys.
_NOTIFY = ", pg_notify(%s, '')::text"
_LIMIT_WAITING = """\
WITH limited AS (SELECT set_config('lock_timeout', '2s', true))
"""
# The name, type, NOT NULL and collation of each column that `migrate` makes.
_COLUMNS = [
    ("key", "text", True, "C"),
    ("maker", "uuid", True, None),
    ("created_at", "timestamp with time zone", True, None),
    ("body", "bytea", True, None),
]
# A logged table with this primary key. An unlogged one is empty after a crash.
_KIND = ("r", "p", ["key"], "C")


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """One statement.

    Attributes:
        sql: The text, with a `%s` for each value.
        values: The values.
        parse: Returns the result of the rows, or raises the error of the contract.
    """

    sql: str
    values: tuple[Any, ...]
    parse: Callable[[Rows], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRights:
    """The rights of a role, beside reading everything.

    Attributes:
        role: The name of the role. It must exist.
        name: A short name of these rights; a later `migrate` replaces those of the
            same name.
        creates: Regular expressions of the keys that it may create.
        deletes: Regular expressions of the keys that it may delete.
        shares: Regular expressions of the names of ephemeral values that it may set.
    """

    role: str
    name: str
    creates: Sequence[str]
    deletes: Sequence[str]
    shares: Sequence[str] = ()


class ObjectTable:
    """The statements about one table, `SCHEMA.objects`.

    Args:
        schema: The name of the schema.
        watched_prefixes: A create of a key with one of them notifies its channel.

    Attributes:
        ephemeral_name: The table of ephemeral values, `SCHEMA.ephemeral`.
    """

    def __init__(self, schema: str, watched_prefixes: Sequence[str] = ()) -> None:
        self.schema = schema
        self._watched_prefixes = watched_prefixes
        self._name = f"{_quoted(schema)}.objects"
        self.ephemeral_name = f"{_quoted(schema)}.ephemeral"

    # The verbs --------------------------------------------------------------------

    def create(
        self, key: str, body: bytes, maker: str, *, is_patient: bool = False
    ) -> Statement[datetime]:
        """Put a body if the key is absent; raises `AlreadyExists`.

        `maker` has 32 hexadecimal digits. The commit of the transaction is flushed also
        where the default of the server or the role is not to flush.

        If another transaction puts the same key and is open, only a patient statement
        waits for its end. In a transaction of an application, a limit would stay.
        """
        channels = self._channels_of(key)
        notify = _NOTIFY * len(channels)
        limit = "" if is_patient else _LIMIT_WAITING
        source = "" if is_patient else " FROM limited"
        sql = f"""\
{limit}INSERT INTO {self._name} (key, maker, created_at, body)
SELECT %s::text, %s::uuid, clock_timestamp(), %s::bytea{source}
ON CONFLICT (key) DO NOTHING
RETURNING {_MICROSECONDS.format("created_at")},
    CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END{notify}"""

        return Statement(sql, (key, maker, body, *channels), _created)

    def create_together(self, changes: Changes, maker: str) -> Statement[datetime]:
        """Put the bodies of changes; raises `AlreadyExists`; see `create`.

        The server compares its time with those of the changes. If it is not between
        them, the only row has no time, and the error is `OutOfTime`.
        """
        also, between = changes.also, changes.between or ()
        channels = self._channels_of(changes.key, *also)
        checked, condition, otherwise = "", "", ""
        if between:
            checked = ", checked AS (SELECT clock_timestamp() BETWEEN %s AND %s AS ok)"
            condition = ", checked WHERE ok"
            no_row = ", ".join(["NULL"] * (1 + len(channels)))
            otherwise = f"\nUNION ALL SELECT {no_row} FROM checked WHERE NOT ok"  # noqa: S608
        sql = f"""\
{_LIMIT_WAITING}{checked}, first AS (
    INSERT INTO {self._name} (key, maker, created_at, body)
    SELECT %s::text, %s::uuid, clock_timestamp(), %s::bytea FROM limited{condition}
    ON CONFLICT (key) DO NOTHING
    RETURNING maker, created_at,
        CASE current_setting('synchronous_commit')
        WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END
){self._with_others() if also else ""}
SELECT {_MICROSECONDS.format("created_at")}{_NOTIFY * len(channels)}
FROM first{otherwise}"""  # noqa: S608
        others = (list(also), list(also.values())) if also else ()
        values = (*between, changes.key, maker, changes.body, *others, *channels)
        return Statement(sql, values, _created)

    def _with_others(self) -> str:
        """Return the part of a statement that puts further bodies after the first.

        A key that exists is left out at once. Otherwise the statement would wait for
        an open transaction that deletes it. In one order, no two statements wait for
        each other.
        """
        return f""", others AS (
    INSERT INTO {self._name} (key, maker, created_at, body)
    SELECT other.key, maker, created_at, other.body
    FROM first, unnest(%s::text[], %s::bytea[]) AS other (key, body)
    WHERE NOT EXISTS (SELECT FROM {self._name} AS old WHERE old.key = other.key)
    ORDER BY other.key
    ON CONFLICT (key) DO NOTHING
)"""  # noqa: S608

    def steps_after(
        self, changes: Changes, maker: str
    ) -> list[Statement[Page] | Statement[bool]]:
        """Return the listing and the deletes that follow the creates of changes."""
        steps: list[Statement[Page] | Statement[bool]] = []
        if changes.listing is not None:
            steps.append(self.list_keys(changes.listing))
        if changes.deletes:
            steps.append(self._clean(changes, maker))
        return steps

    def _clean(self, changes: Changes, maker: str) -> Statement[bool]:
        """Remove the keys of changes that were made; return whether they are removed.

        The server does not flush these deletes before it answers.
        """
        name, condition = self._name, "key = %s AND maker = %s::uuid"
        sql = f"""\
{_LIMIT_WAITING}, made AS (
    SELECT FROM {name}, limited WHERE {condition} AND NOT EXISTS (
        SELECT FROM {name} WHERE key >= %s AND key < %s
    )
), deleted AS (
    DELETE FROM {name} USING made WHERE key = ANY (%s::text[])
    RETURNING set_config('synchronous_commit', 'off', true)
)
SELECT EXISTS (SELECT FROM made) AND (SELECT count(*) FROM deleted) = (
    SELECT count(*) FROM {name} WHERE key = ANY (%s::text[])
)"""  # noqa: S608
        first = changes.only_if_first or changes.key
        keys = list(changes.deletes)
        values = (changes.key, maker, first, changes.key, keys, keys)
        return Statement(sql, values, lambda rows: bool(rows[0][0]))

    def _channels_of(self, *keys: str) -> list[str]:
        return [
            self.channel(prefix)
            for prefix in self._watched_prefixes
            if any(
                key.startswith(prefix) and "/" not in key[len(prefix) :] for key in keys
            )
        ]

    def channel(self, prefix: str) -> str:
        """Return the channel that tells of the creates of a prefix.

        Another schema of the database has other channels.
        """
        name = hashlib.sha256(f"{self.schema}/{prefix}".encode()).hexdigest()
        return f"continuations_{name[:32]}"

    def describe(self, key: str) -> Statement[StoredObjectInfo]:
        """Return who made the object of a key, and when; raises `NotFound`."""
        columns = f"replace(maker::text, '-', ''), {_MICROSECONDS.format('created_at')}"
        sql = self._select(columns, "key = %s")

        def parse(rows: Rows) -> StoredObjectInfo:
            [(maker, microseconds)] = _checked(rows)
            if maker is None:
                raise NotFound(key)
            return StoredObjectInfo(
                maker_id=maker, store_time=_time(microseconds), version_id=None
            )

        return Statement(sql, (key,), parse)

    def read(self, key: str) -> Statement[bytes]:
        """Return the body of a key; raises `NotFound`."""

        def parse(rows: Rows) -> bytes:
            [(body,)] = _checked(rows)
            if body is None:
                raise NotFound(key)
            return bytes(body)

        return Statement(self._select("body", "key = %s"), (key,), parse)

    def read_many(self, keys: Sequence[str]) -> Statement[list[bytes | None]]:
        """Return the body of each key, or None."""

        def parse(rows: Rows) -> list[bytes | None]:
            bodies = {key: bytes(body) for key, body in _checked(rows) if key}
            return [bodies.get(key) for key in keys]

        sql = self._select("key, body", "key = ANY (%s::text[])")
        return Statement(sql, (list(keys),), parse)

    def list_with_bodies(
        self, listing: Listing, first_of: str, last_of: str
    ) -> Statement[Page]:
        """Return a page as `list_keys`, with the bodies of two keys."""
        listed = self.list_keys(listing)
        parts = [self._read_end(order) for order in ("ASC", "DESC")]
        sql = f"""\
SELECT * FROM ({listed.sql}) AS listed
LEFT JOIN LATERAL ({parts[0]}) AS first ON true
LEFT JOIN LATERAL ({parts[1]}) AS last ON length(last.body) <= {_MAX_SMALL}"""  # noqa: S608

        def parse(rows: Rows) -> Page:
            [(*of_listing, first, first_body, last, last_body)] = rows
            page = listed.parse([tuple(of_listing)])
            found = ((first, first_body), (last, last_body))
            page.bodies = {key: bytes(body) for key, body in found if key}
            return page

        ends = (each for prefix in (first_of, last_of) for each in _range(prefix))
        return Statement(sql, (*listed.values, *ends), parse)

    def _read_end(self, order: str) -> str:
        return f"""\
SELECT key, body FROM {self._name}
WHERE key >= %s AND key < %s ORDER BY key {order} LIMIT 1"""  # noqa: S608

    def list_keys(self, listing: Listing) -> Statement[Page]:
        """Return a page of keys in byte order, with the time of the database."""
        sql = f"""\
SELECT pg_is_in_recovery(), {_MICROSECONDS.format("clock_timestamp()")}, ARRAY(
    SELECT key FROM {self._name}
    WHERE key >= %s AND key > %s AND key < %s ORDER BY key LIMIT %s
)"""  # noqa: S608

        def parse(rows: Rows) -> Page:
            [(microseconds, keys)] = _checked(rows)
            page = Page(keys)
            page.store_time = _time(microseconds)
            return page

        prefix, after = listing.prefix, _comparable(listing.after)
        limit = min(listing.limit, _MAX_LIMIT)
        values = (prefix, after, f"{prefix}{_AFTER_KEYS}", limit)
        return Statement(sql, values, parse)

    def delete(self, key: str, *, is_flushed: bool = True) -> Statement[bool]:
        """Remove a key; return False if a policy of the table may have kept it.

        Without a flush, the key may exist again after a power cut. In a transaction of
        an application, the flush must stay.
        """
        flush = "" if is_flushed else "set_config('synchronous_commit', 'off', true)"
        sql = f"""\
WITH deleted AS (DELETE FROM {self._name} WHERE key = %s RETURNING {flush or 1})
SELECT (SELECT count(*) FROM deleted) > 0
    OR NOT EXISTS (SELECT FROM {self._name} WHERE key = %s)"""  # noqa: S608
        return Statement(sql, (key, key), lambda rows: bool(rows[0][0]))

    def _select(self, columns: str, condition: str) -> str:
        return f"""\
SELECT pg_is_in_recovery(), {columns}
FROM (SELECT) AS reply LEFT JOIN {self._name} ON {condition}"""  # noqa: S608

    # The table --------------------------------------------------------------------

    def check(self) -> Statement[bool]:
        """Return whether the table exists; raises `Unsafe` if it is another one."""
        sql = """\
SELECT pg_is_in_recovery(), relkind::text, relpersistence::text,
    ARRAY(
        SELECT attname::text FROM pg_attribute
        WHERE attrelid = indrelid AND attnum = ANY (indkey)
    ),
    (SELECT collname::text FROM pg_collation WHERE oid = indcollation[0]),
    attname::text, format_type(atttypid, atttypmod), attnotnull,
    (SELECT collname::text FROM pg_collation WHERE oid = attcollation)
FROM (SELECT) AS reply
LEFT JOIN pg_class ON pg_class.oid = to_regclass(%s)
LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
LEFT JOIN pg_index ON indrelid = pg_class.oid AND indisprimary
ORDER BY attnum"""

        def parse(rows: Rows) -> bool:
            found = _checked(rows)
            if found[0][0] is None:
                return False
            if found != [(*_KIND, *column) for column in _COLUMNS]:
                detail = format_detail(f"{self._name} has another form", _OTHER_TABLE)
                raise AttemptFailed(_OTHER_TABLE, detail)
            return True

        return Statement(sql, (self._name,), parse)

    def database(self) -> Statement[str]:
        """Return the name of the database."""
        return Statement(
            "SELECT current_database()::text", (), lambda rows: str(rows[0][0])
        )

    def has_schema(self) -> Statement[bool]:
        """Return whether the schema exists."""
        sql = "SELECT to_regnamespace(%s) IS NOT NULL"
        return Statement(sql, (_quoted(self.schema),), lambda rows: bool(rows[0][0]))

    def has_ephemeral(self) -> Statement[bool]:
        """Return whether the table of ephemeral values exists."""
        sql = "SELECT to_regclass(%s) IS NOT NULL"
        return Statement(sql, (self.ephemeral_name,), lambda rows: bool(rows[0][0]))

    def limit_waiting(self) -> str:
        """Return the statement that gives up a lock that others hold for long.

        While a statement waits for the lock of a table, all others wait behind it.
        """
        return "SET LOCAL lock_timeout = '3s';"

    def lock(self) -> str:
        """Return the statement that lets one `migrate` at a time go on."""
        return "SELECT pg_advisory_xact_lock(7814912);"  # any number, always the same

    def make_schema(self) -> str:
        """Return the statement that makes the schema."""
        return f"CREATE SCHEMA IF NOT EXISTS {_quoted(self.schema)};"

    def make(self) -> str:
        """Return the statements that make the table."""
        return f"""\
CREATE TABLE IF NOT EXISTS {self._name} (
    key text COLLATE "C" PRIMARY KEY,
    maker uuid NOT NULL,
    created_at timestamptz NOT NULL,
    body bytea NOT NULL
);
-- Bodies are compressed already.
ALTER TABLE {self._name} ALTER COLUMN body SET STORAGE EXTERNAL;"""

    def make_ephemeral(self) -> str:
        """Return the statement that makes the table of ephemeral values."""
        return f"""\
CREATE UNLOGGED TABLE IF NOT EXISTS {self.ephemeral_name} (
    name text COLLATE "C" PRIMARY KEY,
    ends_at timestamptz NOT NULL,
    value bytea NOT NULL
);"""

    def give(self, rights: Sequence[RoleRights]) -> str:
        """Return the statements that give rights to roles.

        The owner of the table keeps all rights. Each role that may read the table reads
        all rows: a role that saw only some of them would take the others for missing.
        """
        if not rights:
            return ""
        objects, ephemeral = self._name, self.ephemeral_name
        lines: list[str] = []
        for table in (objects, ephemeral):
            lines.append(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;")
            lines += _policy("continuations_read", table, "FOR SELECT USING (true)")
        for each in rights:
            role, policy = _quoted(each.role), f"continuations_{each.name}"
            creates, deletes = (
                _condition("key", patterns) for patterns in (each.creates, each.deletes)
            )
            lines += [
                f"GRANT USAGE ON SCHEMA {_quoted(self.schema)} TO {role};",
                f"GRANT SELECT, INSERT, DELETE ON {objects} TO {role};",
                *_policy(
                    *(f"{policy}_creates", objects),
                    f"FOR INSERT TO {role}\n    WITH CHECK {creates}",
                ),
                *_policy(
                    *(f"{policy}_deletes", objects),
                    f"FOR DELETE TO {role}\n    USING {deletes}",
                ),
            ]
            if each.shares:
                shares = _condition("name", each.shares)
                rule = f"TO {role}\n    USING {shares} WITH CHECK {shares}"
                lines += [
                    f"GRANT SELECT, INSERT, UPDATE, DELETE ON {ephemeral} TO {role};",
                    *_policy(f"{policy}_shares", ephemeral, rule),
                ]
        return "\n".join(lines)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _policy(name: str, table: str, rule: str) -> list[str]:
    return [
        f"DROP POLICY IF EXISTS {name} ON {table};",
        f"CREATE POLICY {name} ON {table} {rule};",
    ]


def _condition(column: str, patterns: Sequence[str]) -> str:
    texts = (each.replace("'", "''") for each in patterns)
    return f"({column} ~ '{'|'.join(texts)}')"


def _range(prefix: str) -> tuple[str, str]:
    """Return the limits of the keys with a prefix; no key is in those of ""."""
    return prefix, f"{prefix}{_AFTER_KEYS}" if prefix else ""


def _comparable(after: str) -> str:
    """Return a text that Postgres can hold, and that sorts alike among valid keys."""
    found = _NOT_IN_KEYS.search(after)
    if found is None:
        return after
    return after[: found.start()] + ("" if found[0][0] == "\0" else _AFTER_KEYS)


def _created(rows: Rows) -> datetime:
    if not rows:
        raise AttemptFailed(_TAKEN, "")
    if rows[0][0] is None:
        raise AttemptFailed(_OUT_OF_TIME, "")
    return _time(rows[0][0])


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _checked(rows: Rows) -> Rows:
    """Return the rows without their first column, which tells a standby."""
    if rows[0][0]:
        raise AttemptFailed(
            _STANDBY, format_detail("the server is a standby", _STANDBY)
        )
    return [row[1:] for row in rows]


# The verbs that are one statement ------------------------------------------------


class TableVerbs(ABC):
    """The verbs of a store that are one statement in each kind of transaction."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    @property
    @abstractmethod
    def place(self) -> str:
        """The host and the database, as errors name them."""

    @abstractmethod
    async def _run(
        self, operation: Operation, key: str | None, statement: Statement[T]
    ) -> T:
        """Send a statement; raises a `StorageError` that names the place."""

    async def created_at(self, key: str) -> datetime | None:
        """Return the time of the create of a key, or raise `NotFound`.

        Args:
            key: A valid key.

        Returns:
            The time that `create` returned.

        Raises:
            StorageError: As `Store.read` states.
        """
        check_key(key)
        created = await self._run("read", key, self._table.describe(key))
        return created.store_time

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise `NotFound`; see `Store.read`."""
        check_key(key)
        return await self._run("read", key, self._table.read(key))

    async def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bodies of several keys, in one round trip.

        Args:
            keys: Valid keys.

        Returns:
            For each key the whole body, or None if the key does not exist.

        Raises:
            StorageError: As `Store.read` states.
        """
        for key in keys:
            check_key(key)
        return await self._run("read", None, self._table.read_many(keys))

    async def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> Page:
        """Return the first keys of a prefix, in byte order; see `Store.keys`.

        The page has the time of the database.
        """
        check_prefix(prefix)
        check_limit(limit)
        statement = self._table.list_keys(Listing(prefix, after, limit))
        return await self._run("list", prefix or None, statement)

    async def keys_with_bodies(
        self, listing: Listing, first_of: str, last_of: str = ""
    ) -> Page:
        """Return keys and two bodies, in one round trip.

        Args:
            listing: The keys to list.
            first_of: A prefix. The body of its first key is read.
            last_of: A prefix. The body of its last key is read, if it is small.

        Returns:
            The keys, with the time of the database and the bodies.

        Raises:
            StorageError: As `Store.keys` states.
        """
        check_limit(listing.limit)
        for prefix in (listing.prefix, first_of, last_of):
            check_prefix(prefix)
        statement = self._table.list_with_bodies(listing, first_of, last_of)
        return await self._run("list", listing.prefix or None, statement)

    async def _delete(self, key: str, *, is_flushed: bool) -> None:
        check_key(key)
        statement = self._table.delete(key, is_flushed=is_flushed)
        if await self._run("delete", key, statement):
            return
        # Another process may have deleted it meanwhile.
        [body] = await self._run("delete", key, self._table.read_many([key]))
        if body is not None:
            detail = "a policy of the table keeps this key from being deleted"
            error = Denied(key, f"{detail} by this role")
            error.locate("delete", self.place)
            raise error


# Errors -------------------------------------------------------------------------

_MIGRATE = "run `continuations migrate --store URL` once"
_PRIMARY = "name the primary in the URL, or add target_session_attrs=primary"
_SQLSTATE_CLASS = 2

_TAKEN = ErrorRule(AlreadyExists)
_OUT_OF_TIME = ErrorRule(OutOfTime)
_STANDBY = ErrorRule(Unavailable, retry=True, hint=_PRIMARY)
_OTHER_TABLE = ErrorRule(
    Unsafe, hint="name another schema with ?schema=; this table was not changed"
)
_LOST = ErrorRule(Unavailable, retry=True, may_be_stored=True)
NOT_SENT = ErrorRule(Unavailable, retry=True)
_NOT_PERMITTED = ErrorRule(
    Denied,
    hint="the owner of the table gives rights with `continuations migrate`, and needs "
    "GRANT CREATE ON DATABASE to make the table",
)
_NO_LOGIN = ErrorRule(Denied, hint="check user, password, pg_hba.conf and sslmode")
_WRONG_PARAMETER = ErrorRule(Unavailable, hint="correct this parameter of the URL")
_NO_DATABASE = ErrorRule(Unavailable, hint="create the database, or name another one")
_NO_TABLE = ErrorRule(Unavailable, hint=_MIGRATE)
_TOO_MANY = ErrorRule(Throttled, retry=True)

# By SQLSTATE, or its first two characters. The server reports an error after it rolled
# the transaction back; only a connection that ends leaves a doubt.
_RULES: Mapping[str, ErrorRule] = {
    "08": _LOST,
    "0A000": NOT_SENT,  # the plan of a statement does not fit a table that was changed
    "40": NOT_SENT,  # a deadlock, or a conflict of serializable transactions
    "40003": _LOST,
    "55P03": ErrorRule(
        Unavailable, hint="another transaction is open that writes the same; try later"
    ),
    "57014": NOT_SENT,  # a timeout of the server, or a cancellation by an operator
    "57P01": _LOST,
    "57P02": _LOST,
    "57P03": NOT_SENT,
    "57P05": _LOST,
    "53": NOT_SENT,
    "53100": ErrorRule(Unavailable, hint="the disk of the server is full"),
    "53300": _TOO_MANY,
    "25006": ErrorRule(Denied, retry=True, hint=f"it is read-only; {_PRIMARY}"),
    "28": _NO_LOGIN,
    "42501": _NOT_PERMITTED,
    "3D000": _NO_DATABASE,
    "3F000": _NO_TABLE,
    "42P01": _NO_TABLE,
    "42704": ErrorRule(Unavailable, hint="create the role with CREATE ROLE"),
    "42": _OTHER_TABLE,
    "XX001": ErrorRule(Damaged),
    "XX002": ErrorRule(Damaged),
}
# A server that refuses a connection tells no SQLSTATE to libpq.
_REFUSALS: Sequence[tuple[str, ErrorRule]] = (
    ("too many |connection slots|no more connections", _TOO_MANY),
    ('database ".*" does not exist|no such database', _NO_DATABASE),
    ("invalid \\w+ value|bad value for", _WRONG_PARAMETER),
    ("authentication failed|no password supplied|pg_hba|no such user", _NO_LOGIN),
    ("role .* does not exist|permission denied|not permitted to log in", _NO_LOGIN),
    ("certificate|does not support SSL|root\\.crt", _NO_LOGIN),
)


def failure_of(error: Exception, *, is_sent: bool) -> AttemptFailed:
    """Return the failure of an attempt for an error of psycopg.

    Args:
        error: The error. One of another package is not tried again.
        is_sent: Whether the statement may have been sent.
    """
    state: str = getattr(error, "sqlstate", None) or ""
    # The details of a server may quote a row with its body.
    reply = getattr(error, "diag", None)
    message = getattr(reply, "message_primary", None)
    text = f"{state}: {message}" if message else str(error)
    # Whether the connection has ended, and not only the transaction.
    has_ended = getattr(reply, "severity_nonlocalized", None) in {"FATAL", "PANIC"}
    rule = _RULES.get(state) or _RULES.get(state[:_SQLSTATE_CLASS])
    if rule is None and (state or not hasattr(error, "sqlstate")):
        rule = ErrorRule(Unavailable, may_be_stored=not state)
    if rule is None:
        refusals = (rule for words, rule in _REFUSALS if re.search(words, text))
        rule = _LOST if is_sent else next(refusals, NOT_SENT)
    return AttemptFailed(
        rule,
        format_detail(text, rule),
        may_be_stored=is_sent and (rule.may_be_stored or has_ended),
    )
