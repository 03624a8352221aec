"""The servers of databases: without one of them, CI would leave tests out."""

from __future__ import annotations

import os

import pytest

from tests import postgres_server


def test_ci_has_postgres() -> None:
    """On another machine, the tests on a missing server are left out."""
    assert not (os.environ.get("CI") and "Postgres" in postgres_server.missing())


def test_missing_server_is_named_with_its_fixtures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(postgres_server, "_program", nothing)

    assert {
        "Postgres": ("postgres", "durable_postgres", "bouncer"),
        "PgBouncer": ("bouncer",),
    } == postgres_server.missing()
