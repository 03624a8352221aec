"""Publishers and waiters in processes of their own, at the same time."""

from __future__ import annotations

import asyncio

import pytest

from continuations import open_store
from continuations_storage.contract import all_keys
from tests.engine import process_race
from tests.engine.test_waiting_tools_in_processes import APP, script_of
from tests.run_environment import RunEnvironment
from tests.sampling import sample
from tests.scripts import call


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
