"""Publishers and waiters in processes of their own, at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from continuations import open_store
from continuations_storage.contract import all_keys
from tests.engine import process_race
from tests.engine.test_waiting_tools_in_processes import APP, script_of
from tests.sampling import sample
from tests.scripts import call

if TYPE_CHECKING:
    from tests.run_environment import RunEnvironment


def check_no_event_is_lost(
    environment: RunEnvironment, article: str, processes: int
) -> None:
    """Race publishers against starting runs; then each run can take an event."""
    script = script_of(call("price", article=article))
    results = process_race.run_race(
        environment, f"price {article}", processes, script=script, app=APP
    )
    assert processes // 2 == results.count("published")
    assert {"published", "Finished", "Suspended"} >= set(results)
    for number in range(0, processes, 2):
        ended = environment.resume(script, f"{article}-{number}", app=APP)
        assert "Finished" == ended["kind"]
    keys = keys_of(environment)
    assert [] == [key for key in keys if "/w-" in key or key.startswith("waits/")]
    kept = [key for key in keys if key.startswith("markers/")]
    assert processes // 2 == len(kept)
    assert all("-o-" in key for key in kept)


def keys_of(environment: RunEnvironment) -> list[str]:
    """Return all keys of the store that the processes share."""
    url = environment.extra_variables.get("TEST_STORE", environment.store)

    async def list_keys() -> list[str]:
        return [key async for key in all_keys(open_store(url), "")]

    return asyncio.run(list_keys())


@pytest.mark.parametrize("article", sample(["tea", "milk", "salt"], 3))
def test_no_event_is_lost_between_a_listing_and_a_wait(
    environment: RunEnvironment, article: str
) -> None:
    """Six publishers and six runs of a sub-agent begin at the same moment."""
    check_no_event_is_lost(environment, article, 12)


@pytest.mark.parametrize("number", sample(range(1, 13, 3), 3))
def test_a_killed_publisher_is_completed_by_a_sweep(
    environment: RunEnvironment, number: int
) -> None:
    """SIGKILL after a storage operation; a sweep of another process does the rest."""
    script = script_of(call("price", article="tea"))
    environment.start(script, app=APP)
    killed = environment.spawn(
        "publish", "price", "tea", "7", "m-1", app="none", fault=f"{number} after"
    )
    killed.wait()
    environment.run("sweep", script=script, app=APP)
    published = environment.run("publish", "price", "tea", "7", "m-1", app="none")
    ended = environment.resume(script, app=APP)

    assert "Finished" == ended["kind"]
    results = environment.run("tool-results", "r1", "office", script=script, app=APP)
    assert "7" == results["tool_results"]
    assert ["price tea"] == environment.effect_names()
    events = [key for key in environment.keys("events/") if "/e-" in key]
    assert [published["id"]] == [key.rpartition("/e-")[2] for key in events]
