"""The command `migrate`, and commands on a Postgres store."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from continuations_storage import Unavailable
from continuations_storage.postgres import PostgresStore
from continuations_storage.postgres_sql import RoleRights
from continuations_storage.retries import RetryPolicy
from tests.cli.command_line import RUNNERS, CommandLine
from tests.postgres_server import OWNER, PASSWORD, PostgresServer

APP = ("--app", f"{RUNNERS}:boss")
# The password, and the parts of it that a wrong reading of the URL would show.
SECRETS = (PASSWORD, "w@rd", "w%40rd", "pa%3A", "pa:ss")


def fresh_url(postgres: PostgresServer) -> str:
    """Return the URL of a store without a table."""
    return postgres.url(schema=f"fresh_{os.urandom(4).hex()}")


def place_of(url: str) -> str:
    """Return the URL of a store without its user."""
    return f"postgresql://{url.rpartition('@')[2]}"


def test_migrate_makes_the_table_for_the_first_run(
    cli: CommandLine, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh_url(postgres)
    monkeypatch.setenv("CONTINUATIONS_STORE", url)
    missing = cli("start", "go", "--run-id", "j1", *APP)
    assert 5 == missing.exit_code
    assert "run `continuations migrate --store URL` once" in missing.err

    made, again = cli("migrate"), cli("migrate", "--json")

    assert (0, [f"{place_of(url)} has its table now"]) == (made.exit_code, made.lines)
    assert {"store": place_of(url), "made": False} == json.loads(again.out)
    assert 0 == cli("start", "go", "--run-id", "j1", *APP).exit_code
    assert f"store: {place_of(url)}" in cli("doctor", "j1").lines


def test_printed_sql_is_enough(
    cli: CommandLine, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Printing does nothing; psql would run the same text."""
    url = fresh_url(postgres)
    monkeypatch.setenv("CONTINUATIONS_STORE", url)
    printed = cli("migrate", "--print")
    assert 5 == cli("runs").exit_code

    postgres.rows(printed.out, user=OWNER)

    assert 0 == cli("runs").exit_code
    as_json = json.loads(cli("migrate", "--print", "--json").out)
    assert printed.out.splitlines() == as_json["sql"].splitlines()


def test_roles_are_made_by_the_administrator(
    cli: CommandLine, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh_url(postgres)
    monkeypatch.setenv("CONTINUATIONS_STORE", url)
    roles = ("--decider-role", "The Deciders", "--worker-role", "workers")
    missing = cli("migrate", *roles)
    assert 5 == missing.exit_code
    assert 'role "The Deciders" does not exist; create the role' in missing.err
    assert 5 == cli("runs").exit_code, "a table was made in spite of the error"
    for name in ('"The Deciders"', "workers"):
        postgres.rows(f"CREATE ROLE {name}")
    try:
        assert 0 == cli("migrate", *roles).exit_code
        assert 0 == cli("migrate", *roles).exit_code
        postgres.rows(cli("migrate", "--print", *roles).out, user=OWNER)
        policies = "SELECT policyname FROM pg_policies WHERE schemaname = %s"
        # Five for objects, and three for ephemeral values.
        assert 8 == len(postgres.rows(policies, url.rpartition("=")[2]))
    finally:
        for name in ('"The Deciders"', "workers"):
            postgres.rows(f"DROP OWNED BY {name}")
            postgres.rows(f"DROP ROLE {name}")


def test_other_stores_need_no_migration(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("memory:", f"sqlite:{cli.folder}/runs.db"):
        monkeypatch.setenv("CONTINUATIONS_STORE", url)
        for options in ([], ["--print"]):
            result = cli("migrate", *options)
            assert (0, [f"{url} needs no migration"]) == (
                result.exit_code,
                result.lines,
            )
    assert not (cli.folder / "runs.db").exists()


def test_no_command_prints_the_password(
    cli: CommandLine, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command that it prints has the URL without it, and works."""
    url = postgres.new_url()
    monkeypatch.delenv("CONTINUATIONS_STORE")
    store, other = ("--store", url), (f"--store={url}",)
    shown = (
        f"--store '{url.replace(url[len('postgresql://owner') : url.rindex('@')], '')}'"
    )

    started = cli("start", "go", "--run-id", "j1", *APP, *store)
    outputs = [
        started,
        *(
            cli(*words, *options)
            for words in (
                ("waiting",),
                ("show", "j1"),
                ("doctor", "j1"),
                ("runs",),
                ("show", "missing"),
                ("erase", "j1"),
            )
            for options in (store, other)
        ),
        cli("runs", "--store", url.replace("owner", "nobody", 1)),
        cli("runs", "--store", url.replace("%40", "@")),
        cli("runs", "--store", url.replace("%2F", "/")),
        cli("runs", "--store", url.replace("postgresql:", "postgresql+psycopg:")),
        cli("runs", "--store", f"{url}\n"),
    ]
    text = "".join(each.out + each.err for each in outputs)

    assert [] == [secret for secret in SECRETS if secret in text]
    [next_line] = [line for line in started.lines if line.startswith("next: ")]
    assert shown in next_line
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    plain = shown.partition("'")[2][:-1]
    assert 0 == cli("runs", "--store", plain).exit_code


def test_migrate_without_a_store_or_with_one_role_for_both_is_refused(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forgotten option must not read as a success."""
    both = cli("migrate", "--decider-role", "app", "--worker-role", "app")
    monkeypatch.delenv("CONTINUATIONS_STORE")
    (cli.folder / "runs.db").touch()
    missing = cli("migrate")

    assert (2, True) == (both.exit_code, "Name two roles." in both.err)
    assert (2, True) == (missing.exit_code, "--store is missing: " in missing.err)


def test_migrate_gives_up_a_lock_that_others_hold(postgres: PostgresServer) -> None:
    """While it waited, all other statements would wait behind it."""
    url = fresh_url(postgres)
    store = PostgresStore(url, retry_policy=RetryPolicy(max_attempts=1))
    schema = url.rpartition("=")[2]
    rights = [RoleRights(role=OWNER, name="worker", creates=["^"], deletes=["^"])]
    asyncio.run(store.migrate())
    with postgres.connect(OWNER) as reader:
        reader.execute("BEGIN")
        reader.execute(f"TABLE {schema}.objects".encode())

        with pytest.raises(Unavailable, match="another transaction is open"):
            asyncio.run(store.migrate(rights))

        reader.execute("COMMIT")
    assert not asyncio.run(store.migrate(rights))


def test_copy_refuses_the_memory_of_its_own_process(cli: CommandLine) -> None:
    """Its advice would be to remove the only copy that stays."""
    for places in (("file:runs", "memory:"), ("memory:x", "sqlite:new.db")):
        refused = cli("copy", *places)
        assert (2, True) == (refused.exit_code, "ends with it" in refused.err)
