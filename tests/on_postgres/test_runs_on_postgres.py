"""Runs in a Postgres table: round trips, lost connections, roles, interpreters."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from continuations import Approve, Finished, Runner, Suspended
from continuations.errors import StoreDenied
from continuations.ledger.layout import role_rights
from continuations_storage import SyncStore
from continuations_storage.postgres import PostgresStore
from continuations_storage.retries import RetryPolicy
from tests import effect_log, sample_app
from tests.engine import agent_builders
from tests.postgres_server import OWNER, PASSWORD, PostgresServer
from tests.run_environment import RunEnvironment, wait_until
from tests.sampling import sample
from tests.scripts import Script
from tests.storage.cutting_proxy import FAULTS, Fault, run_proxy

ONE_TOOL: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
NESTED: Script = {
    "go": [[["left", {"input": "A"}]], "end"],
    "A": [[["pay", {"what": "x"}]], "A done"],
}
QUICK = RetryPolicy(first_delay=0.01, max_delay=0.05)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty store."""
    return postgres.new_url()


@pytest.fixture
def environment(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> RunEnvironment:
    """Processes that share the store."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    return RunEnvironment(tmp_path, {"TEST_STORE": url})


def make_worker(store: PostgresStore) -> Runner:
    """Return a runner with one agent, which pays."""
    pay = sample_app.make_pay(effect_log.record)
    return agent_builders.make_runner(ONE_TOOL, pay, store=store)


def run_cycle(store: PostgresStore, run_id: str) -> None:
    """Start a run, approve its payment, and bring it to its end."""
    outcome = make_worker(store).start("go", run_id=run_id)
    assert isinstance(outcome, Suspended)
    Runner([], store=store).decide(outcome.waits[0].id, Approve(by="kim"))
    assert isinstance(make_worker(store).resume(run_id), Finished)


@pytest.mark.fresh_interpreters
def test_stack_of_agents_goes_on_in_other_interpreters(
    environment: RunEnvironment,
) -> None:
    """Start, decide and resume are three processes."""
    [wait] = environment.start(NESTED)["waits"]
    environment.approve(wait)

    assert "Finished" == environment.resume(NESTED)["kind"]
    assert ["pay x"] == environment.effect_names()


def test_cycle_makes_11_requests(
    url: str, postgres: PostgresServer, environment: RunEnvironment
) -> None:
    """Each operation of the store is one round trip.

    Two of them ask whether the store was probed, once in each process that works.
    """
    with run_proxy(postgres.port) as proxy:
        store = PostgresStore(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        run_cycle(store, "first")  # with the probe
        before = proxy.statements

        run_cycle(store, "second")

        assert 11 == proxy.statements - before
        assert 1 == proxy.connections
    assert ["pay x"] * 2 == environment.effect_names()


@pytest.mark.parametrize("fault", FAULTS)
def test_connection_that_is_cut_at_a_statement_is_not_noticed(
    fault: Fault, url: str, postgres: PostgresServer, environment: RunEnvironment
) -> None:
    """Before, in or after any request of a cycle; each payment is made once."""
    points = sample(range(11), 4, FAULTS.index(fault))
    with run_proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        store = PostgresStore(through, timeout=0.3, retry_policy=QUICK)
        run_cycle(store, "first")
        for number in points:
            proxy.plan(fault, "continuations_", skipped=number)
            run_cycle(store, f"cut-{number}")
        assert len(points) == proxy.cut
    assert ["pay x"] * (len(points) + 1) == environment.effect_names()
    with SyncStore(PostgresStore(url)) as left:
        assert [] == left.keys("markers/") + left.keys("waits/")


# Roles --------------------------------------------------------------------------


@contextmanager
def roles(postgres: PostgresServer) -> Generator[tuple[str, str]]:
    """Make a decider and a worker."""
    suffix = os.urandom(4).hex()
    names = f"decider_{suffix}", f"worker_{suffix}"
    for name in names:
        postgres.rows(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    try:
        yield names
    finally:
        for name in names:
            postgres.terminate_others(f"usename = '{name}'")
            postgres.rows(f"DROP OWNED BY {name}")
            postgres.rows(f"DROP ROLE {name}")


@pytest.mark.usefixtures("environment")
async def test_decider_decides_and_cannot_forge_or_delete(
    url: str, postgres: PostgresServer
) -> None:
    """Neither role can delete the history of a run."""
    owner = PostgresStore(url)
    with roles(postgres) as (decider_role, worker_role):
        await owner.migrate(role_rights(decider_role, worker_role))
        deciding, working = (
            PostgresStore(url.replace(OWNER, role, 1))
            for role in (decider_role, worker_role)
        )
        worker = make_worker(working).async_runner
        decider = Runner([], store=deciding).async_runner
        outcome = await worker.start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        assert [outcome.waits[0].id] == [w.id async for w in decider.open_waits()]

        with pytest.raises(StoreDenied, match="row-level security"):
            await decider.fork("r1")
        with pytest.raises(StoreDenied, match="row-level security"):
            await decider.erase("r1")
        await decider.decide(outcome.waits[0].id, Approve(by="kim"))
        assert isinstance(await worker.resume("r1"), Finished)
        assert "finished" == (await decider.look("r1")).status

        cancelled = await worker.start("go", run_id="r2")
        assert isinstance(cancelled, Suspended)
        await decider.cancel("r2")
        await worker.sweep()
        assert "cancelled" == (await decider.look("r2")).status
        with pytest.raises(
            StoreDenied, match="r2 was not erased: this process may not delete"
        ):
            await worker.erase("r2")
    await Runner([], store=owner).async_runner.erase("r1")
    assert [] == await owner.keys("runs/r1/in/")


def test_decided_runs_go_on_without_the_interval(
    environment: RunEnvironment, url: str
) -> None:
    """Four worker processes with an interval of an hour; each effect happens once."""
    servers = [environment.spawn("serve", "3600", script=ONE_TOOL) for _ in range(4)]
    run_ids = [f"r{number}" for number in range(4)]
    waits = [environment.start(ONE_TOOL, each)["waits"][0] for each in run_ids]
    decider = Runner([], store=url)
    for wait in waits:
        decider.decide(wait["id"], Approve(by="kim"))

    wait_until(lambda: all(decider.look(each).status == "finished" for each in run_ids))
    for server in servers:
        server.send(signal.SIGTERM)
        assert {"served": True} == server.wait_for_result()

    assert ["pay x"] * 4 == environment.effect_names()
