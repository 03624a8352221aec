"""The Postgres store passes the conformance suite, also behind PgBouncer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from continuations_storage import Store, open_store
from continuations_storage.conformance import SharedStoreContract
from tests.postgres_server import PostgresServer
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
