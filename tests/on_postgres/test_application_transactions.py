"""Decisions, runs and events in the open transaction of an application."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    tool,
    wait_for,
)
from continuations.errors import (
    AlreadyDecided,
    InvalidInput,
    RunNotFound,
    StoreUnavailable,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from continuations_storage.postgres import PostgresStore
from tests import effect_log
from tests.postgres_server import ADMIN, OWNER, PostgresServer, run_bouncer

ORDERS = "CREATE TABLE orders (id text, state text)"
INSERT = "INSERT INTO orders VALUES ('o1', 'paid')"


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay an amount."""
    effect_log.append_effect("pay", cents)
    return f"Paid {cents}."


@tool(approval=ApprovalPolicy(approvers=["kim", "lee"], votes=2))
def pay_much(cents: int) -> str:
    """Pay a large amount."""
    effect_log.append_effect("pay_much", cents)
    return f"Paid {cents}."


@tool
def receipt() -> Any:
    """Wait for a receipt."""
    return wait_for("receipt", str, key="o1")


def make_agent(tool_name: str = "pay", name: str = "payer") -> Agent:
    """Return an agent that calls one tool."""
    arguments = {} if tool_name == "receipt" else {"cents": 500}
    model = ScriptedModel([ToolCall(tool_name, arguments), "Done."])
    return Agent(name, tools=[pay, pay_much, receipt], model=model)


class Shop:
    """An application with a table of orders and a store, in one database."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.url = server.new_url()
        self.runner = Runner(make_agent(), store=self.url)
        with self.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS orders")
            connection.execute(ORDERS)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Open a connection of the application."""
        return psycopg.connect(self.server.url(OWNER), **options)

    def orders(self) -> list[str]:
        """Return the states of all orders that are committed."""
        with self.connect() as connection:
            return [row[0] for row in connection.execute("SELECT state FROM orders")]

    def waiting_run(self, run_id: str = "r1") -> str:
        """Start a run, and return the id of its wait."""
        outcome = self.runner.start("go", run_id=run_id)
        assert isinstance(outcome, Suspended)
        return outcome.waits[0].id


@pytest.fixture
def shop(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    """Return an empty shop, whose effects are counted."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    return Shop(postgres)


def test_decision_and_row_are_committed_together(shop: Shop) -> None:
    """Other processes see the decision after the commit, and then a sweep goes on."""
    wait = shop.waiting_run()
    with shop.connect() as connection:
        shop.runner.decide(wait, Approve(by="kim"), connection=connection)
        connection.execute(INSERT)
        assert [wait] == [each.id for each in shop.runner.waiting()]
        assert () == shop.runner.sweep().resumed
        assert [] == shop.orders()

    [ended] = shop.runner.sweep().resumed

    assert isinstance(ended, Finished)
    assert ["paid"] == shop.orders()
    assert ["pay 500"] == effect_log.names()


@pytest.mark.parametrize("how", ["rollback", "error", "lost connection", "savepoint"])
def test_a_transaction_that_is_not_committed_leaves_nothing(
    shop: Shop, how: str
) -> None:
    """The wait stays open, and another decision counts."""
    wait = shop.waiting_run()
    with suppress(ZeroDivisionError, psycopg.Error), shop.connect() as connection:
        if how == "savepoint":
            with suppress(ZeroDivisionError), connection.transaction():
                shop.runner.decide(wait, Approve(by="kim"), connection=connection)
                raise ZeroDivisionError
        else:
            shop.runner.decide(wait, Approve(by="kim"), connection=connection)
            connection.execute(INSERT)
        if how == "rollback":
            connection.rollback()
        elif how == "error":
            raise ZeroDivisionError
        elif how == "lost connection":
            shop.server.terminate_others("state LIKE 'idle in transaction%'")

    assert [] == shop.orders()
    assert () == shop.runner.sweep().resumed
    shop.runner.decide(wait, Deny(by="lee"))
    assert isinstance(shop.runner.resume("r1"), Finished)
    assert [] == effect_log.names()


def test_run_exists_with_the_order_or_not_at_all(shop: Shop) -> None:
    """No worker sees the run before the commit."""
    for commits in (False, True):
        with shop.connect() as connection:
            started = shop.runner.start(
                "go", run_id="r1", work=False, connection=connection
            )
            assert isinstance(started, Suspended)
            assert started.paused
            again = shop.runner.start(
                "go", run_id="r1", work=False, connection=connection
            )
            assert "r1" == again.run_id
            connection.execute(INSERT)
            with pytest.raises(RunNotFound):
                shop.runner.look("r1")
            assert () == shop.runner.sweep().resumed
            if not commits:
                connection.rollback()

    [waiting] = shop.runner.sweep().resumed

    assert isinstance(waiting, Suspended)
    assert ["paid"] == shop.orders()


def test_event_is_published_with_the_commit(shop: Shop) -> None:
    """A run that waits for it takes it after the commit only."""
    runner = Runner(make_agent("receipt"), store=shop.url)
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    for commits in (False, True):
        with shop.connect() as connection:
            published = runner.publish(
                "receipt", "receipt 7", key="o1", id="e1", connection=connection
            )
            assert ("r1",) == tuple(published.run_ids)
            assert () == runner.sweep().resumed
            if not commits:
                connection.rollback()

    [ended] = runner.sweep().resumed

    assert isinstance(ended, Finished)
    assert "receipt 7" in str(ended.continuation.root.messages)


def test_event_reaches_a_run_that_began_to_wait_before_the_commit(shop: Shop) -> None:
    """That run could not see the event, and the publisher did not see the run."""
    runner = Runner(make_agent("receipt"), store=shop.url)
    with shop.connect() as connection:
        runner.publish("receipt", "receipt 7", key="o1", connection=connection)
        assert isinstance(runner.start("go", run_id="r1"), Suspended)

    runner.sweep()

    assert "finished" == runner.look("r1").status


def test_transaction_that_fails_in_a_step_that_ignores_errors(shop: Shop) -> None:
    """Its commit would be a rollback without an error."""
    wait = shop.waiting_run()
    schema = shop.url.rpartition("=")[2]
    with shop.connect() as other, shop.connect() as connection:
        lock = f"SELECT FROM {schema}.objects WHERE key = %s FOR UPDATE"
        other.execute(lock.encode(), [f"waits/{wait}"])
        connection.execute("SET LOCAL lock_timeout = '50ms'")
        with pytest.raises(StoreUnavailable, match="Roll back the transaction"):
            shop.runner.decide(wait, Approve(by="kim"), connection=connection)
        connection.rollback()
    assert [wait] == [each.id for each in shop.runner.waiting()]


def test_decision_beside_an_open_transaction_gives_up_soon(shop: Shop) -> None:
    """It is repeated after the commit, and then knows who was first."""
    wait = shop.waiting_run()
    with shop.connect() as connection:
        shop.runner.decide(wait, Approve(by="kim"), connection=connection)
        with pytest.raises(StoreUnavailable, match="another transaction is open"):
            shop.runner.decide(wait, Deny(by="lee"))
    with pytest.raises(AlreadyDecided):
        shop.runner.decide(wait, Deny(by="lee"))


def test_open_transaction_of_a_publisher_stops_no_other_run(shop: Shop) -> None:
    """A sweep that cannot deliver an event now still continues the decided runs."""
    runner = Runner([make_agent("receipt"), make_agent(name="other")], store=shop.url)
    runner.start("go", run_id="r1", agent="payer")
    other = runner.start("go", run_id="r2", agent="other")
    assert isinstance(other, Suspended)
    with shop.connect() as connection:
        runner.publish("receipt", "receipt 7", key="o1", connection=connection)
        with pytest.raises(StoreUnavailable, match="another transaction is open"):
            runner.publish("receipt", "receipt 8", key="o1")
        runner.decide(other.waits[0].id, Approve(by="kim"))

        [ended] = runner.sweep().resumed

        assert "r2" == ended.run_id
    assert ["pay 500"] == effect_log.names()
    runner.sweep()
    assert "finished" == runner.look("r1").status


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor])
def test_cursors_of_the_application_do_not_matter(shop: Shop, factory: Any) -> None:
    """Django has cursors that put values into the text of a statement."""
    wait = shop.waiting_run()
    with shop.connect(cursor_factory=factory) as connection:
        shop.runner.decide(wait, Approve(by="kim"), connection=connection)

    assert isinstance(shop.runner.resume("r1"), Finished)


def test_two_transactions_decide_one_wait(shop: Shop) -> None:
    """The second one waits for the end of the first, and then knows who was first."""
    wait, other = shop.waiting_run("r1"), shop.waiting_run("r2")
    results: list[object] = []

    def decide(wait_id: str) -> None:
        try:
            with shop.connect() as connection:
                decided = shop.runner.decide(
                    wait_id, Deny(by="lee"), connection=connection
                )
                results.append(decided.by)
        except AlreadyDecided as error:
            results.append(error)

    for wait_id, commits in ((wait, True), (other, False)):
        with shop.connect() as connection:
            shop.runner.decide(wait_id, Approve(by="kim"), connection=connection)
            second = threading.Thread(target=decide, args=[wait_id])
            second.start()
            second.join(0.3)
            assert second.is_alive()
            if not commits:
                connection.rollback()
        second.join(60)
        assert not second.is_alive()

    refused, by = results
    assert isinstance(refused, AlreadyDecided)
    assert "lee" == by


def test_votes_of_two_transactions_end_the_wait(shop: Shop) -> None:
    """A vote that was rolled back does not count."""
    runner = Runner(make_agent("pay_much"), store=shop.url)
    outcome = runner.start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    for name, commits in (("kim", False), ("kim", True), ("lee", True)):
        with shop.connect() as connection:
            runner.decide(wait.id, Approve(by=name), connection=connection)
            if not commits:
                connection.rollback()
        if name == "kim":
            assert isinstance(runner.resume("r1"), Suspended)

    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay_much 500"] == effect_log.names()


def test_async_connection_and_async_runner(shop: Shop) -> None:
    """The rows of the application may be dicts."""

    async def scenario() -> None:
        runner = AsyncRunner(make_agent(), store=shop.url)
        url = shop.server.url(OWNER)
        dicts: Any = dict_row
        connection: psycopg.AsyncConnection[Any]
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, row_factory=dicts
        )
        async with connection, connection.transaction():
            await runner.start("go", run_id="r1", work=False, connection=connection)
            await connection.execute(INSERT)
        outcome = await runner.resume("r1")
        assert isinstance(outcome, Suspended)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await asyncio.gather(
                *(
                    runner.decide(
                        outcome.waits[0].id, Approve(by="kim"), connection=connection
                    )
                    for _ in range(2)
                )
            )
        assert isinstance(await runner.resume("r1"), Finished)

    asyncio.run(scenario())

    assert ["paid"] == shop.orders()


def test_connection_through_pgbouncer(shop: Shop) -> None:
    """No statement needs the state of a session."""
    wait = shop.waiting_run()
    with run_bouncer(shop.server) as port:
        url = shop.server.url(OWNER, port=port)
        with psycopg.connect(url, prepare_threshold=None) as connection:
            shop.runner.decide(wait, Approve(by="kim"), connection=connection)
            connection.execute(INSERT)

    assert isinstance(shop.runner.resume("r1"), Finished)


def test_connections_that_cannot_take_a_write_are_refused(shop: Shop) -> None:
    """Each error says what to pass; nothing is recorded."""
    wait = shop.waiting_run()

    def error_of(connection: object, runner: Runner = shop.runner) -> str:
        with pytest.raises(InvalidInput) as refused:
            runner.decide(wait, Approve(by="kim"), connection=connection)
        return str(refused.value)

    with shop.connect(autocommit=True) as connection:
        assert "decide(connection=...) failed" in error_of(connection)
        assert "Use `with connection.transaction():`." in error_of(connection)
        with connection.transaction(force_rollback=True):
            shop.runner.decide(wait, Approve(by="kim"), connection=connection)
    assert "it is closed" in error_of(connection)
    with shop.connect(client_encoding="SQL_ASCII") as connection:
        assert "Set client_encoding to UTF8." in error_of(connection)
    with shop.connect() as connection:
        with suppress(psycopg.Error):
            connection.execute("SELECT 1/0")
        assert "its transaction has failed" in error_of(connection)
    with shop.connect() as connection:
        connection.read_only = True
        assert "its transaction is read-only" in error_of(connection)
    assert "must be a connection of psycopg 3, got str" in error_of(shop.url)
    other = shop.server.url(ADMIN).replace("/app", "/postgres")
    with psycopg.connect(other) as elsewhere:
        wrong = "connected to database postgres, and the runs are in app"
        assert wrong in error_of(elsewhere)
    memory = Runner([], store=MemoryStore())
    assert "MemoryStore has no transactions" in error_of(connection, memory)
    with pytest.raises(InvalidInput, match="work=False"):
        shop.runner.start("go", run_id="r2", connection=connection)
    assert [wait] == [each.id for each in shop.runner.waiting()]


def test_conflict_of_serializable_transactions_asks_to_repeat_all(shop: Shop) -> None:
    """The advice of the error works."""
    wait = shop.waiting_run()
    with shop.connect() as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM orders")  # it takes the snapshot
        shop.runner.decide(wait, Approve(by="lee"))
        with pytest.raises(StoreUnavailable, match="Roll back the transaction"):
            shop.runner.decide(wait, Deny(by="kim"), connection=connection)
        connection.rollback()
        with pytest.raises(AlreadyDecided):
            shop.runner.decide(wait, Deny(by="kim"), connection=connection)


def test_notices_are_sent_after_the_commit_only(shop: Shop) -> None:
    """A transaction that is rolled back sends none."""

    class Notices:
        def __init__(self) -> None:
            self.kinds: list[str] = []

        async def __call__(self, _wait: object) -> None:
            self.kinds.append("wait")

        async def on_notice(self, notice: Any) -> None:
            self.kinds.append(notice.type)

    notices = Notices()
    runner = Runner(make_agent(), store=shop.url, notify=notices)
    outcome = runner.start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    before = list(notices.kinds)
    for commits in (False, True):
        with shop.connect() as connection:
            runner.decide(outcome.waits[0].id, Approve(by="kim"), connection=connection)
            if not commits:
                connection.rollback()
        assert before == notices.kinds

    runner.resume("r1")

    assert ["wait.decided", "run.ended"] == notices.kinds[len(before) :]


_CHILD = """
import os, signal, sys
import psycopg
from continuations import Approve, Runner
url, store, wait, moment = sys.argv[1:]
with psycopg.connect(url) as connection:
    connection.execute("INSERT INTO orders VALUES ('o1', 'paid')")
    Runner([], store=store).decide(wait, Approve(by="kim"), connection=connection)
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    connection.commit()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_process_that_is_killed_around_its_commit(shop: Shop, moment: str) -> None:
    """Both rows exist, or neither."""
    wait = shop.waiting_run()
    arguments = [shop.server.url(OWNER), shop.url, wait, moment]

    killed = subprocess.run([sys.executable, "-c", _CHILD, *arguments], check=False)

    assert -signal.SIGKILL == killed.returncode
    ended = shop.runner.sweep().resumed
    assert (moment == "after") == bool(ended)
    assert shop.orders() == ["paid"] * len(ended)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """Yield the URL of a database with a store in the usual schema, and no orders."""
    url = postgres.url(OWNER)
    drop = "DROP TABLE IF EXISTS orders; DROP SCHEMA IF EXISTS continuations CASCADE"
    postgres.rows(drop, user=OWNER)
    postgres.rows(PostgresStore(url).migration(), user=OWNER)
    yield url
    postgres.rows(drop, user=OWNER)


def test_example_places_and_ships_an_order(database: str) -> None:
    """It runs as a program of its own."""
    example = Path(__file__).parents[2] / "examples" / "order_with_approval.py"
    done = subprocess.run(
        [sys.executable, str(example)],
        env={**os.environ, "DATABASE_URL": database},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "" == done.stderr
    assert "placed order 1; order 2 was rolled back with its run" in done.stdout
    assert "(1, 'a lamp', 'shipped')" in done.stdout
