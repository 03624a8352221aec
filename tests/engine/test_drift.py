"""The prediction of `drift` is what `resume` does, in another process with new code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Runner,
    Suspended,
    ToolContext,
    errors,
    tool,
)
from continuations.engine.past.drift import DRIFT_VERDICTS
from continuations.results import DriftRow
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, Operation, on, refused
from tests import effect_log, scripts
from tests.engine.drift_agents import CHANGES, CLERK
from tests.outcomes import single_wait
from tests.python_path import python_path
from tests.run_environment import ROOT, TIMEOUT_SECONDS
from tests.sampling import RUNS_ALL_CASES, sample
from tests.scripts import call

# The runs whose waits are decided with the old code, and those that stay open.
DECIDED = {
    "approved": Approve(by="kim"),
    "denied": Deny(by="kim"),
    "edited": Approve(by="kim", arguments={"what": "7"}),
    "answered": Answer("b", by="kim"),
}
OPEN = {
    "open": Approve(by="kim"),
    "strict": Approve(by="kim"),
    "accepted": Approve(by="kim"),
    "asked": Answer("b", by="kim"),
    "told": Answer("b", by="kim"),
    "twice": Approve(by="kim"),
}
PAIRS = [",".join(pair) for pair in combinations(CHANGES, 2)]


def process(folder: Path, commands: str, code: str = "old") -> dict[str, Any]:
    """Run commands of `drift_agents`, like "drift,resume", in a fresh interpreter."""
    [found] = process_of_codes({code: folder}, commands)
    return found


def process_of_codes(folders: dict[str, Path], commands: str) -> list[dict[str, Any]]:
    """Run commands with each code on its own runs, in one fresh interpreter."""
    folder = next(iter(folders.values()))
    stores = {code: f"file:{each / 'store'}" for code, each in folders.items()}
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
        "TEST_STORES": json.dumps(stores),
        effect_log.EFFECTS_VARIABLE: str(folder / "effects"),
        effect_log.TURNS_VARIABLE: str(folder / "turns"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.drift_agents", commands],
        env=environment,
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def decide(folder: Path, decisions: dict[str, Any]) -> None:
    """Decide all waits of some runs, in a process without agents."""
    runner = Runner([], store=f"file:{folder / 'store'}")
    for run_id, verdict in decisions.items():
        for wait in runner.look(run_id).waits:
            runner.decide(wait.id, verdict)


def worse(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the worse of what came of two resumes."""
    return max(first, second, key=lambda each: DRIFT_VERDICTS.index(each["verdict"]))


@pytest.fixture(scope="module")
def waiting_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store in which each run waits for something else."""
    folder = tmp_path_factory.mktemp("waiting")
    process(folder, "start")
    decide(folder, DECIDED)
    return folder


@pytest.fixture
def folder(waiting_runs: Path, tmp_path: Path) -> Path:
    shutil.copytree(waiting_runs / "store", tmp_path / "store")
    return tmp_path


def objects(folder: Path) -> dict[str, bytes]:
    files = [path for path in (folder / "store").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


CODES = ["old", *CHANGES, *sample(PAIRS, 45)]
# By default some codes share the two interpreters.
CHUNKS = len(CODES) if RUNS_ALL_CASES else 4


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_prediction_equals_what_resume_does_in_another_process(
    waiting_runs: Path, tmp_path: Path, chunk: int
) -> None:
    """Three levels deep, for each kind of wait: the same verdict, and the same text."""
    # Given the prediction of new code, which changed nothing
    # When the new code resumes the runs, before and after the open waits are decided
    folders = {code: tmp_path / code for code in CODES[chunk::CHUNKS]}
    for each in folders.values():
        shutil.copytree(waiting_runs / "store", each / "store")
    before = process_of_codes(folders, "drift,resume")
    for each in folders.values():
        decide(each, OPEN)
    after = process_of_codes(folders, "resume")

    # Then each run met its prediction, and the texts were those of the prediction
    for code, both, last in zip(folders, before, after, strict=True):
        check_prediction(both, last["resumed"], code)


def check_prediction(
    both: dict[str, Any], second: dict[str, dict[str, Any]], code: str
) -> None:
    """Compare what `drift` said with what the two resumes did."""
    assert ["keys", "read"] == both["verbs"]
    rows, first = both["rows"], both["resumed"]
    assert sorted(CLERK) == list(rows)
    done = {name: worse(each, second[name]) for name, each in first.items()}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert {name: each["verdict"] for name, each in done.items()} == verdicts, code
    for name, each in done.items():
        texts = [text for _, _, _, text in rows[name]["why"]]
        # The first resume began a call of `accepted`, so its manifest is new.
        if each["verdict"] == "reopen" and name != "accepted":
            assert sorted(texts) == sorted(note for note in each["notes"] if note), code


EXPECTED = [
    ("old", "open", "accept", None),
    ("prompt", "open", "accept", None),
    ("description", "approved", "accept", None),
    ("description", "strict", "reopen", ("approval", "boss/manager/clerk/wire")),
    ("default", "open", "reopen", ("schema", "boss/manager/clerk/pay")),
    ("default", "edited", "reopen", ("schema", "boss/manager/clerk/pay")),
    ("default", "denied", "accept", None),
    ("version", "approved", "reopen", ("contract", "boss/manager/clerk/pay")),
    ("no pay", "open", "refuse", ("removed", "boss/manager/clerk/pay")),
    ("no plain", "accepted", "refuse", ("removed", "boss/manager/clerk/plain")),
    ("plain version", "accepted", "refuse", ("contract", "boss/manager/clerk/plain")),
    ("plain asks", "accepted", "reopen", ("approval", "boss/manager/clerk/plain")),
    ("pick stays", "asked", "refuse", ("removed", "boss/manager/clerk/pick")),
    ("pick version", "answered", "refuse", ("contract", "boss/manager/clerk/pick")),
    ("no pick", "told", "accept", None),
    ("no clerk", "open", "refuse", ("removed", "boss/manager/clerk")),
    ("no clerk", "denied", "accept", None),
    ("no manager", "open", "refuse", ("removed", "boss/manager")),
    ("no boss", "denied", "refuse", ("removed", "boss")),
]


def test_row_says_which_tool_or_agent_and_what_changed(folder: Path) -> None:
    codes = [*dict.fromkeys(code for code, *_ in EXPECTED)]
    before = objects(folder)

    found = process_of_codes(dict.fromkeys(codes, folder), "drift")

    assert before == objects(folder)
    rows = {code: each["rows"] for code, each in zip(codes, found, strict=True)}
    for code, run_id, verdict, reason in EXPECTED:
        row = rows[code][run_id]
        first = row["why"][0][1:3] if row["why"] else None
        assert (verdict, reason and [*reason]) == (row["verdict"], first), (
            code,
            run_id,
        )


# One process ------------------------------------------------------------------------


def calling(*calls: scripts.ScriptedCall) -> Any:
    """Return a model that makes calls in its first turn and then ends."""
    return scripts.scripted_model({"go": [calls, "end"]}, lambda _task, _turn: None)


@tool(approval=True)
def pay(cents: int) -> int:
    """Pay."""
    return cents


@tool(approval=True, name="pay")
def pay_in(cents: int, currency: str = "EUR") -> str:
    """Pay."""
    return f"{cents} {currency}"


PAYS = calling(call("pay", cents=5))


@pytest.mark.parametrize("is_async", [False, True])
def test_rows_come_page_by_page_in_the_order_of_run_ids(is_async: bool) -> None:
    """A page is 20 runs: a few listings, whatever the number of runs."""
    operations: list[Operation] = []
    store = FaultyStore(MemoryStore(), operations.append)
    runner = Runner(Agent("boss", tools=[pay], model=PAYS), store=store)
    ids = [f"r{number:02}" for number in range(45)]
    for run_id in ids:
        runner.start("go", run_id=run_id)
    new = Runner(Agent("boss", tools=[pay_in], model=PAYS), store=store)
    operations.clear()

    # When the rows are iterated over, after a run
    async def collect() -> list[DriftRow]:
        return [row async for row in new.async_runner.drift(after="r03")]

    rows = asyncio.run(collect()) if is_async else [*new.drift(after="r03")]

    # Then every run comes once, and the index was listed in pages
    assert ids[4:] == [row.run_id for row in rows]
    assert {"reopen"} == {row.verdict for row in rows}
    assert 3 == [each.key for each in operations].count("index/live/")
    assert {"keys", "read"} == {each.verb for each in operations}

    # And the first row needed the reads of one page only
    operations.clear()
    assert "r00" == next(new.drift()).run_id
    read = {each.key.split("/")[1] for each in operations if each.verb == "read"}
    assert set(ids[:20]) == read


def test_ended_erased_and_damaged_runs(store: MemoryStore) -> None:
    """A run that cannot be read is refused; a run that is over is left out."""
    agent = Agent("boss", tools=[pay], model=PAYS)
    runner = Runner(agent, store=store)
    for run_id in ("cancelled", "damaged", "erased", "whole"):
        runner.start("go", run_id=run_id)
    runner.cancel("cancelled")
    runner.cancel("erased")
    runner.erase("erased")
    [key] = asyncio.run(store.keys("runs/damaged/v/", limit=1))
    asyncio.run(store.delete(key))
    asyncio.run(store.create(key, b"not a version"))

    rows = {row.run_id: row for row in runner.drift()}

    assert {"damaged": "refuse", "whole": "accept"} == {
        run_id: row.verdict for run_id, row in rows.items()
    }
    [why] = rows["damaged"].why
    assert ("stored", "unreadable") == (why.change, rows["damaged"].status)
    with pytest.raises(errors.FormatError, match=re.escape(why.text)):
        runner.resume("damaged")


class Tenant:
    """The object of an application."""


def test_other_type_of_context_is_refused_if_a_context_is_given() -> None:
    """Without `context`, its type is not checked: a command line may not have it."""
    store = MemoryStore()
    Runner(Agent("boss", tools=[pay], model=PAYS), store=store).start("go", run_id="r1")
    new = Runner(
        Agent("boss", tools=[pay], model=PAYS), store=store, context_type=Tenant
    )

    [unknown], [right], [wrong] = (
        [*new.drift()],
        [*new.drift(context=Tenant())],
        [*new.drift(context=None)],
    )

    assert ("accept", "accept") == (unknown.verdict, right.verdict)
    assert ("refuse", "context") == (wrong.verdict, wrong.why[0].change)
    with pytest.raises(errors.InvalidInput) as raised:
        new.resume("r1", context=None)
    assert str(raised.value) == wrong.why[0].text


def test_state_that_does_not_fit_and_agent_without_a_model_are_refused() -> None:
    @dataclass
    class Old:
        name: str = "kim"

    @dataclass
    class New:
        name: int = 1

    @tool(writes_state=True)
    def note(name: str, ctx: ToolContext) -> str:
        """Take a note."""
        ctx.update(name=name)
        return name

    def boss(state: Any, model: Any = None) -> Agent:
        return Agent("boss", tools=[note, pay], model=model, state=state)

    script = {"go": [[call("note", name="jo")], [call("pay", cents=5)], "end"]}
    model = scripts.scripted_model(script, lambda _task, _turn: None)
    store = MemoryStore()
    assert isinstance(
        Runner(boss(Old, model), store=store).start("go", run_id="r1"), Suspended
    )

    [other_state] = Runner(boss(New, model), store=store).drift()
    [no_model] = Runner(boss(Old), store=store).drift()

    assert [("state", ("boss",))] == [(w.change, w.path) for w in other_state.why]
    assert [("refuse", "model")] == [(w.verdict, w.change) for w in no_model.why]
    assert "the model was" in str(no_model.code_changes)
    with pytest.raises(errors.AgentChanged, match=re.escape(other_state.why[0].text)):
        Runner(boss(New, model), store=store).resume("r1")


def test_votes_that_end_a_wait_count_and_are_not_recorded_by_drift() -> None:
    """After a crash between the last vote and the decision, drift writes nothing."""
    [wait_id], store = voted_without_decision()
    operations: list[Operation] = []

    [row] = Runner(
        Agent("boss", tools=[voted(pay_in)], model=PAYS),
        store=FaultyStore(store, operations.append),
    ).drift()

    assert {"keys", "read"} == {each.verb for each in operations}
    assert [("reopen", "schema", wait_id)] == [
        (why.verdict, why.change, why.wait_id) for why in row.why
    ]


def voted(function: Any) -> Any:
    """Return a tool that needs two votes."""
    policy = ApprovalPolicy(approvers=["kim", "jo"], votes=2)
    return tool(approval=policy, name="pay")(function.function)


def voted_without_decision() -> tuple[list[str], MemoryStore]:
    """Return a wait and a store in which the last voter died before the decision."""
    store = MemoryStore()
    agent = Agent("boss", tools=[voted(pay)], model=PAYS)
    wait = single_wait(Runner(agent, store=store).start("go", run_id="r1"))
    Runner([], store=store).decide(wait.id, Approve(by="kim"))

    away = on("create", refused(), prefix="runs/r1/in/d-", times=99)
    with pytest.raises(errors.StoreUnavailable):
        Runner([], store=FaultyStore(store, away)).decide(wait.id, Approve(by="jo"))
    return [wait.id], store
