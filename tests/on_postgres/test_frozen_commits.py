"""A process freezes or dies at a request of several changes; others go on meanwhile.

On SQLite and on Postgres. Each process is an interpreter of its own.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import effect_log
from tests.run_environment import KILLED, RunEnvironment
from tests.sampling import sample
from tests.scripts import Script, call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.postgres_server import PostgresServer

SCRIPT: Script = {
    "go": [[call("left", input="A")], "end"],
    "A": [[["pay", {"what": "x"}]], [["pay", {"what": "y"}]], "A done"],
}
# A resumed run makes so many operations on a store that commits.
NUMBERS = sample(range(1, 8), 4, 3)
OPTIONS: dict[str, Any] = {"script": SCRIPT, "commits": "1"}


def make_environment(
    folder: Path, store: str, patch: pytest.MonkeyPatch
) -> RunEnvironment:
    patch.setenv(effect_log.EFFECTS_VARIABLE, str(folder / "effects"))
    patch.setenv(effect_log.TURNS_VARIABLE, str(folder / "turns"))
    patch.setenv("TEST_FOLDER", str(folder))
    variables = {"TEST_STORE": store}
    return RunEnvironment(folder, variables, fresh_interpreters=False)


def check(
    environment: RunEnvironment, fault: str, keys: Callable[[], Iterable[str]]
) -> None:
    """Approve a payment, freeze or kill its worker, and let others end the run."""
    moment = fault.split()[1]
    [wait] = environment.start(SCRIPT)["waits"]
    environment.approve(wait)
    worker = environment.spawn("resume", "r1", **OPTIONS, fault=fault)
    if moment == "freeze":
        worker.wait_until_frozen()
    else:
        assert KILLED == worker.wait()

    outcome: dict[str, Any] = {}
    for _ in range(4):
        outcome = environment.resume(SCRIPT, ahead="100")
        if outcome["kind"] == "Finished":
            break
        for each in outcome["waits"]:
            if each["kind"] == "unknown":
                # The worker began the call, and may still pay: no other one does.
                answer = {"answer": {"value": f"pay {each['arguments']['what']}"}}
                environment.decide(each, answer)
            else:
                environment.approve(each)
    if moment == "freeze":
        worker.send(signal.SIGCONT)
        worker.wait_for_result()

    assert "Finished" == outcome["kind"]
    effects = environment.effect_names()
    assert len(effects) == len(set(effects)), effects
    environment.run("sweep", script=SCRIPT, ahead="200")
    left = [key for key in keys() if not key.startswith(("runs/", "probe/"))]
    assert 1 == len(left), left
    assert left[0].startswith("index/ended/")


@pytest.mark.parametrize("moment", ["freeze", "before", "after"])
@pytest.mark.parametrize("number", NUMBERS)
def test_on_sqlite(
    number: int, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:{tmp_path / 'store'}"
    environment = make_environment(tmp_path, store, monkeypatch)
    check(environment, f"{number} {moment}", environment.objects)


@pytest.mark.parametrize("moment", ["freeze", "before", "after"])
@pytest.mark.parametrize("number", NUMBERS)
def test_on_postgres(
    number: int,
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres: PostgresServer,
) -> None:
    store = postgres.new_url()
    environment = make_environment(tmp_path, store, monkeypatch)
    table = f"{store.partition('schema=')[2]}.objects"
    query = f"SELECT key FROM {table}"  # noqa: S608 - a table of this test
    check(
        environment,
        f"{number} {moment}",
        lambda: [key for (key,) in postgres.rows(query)],
    )
