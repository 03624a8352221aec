"""The Postgres store passes the conformance suite, also behind PgBouncer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import psycopg
import pytest

from continuations_storage import Store, open_store
from continuations_storage.conformance import SharedStoreContract, StoreContract
from continuations_storage.postgres import PostgresStore
from tests.postgres_server import OWNER, PostgresServer
from tests.sampling import RUNS_ALL_CASES


class TestPostgresStore(SharedStoreContract):
    rounds = 100 if RUNS_ALL_CASES else 10

    @pytest.fixture(autouse=True)
    def place(self, postgres: PostgresServer) -> None:
        self.new_url = postgres.new_url

    def opener(self) -> Callable[[], Store]:
        watched = ("m/", "m/0-", "race/")
        return partial(open_store, self.new_url(), watched_prefixes=watched)


class TestPostgresStoreBehindPgBouncer(SharedStoreContract):
    """In transaction mode, each statement may go to another connection."""

    rounds = 100 if RUNS_ALL_CASES else 5

    @pytest.fixture(autouse=True)
    def place(self, postgres: PostgresServer, bouncer: int) -> None:
        self.new_url = partial(postgres.new_url, bouncer)

    def opener(self) -> Callable[[], Store]:
        return partial(open_store, self.new_url())


class TestWithinATransaction(StoreContract):
    """One open transaction of an application sees its own objects."""

    @pytest.fixture(autouse=True)
    def _connections(self, postgres: PostgresServer) -> Iterator[None]:
        self.server = postgres
        with ExitStack() as self.opened:
            yield

    def make(self) -> Store:
        """Return an empty store in a new transaction."""
        store = PostgresStore(self.server.new_url())
        url = self.server.url(OWNER)
        connection = self.opened.enter_context(psycopg.connect(url))
        return store.within(connection)

    def test_probe_passes_and_is_recorded(self) -> None:
        """The store itself makes the proof, with transactions of its own."""
        store = self.make()

        asyncio.run(store.probe())

        assert [] == asyncio.run(store.keys(""))
