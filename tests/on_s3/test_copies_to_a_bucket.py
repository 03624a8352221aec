"""Runs move from a folder to a bucket and back, while they wait."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Approve, Runner, open_store
from tests.ledger.copied_store import contents
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

pytestmark = pytest.mark.fresh_interpreters

SCRIPT: Script = {
    "go": [[call("left", input="A")], "end"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [[call("pay", what="x")], [call("pay", what="y")], "B done"],
}


@pytest.mark.parametrize("driver", ["boto3", "obstore"])
def test_run_moves_to_a_bucket_and_back(
    environment: RunEnvironment, driver: str
) -> None:
    """Each of its two waits is decided in another store than the one it began in."""
    folder = f"file:{environment.folder / 'store'}"
    bucket = environment.extra_variables["TEST_STORE"]
    database = f"sqlite:{environment.folder / 'runs.db'}"
    environment.start(SCRIPT, store=folder)

    in_bucket = open_store(bucket, driver=driver)  # type: ignore[arg-type] # a parameter
    result = Runner([], store=folder).copy_to(in_bucket)
    assert (("r1",), {}, ()) == (result.copied, result.errors, result.moved_on)
    assert asyncio.run(contents(open_store(folder))) == asyncio.run(contents(in_bucket))
    runner = Runner([], store=bucket)
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    environment.resume(SCRIPT, store=bucket)

    assert ("r1",) == Runner([], store=in_bucket).copy_to(database).copied
    runner = Runner([], store=database)
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    ended = environment.resume(SCRIPT, store=database)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert ["pay x", "pay y"] == environment.effect_names()
