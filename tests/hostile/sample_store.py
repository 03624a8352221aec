"""Two runs in a folder, with an object of every kind, to be copied and damaged."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from continuations import Agent, Approve, Finished, Runner, Suspended, tool
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from continuations import Outcome

RUN, OTHER = "r-1", "other"
_TEMPLATE_FOLDER = TemporaryDirectory(prefix="hostile-")


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(read_only=True)
def see(what: int) -> str:
    """Look."""
    return f"saw {what}"


def sample_agent() -> Agent:
    """Return an agent that looks three times, then asks for two payments."""
    looks = [ToolCall("see", {"what": number}) for number in range(3)]
    pays = [ToolCall("pay", {"cents": cents}) for cents in (1, 2)]
    model = ScriptedModel([*looks, pays, "all paid"])
    return Agent("shop", instructions="Sell.", tools=[pay, see], model=model)


def sample_runner(folder: Path) -> Runner:
    """Return a runner of the shop on a folder."""
    return Runner(sample_agent(), store=f"file:{folder}")


@cache
def template_store() -> Path:
    """Return a folder with two runs that wait.

    Of the first one wait is decided, a message is in its inbox, and there are markers.
    """
    folder = Path(_TEMPLATE_FOLDER.name) / "store"
    shop = sample_runner(folder)
    for run_id in (OTHER, RUN):
        outcome = shop.start("go", run_id=run_id)
        assert isinstance(outcome, Suspended)
    first, _ = shop.look(RUN).waits
    shop.decide(first.id, Approve(by="kim"))
    shop.send(RUN, "Hurry.")
    return folder


def copy_template(onto: Path) -> Path:
    """Return a fresh copy of the two runs."""
    return Path(shutil.copytree(template_store(), onto / "store"))


def write_bodies(bodies: dict[str, bytes], folder: Path) -> Path:
    """Return a folder with these bodies."""
    for key, body in bodies.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


def finish_run(shop: Runner, run_id: str) -> Outcome:
    """Approve whatever waits and go on to the end."""
    outcome = shop.resume(run_id)
    while isinstance(outcome, Suspended):
        for wait in outcome.waits:
            shop.decide(wait.id, Approve(by="kim"))
        outcome = shop.resume(run_id)
    assert isinstance(outcome, Finished)
    return outcome


def store_keys(folder: Path, *prefixes: str) -> list[str]:
    """Return the keys of a store.

    Not what is just being written: a create that was cut off may still be at it.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    names = (str(path.relative_to(folder)) for path in files)
    found = sorted(name for name in names if not name.startswith(".tmp+"))
    return [key for key in found if key.startswith(prefixes or ("",))]


def store_bodies(folder: Path) -> dict[str, bytes]:
    """Return what a store holds, by key."""
    return {key: (folder / key).read_bytes() for key in store_keys(folder)}
