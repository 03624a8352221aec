"""A folder with two runs and an object of every kind, to be copied and damaged."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from continuations import Agent, Approve, Finished, Outcome, Runner, Suspended
from tests import sample_app, scripts
from tests.scripts import Script, call

RUN, OTHER = "r-1", "other"
_TEMPLATE_FOLDER = TemporaryDirectory(prefix="hostile-")
SCRIPT: Script = {
    "go": [
        *([call("read", what=str(number))] for number in range(3)),
        [call("pay", what="1"), call("pay", what="2")],
        "all paid",
    ]
}


def sample_agent() -> Agent:
    """Return an agent that reads three times, then asks for two payments."""
    model = scripts.scripted_model(SCRIPT, record_turn=lambda _task, _turn: None)
    [boss] = sample_app.make_agents(model, record=lambda _: None)
    return boss


def sample_runner(folder: Path) -> Runner:
    """Return a runner of the sample agent on a folder."""
    return Runner(sample_agent(), store=f"file:{folder}")


@cache
def template_store() -> Path:
    """Return a folder with two suspended runs.

    One of the two waits of RUN is decided, and its inbox has a message.
    """
    folder = Path(_TEMPLATE_FOLDER.name) / "store"
    runner = sample_runner(folder)
    for run_id in (OTHER, RUN):
        outcome = runner.start("go", run_id=run_id)
        assert isinstance(outcome, Suspended)
    first, _ = runner.look(RUN).waits
    runner.decide(first.id, Approve(by="kim"))
    runner.send(RUN, "Hurry.")
    return folder


def copy_template(folder: Path) -> Path:
    """Return a fresh copy of the two runs, in a folder."""
    return Path(shutil.copytree(template_store(), folder / "store"))


def write_bodies(bodies: dict[str, bytes], folder: Path) -> Path:
    """Write bodies by their keys, and return the folder."""
    for key, body in bodies.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


def finish_run(runner: Runner, run_id: str) -> Outcome:
    """Approve every wait and resume until the run is finished."""
    outcome = runner.resume(run_id)
    while isinstance(outcome, Suspended):
        for wait in outcome.waits:
            runner.decide(wait.id, Approve(by="kim"))
        outcome = runner.resume(run_id)
    assert isinstance(outcome, Finished)
    return outcome


def store_keys(folder: Path, *prefixes: str) -> list[str]:
    """Return the keys of a store.

    Temporary files do not count: a create that was cancelled may still be writing one.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    names = (str(path.relative_to(folder)) for path in files)
    keys = sorted(name for name in names if not name.startswith(".tmp+"))
    return [key for key in keys if key.startswith(prefixes or ("",))]


def store_bodies(folder: Path) -> dict[str, bytes]:
    """Return all bodies of a store, by key."""
    return {key: (folder / key).read_bytes() for key in store_keys(folder)}
