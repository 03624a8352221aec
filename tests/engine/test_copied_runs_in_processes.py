"""Runs that wait in each way, and go on elsewhere, in fresh interpreters."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from continuations import Answer, Approve, Runner, open_store
from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.errors import RunBusy, RunExists, RunNotFound
from tests.run_environment import ROOT, RunEnvironment
from tests.sampling import sample
from tests.scripts import Script, call

pytestmark = pytest.mark.fresh_interpreters

ALL_KINDS = "tests.engine.waits_of_all_kinds:agents"
VERDICTS: dict[str, Any] = {
    "approval": Approve(by="kim"),
    "unknown": Answer("sent", by="kim"),
    "question": Answer("by the window", by="kim"),
    "event": Answer(42, by="shop"),
    "external": Answer({"pages": 7}, by="scanner"),
}
# boss > left > clerk: three agents deep.
SCRIPT: Script = {
    "go": [[call("left", input="A")], "end"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [[call("pay", what="x")], [call("act", what="y")], "B done"],
}


def copy(source: Any, target: Any) -> None:
    result = Runner([], store=source).copy_to(target)
    assert ({}, ()) == (result.errors, result.moved_on)


def test_run_moves_while_it_waits_in_each_way(environment: RunEnvironment) -> None:
    """Files, SQLite, memory, files: each wait ends in another store than it began."""
    started = environment.start({}, app=ALL_KINDS, ahead="0", limited="429")
    waits = {wait["kind"]: wait["id"] for wait in started["waits"]}

    # When the run moves to SQLite, and two of its waits end there
    database = f"sqlite:{environment.folder / 'moved.db'}"
    copy(environment.store, database)
    runner = Runner([], store=database)
    assert {*waits.values()} == {wait.id for wait in runner.look("r1").waits}
    listed = [wait.id for wait in Runner([], store=environment.store).waiting()]
    assert listed == [wait.id for wait in runner.waiting()]
    for kind in ("approval", "unknown"):
        runner.decide(waits[kind], VERDICTS[kind])
    options = {"app": ALL_KINDS, "store": database}
    held = environment.resume({}, **options, ahead="0", limited="429")
    assert waits.keys() - {"approval", "unknown"} == {w["kind"] for w in held["waits"]}

    # And through the memory of a process to another folder, where the others end
    memory, folder = open_store("memory:"), f"file:{environment.folder / 'last'}"
    copy(database, memory)
    copy(memory, folder)
    runner = Runner([], store=folder)
    runner.unpause("r1", by="kim")
    for kind in ("question", "event", "external"):
        runner.decide(waits[kind], VERDICTS[kind])
    options["store"] = folder
    ended = environment.resume({}, **options, ahead="7200", limited="")

    # Then every call ran once
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert [
        *("act x", "nap 3600.0", "pay bill", "price lamp"),
        *("question Desk?", "scan a.pdf", "slow letter"),
    ] == sorted(environment.effect_names())
    refused = Runner([], store=environment.store).copy_to(folder).errors["r1"]
    assert isinstance(refused, RunExists)


_COPY = """
import sys
from continuations import Runner, open_store
from continuations_storage.faults import FaultyStore, at, killed
source, target, number = sys.argv[1:]
store = FaultyStore(open_store(target), at(int(number), killed("after")))
Runner([], store=source).copy_to(store)
"""


@pytest.mark.parametrize("number", sample(range(4, 25, 2), 4, 2))
def test_killed_copy_is_repeated(environment: RunEnvironment, number: int) -> None:
    """The target shows no run, or a whole one, and the effects happen once."""
    suspended = environment.start(SCRIPT)
    target = f"sqlite:{environment.folder / 'moved.db'}"
    killed = subprocess.run(
        [sys.executable, "-c", _COPY, environment.store, target, str(number)],
        cwd=ROOT,
        check=False,
        timeout=60,
    )
    assert -signal.SIGKILL == killed.returncode
    runner = Runner([], store=target)
    try:
        assert 2 <= runner.look("r1").version
    except (RunBusy, RunNotFound):
        assert [] == list(runner.runs())

    copy(environment.store, target)

    [wait] = suspended["waits"]
    assert [wait["id"]] == [each.id for each in runner.waiting()]
    runner.decide(wait["id"], Approve(by="kim"))
    ended = environment.resume(SCRIPT, store=target)
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert ["pay x", "act y"] == environment.effect_names()


def test_run_whose_worker_died_goes_on_in_the_target(
    environment: RunEnvironment,
) -> None:
    """Its started call waits for a person there, as it would where it was."""
    script = {**SCRIPT, "B": [[call("act", what="y", then="die-once")], "B done"]}
    process = environment.spawn("start", "r1", "go", script=script, lease="0.5")
    assert -signal.SIGKILL == process.wait()
    target = Path(environment.folder / "moved.db")
    result = Runner([], store=environment.store).copy_to(f"sqlite:{target}")
    while isinstance(result.errors.get("r1"), RunBusy):
        result = Runner([], store=environment.store).copy_to(f"sqlite:{target}")
    assert ("r1",) == result.copied

    options = {"store": f"sqlite:{target}", "script": script}
    [wait] = environment.run("resume", "r1", **options)["waits"]
    assert "unknown" == wait["kind"]
    Runner([], store=f"sqlite:{target}").decide(wait["id"], Answer("done", by="kim"))
    ended = environment.run("resume", "r1", **options)
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert ["act y"] == environment.effect_names()


# All kinds of waits at once ---------------------------------------------------


APP = "tests.engine.waits_of_all_kinds:agents"
BY_TIME = {"timer", "model", "alarm"}
LISTS = [
    (None, {"approval", "question", "unknown"}),
    (["event", "external"], {"event", "external"}),
    (["operator"], {"operator"}),
    ([*BY_TIME], BY_TIME),
]


ORDERS = [
    ("operator", "time", *VERDICTS),
    (*reversed(VERDICTS), "time", "operator"),
    ("unknown", "time", "event", "approval", "operator", "external", "question"),
]


@pytest.mark.parametrize("steps", sample(ORDERS, 3, 2), ids="-".join)
def test_waits_of_all_kinds_end_in_any_order(
    environment: RunEnvironment, steps: tuple[str, ...]
) -> None:
    """Each list has its waits, each step is a process, and nothing runs twice."""
    runner = Runner([], store=environment.store)
    started = environment.start({}, app=APP, ahead="0", limited="429")
    waits = {wait["kind"]: wait for wait in started["waits"]}

    # Each kind is open once, at its place of the stack, and stands in its list.
    # Judged texts stop an agent before its calls: test_guarded_agents_in_processes.py.
    assert WAIT_KINDS - {"input", "output"} == waits.keys()
    assert len(waits) == len(started["waits"])
    places = {kind: "/".join(wait["path"]) for kind, wait in waits.items()}
    assert {
        "approval": "boss/mid/inner/pay",
        "unknown": "boss/mid/inner/slow",
        "question": "boss/mid/inner/question",
        "event": "boss/mid/inner/price",
        "external": "boss/mid/inner/scan",
        "timer": "boss/mid/inner/nap",
        "model": "boss/mid/limited",
        "operator": "boss/mid/held",
        "alarm": "boss/mid/rest",
    } == places
    for kinds, listed in LISTS:
        found = [wait.id for wait in runner.waiting(kinds=kinds)]
        assert sorted(waits[kind]["id"] for kind in listed) == sorted(found)

    # When they end one by one, each followed by a resume in a fresh interpreter
    clock = {"ahead": "0", "limited": "429"}
    left = set(waits)
    ended: dict[str, Any] = {}
    for step in steps:
        if step == "time":
            clock = {"ahead": "7200", "limited": ""}
            left -= BY_TIME
        elif step == "operator":
            runner.unpause("r1", by="kim")
        else:
            runner.decide(waits[step]["id"], VERDICTS[step])
        left -= {step}
        ended = environment.resume({}, app=APP, **clock)
        assert left == {wait["kind"] for wait in ended.get("waits", ())}

    # Then every call ran once, and only refused turns were asked again.
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert [
        *("act x", "nap 3600.0", "pay bill", "price lamp"),
        *("question Desk?", "scan a.pdf", "slow letter"),
    ] == sorted(environment.effect_names())
    turns = [turn for turn in environment.turns() if turn != "model 0"]
    assert len(turns) == len(set(turns)) == 8
    assert [] == environment.keys("waits/", "markers/")
