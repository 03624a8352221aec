"""Every object of a store damaged in every way: told by name, left as it is."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Approve,
    Cancelled,
    ContinuationsError,
    Finished,
    FormatError,
    RunBusy,
    Runner,
    StoreError,
)
from continuations.cli import main
from continuations.ledger import fenwick, layout
from tests.hostile import shop
from tests.hostile.share import share
from tests.hostile.shelf import Shelf
from tests.hostile.shop import OTHER, RUN
from tests.ledger.damage import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Scene:
    """What the template's store holds; the waits are those of our run."""

    objects: dict[str, bytes]
    decided: str
    waits: str
    versions: tuple[str, ...]

    def part(self, key: str) -> str:
        """Return what an object is to our run, or nothing."""
        if key in (
            layout.version(RUN, n) for n in fenwick.chain(len(self.versions), 1)
        ):
            return "version"
        if key in self.versions:
            return "old version"
        names = {"in/d-": "decision", "in/m-": "letter"}
        for beginning, name in names.items():
            if key.startswith(f"runs/{RUN}/{beginning}"):
                return name
        return "wait" if key == f"waits/{self.waits}" else ""


@cache
def scene() -> Scene:
    """Look at the template, once."""
    decided, waits = (w.id for w in shop.runner(shop.template()).look(RUN).waits)
    objects = shop.bodies(shop.template())
    versions = (key for key in objects if key.startswith(f"runs/{RUN}/v/"))
    return Scene(objects, decided, waits, tuple(versions))


def swept(runner: Runner) -> None:
    """Sweep; what a sweep says of our run is raised, as everybody else does."""
    failed = runner.sweep().failed
    assert failed.keys() <= {RUN}
    if failed:
        raise failed[RUN]


# Who looks, decides, moves, ends; and what of the run each of them needs.
WORKS: dict[str, tuple[Callable[[Runner], Any], set[str]]] = {
    "look": (lambda runner: runner.look(RUN), {"version"}),
    "waiting": (lambda runner: list(runner.waiting()), set()),
    "wait": (lambda runner: runner.wait(scene().waits), {"wait"}),
    "decide": (lambda runner: approve(runner, scene().waits), {"wait"}),
    "decide again": (lambda runner: approve(runner, scene().decided), {"decision"}),
    "send": (lambda runner: runner.send(RUN, "More."), {"version"}),
    "start": (
        lambda runner: runner.start("go", run_id=RUN),
        {"version", "decision", "letter"},
    ),
    "resume": (
        lambda runner: runner.resume(RUN),
        {"version", "decision", "letter"},
    ),
    "sweep": (swept, {"version", "decision", "letter"}),
    "cancel": (lambda runner: runner.cancel(RUN), {"version"}),
}


def approve(runner: Runner, wait_id: str) -> object:
    return runner.decide(wait_id, Approve(by="kim"))


def attempt(name: str, runner: Runner, key: str) -> ContinuationsError | None:
    """Do some work; what it raises is typed and names the object."""
    work, _ = WORKS[name]
    try:
        work(runner)
    except RunBusy as error:
        # Without its newest version a run is as it was: claimed.
        assert key == scene().versions[0]
        return error
    except ContinuationsError as error:
        assert key in str(error)  # noqa: PT017 - not every work raises
        return error
    return None


def harmed(key: str, way: str) -> dict[str, bytes]:
    """Return the bodies of the store, one of them damaged."""
    whole = scene().objects
    left = WAYS[way](whole[key])
    rest = {other: body for other, body in whole.items() if other != key}
    return rest if left is None else rest | {key: left}


def check(name: str, way: str, key: str, runner: Runner) -> None:
    """Whoever needs what is damaged refuses it, and nobody else is kept from work."""
    _, needs = WORKS[name]
    needed = scene().part(key) in needs
    if way == "missing":
        # That there was one is known of versions only, from those that came after.
        needed = needed and key in scene().versions[1:]
    assert needed == isinstance(attempt(name, runner, key), FormatError), (key, way)


def check_kept(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Nothing is written over, ever; markers and wait objects may go."""
    for other, body in before.items():
        assert body == after.get(other, body)
        assert other in after or other.startswith(("waits/", "markers/"))


def test_the_template_has_an_object_of_every_kind() -> None:
    """The tests below would hold as well for a store of nothing."""
    found = {scene().part(key) for key in scene().objects}

    assert {"version", "old version", "decision", "letter", "wait", ""} == found
    assert {"waits", "markers", "probe", "runs"} == {
        key.partition("/")[0] for key in scene().objects
    }


@pytest.mark.parametrize("name", WORKS)
def test_damage_is_typed_and_never_written_over(name: str) -> None:
    """R-E7, R-A4: each object in turn, each way, each way in."""
    for number, key in enumerate(scene().objects):
        for way in share(WAYS, 2, number):
            before = harmed(key, way)
            store = Shelf(before)
            check(name, way, key, Runner(shop.agent(), store=store))
            check_kept(before, store.bodies)


@pytest.mark.parametrize("way", ["missing", "empty", "cut in half"])
@pytest.mark.parametrize("name", WORKS)
def test_the_same_on_a_disk(name: str, way: str, tmp_path: Path) -> None:
    """R-E6, R-E7, PA-10: what stood there before stands, byte for byte."""
    first = [*WORKS].index(name) + len(way)
    for number, key in enumerate(share(scene().objects, 3, first)):
        before = harmed(key, way)
        folder = shop.on_disk(before, tmp_path / str(number))
        check(name, way, key, shop.runner(folder))
        check_kept(before, shop.bodies(folder))


@pytest.mark.parametrize("way", ["missing", "empty", "cut in half"])
def test_the_doctor_names_what_is_damaged_and_changes_nothing(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R-E7: also what nobody needs any more, and of no other run."""
    for number, key in enumerate(scene().objects):
        before = harmed(key, way)
        folder = shop.on_disk(before, tmp_path / str(number))
        seen = scene().part(key) != ""
        if way == "missing":
            seen = key in scene().versions[1:]

        code = main(["doctor", RUN, "--store", f"file:{folder}"])

        assert (1 if seen else 0) == code
        assert seen == (key in capsys.readouterr().out)
        assert before == shop.bodies(folder)


@pytest.mark.parametrize("way", ["missing", "zero-filled"])
def test_the_other_run_goes_on_and_so_does_this_one_once_mended(
    way: str, tmp_path: Path
) -> None:
    """R-E7, R-E10, EF-18: the sweep goes on; with the good bytes back all is well."""
    theirs = [k for k in scene().objects if RUN in k or k.startswith("probe/")]
    for number, key in enumerate(theirs):
        # Given a store in which an object of one run is damaged
        folder = shop.on_disk(harmed(key, way), tmp_path / str(number))
        runner = shop.runner(folder)

        # When the other run is decided, and nobody does anything but sweep
        first, second = runner.look(OTHER).waits
        for wait in (first, second):
            approve(runner, wait.id)
            assert OTHER not in runner.sweep().failed

        # Then it comes to its end
        assert "finished" == runner.look(OTHER).status

        # And so does the first, once the bytes are back; markers and waits may have
        # gone, because the sweep had no need of them
        path = folder / key
        if path.exists() or not key.startswith(("waits/", "markers/")):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(scene().objects[key])
        ended = shop.finished(runner, RUN)
        assert isinstance(ended, Finished)
        assert "all paid" == ended.output


# Not even a file -------------------------------------------------------------


def _link_inside(path: Path) -> None:
    copy = path.parent.parent / "copy"
    shutil.copy(path, copy)
    path.unlink()
    path.symlink_to(copy)


def _link_outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


ODDITIES = (_link_inside, _link_outside, _dangling, _circle, _folder, _pipe)


def asked_for(name: str, key: str) -> bool:
    """Whether some work needs an object, and knows of it without a listing.

    What is no file is not listed, so whoever finds a thing there does not see it.
    """
    _, needs = WORKS[name]
    part = scene().part(key)
    found = key == scene().versions[0] or (
        part in ("decision", "letter") and name != "decide again"
    )
    return part in needs and not found


@pytest.mark.parametrize("odd", ODDITIES, ids=lambda odd: odd.__name__[1:])
@pytest.mark.parametrize("name", [*WORKS, "doctor", "doctor --repair"])
def test_what_is_no_file_is_typed_too(
    name: str, odd: Callable[[Path], None], tmp_path: Path
) -> None:
    """R-E6, R-E7: links, folders and pipes in the place of an object."""
    passwd = os.stat("/etc/passwd")  # noqa: PTH116 - its times
    first = [*WORKS, name].index(name) + ODDITIES.index(odd)
    for number, key in enumerate(share(scene().objects, 4, first)):
        folder = shop.copied(tmp_path / str(number))
        odd(folder / key)
        there = os.lstat(folder / key).st_ino
        before = {k: b for k, b in shop.bodies(folder).items() if k != key}

        if name in WORKS:
            refused = attempt(name, shop.runner(folder), key) is not None
            assert refused or not asked_for(name, key), key
        else:
            code = main([*name.split(), RUN, "--store", f"file:{folder}"])
            assert code in (0, 1, 4, 5)

        # Then it is still there, but for what may always go, and so is all the rest
        gone = not os.path.lexists(folder / key)
        assert key.startswith(("waits/", "markers/")) or not gone
        assert gone or there == os.lstat(folder / key).st_ino
        check_kept(before, shop.bodies(folder))
    assert passwd.st_mtime_ns == os.stat("/etc/passwd").st_mtime_ns  # noqa: PTH116


@pytest.mark.parametrize("name", ["runs", f"runs/{RUN}", f"runs/{RUN}/v", "waits"])
def test_a_linked_folder_is_not_entered(name: str, tmp_path: Path) -> None:
    """R-E6: neither a run's folder nor those above it, for reading or for writing."""
    folder, elsewhere = shop.copied(tmp_path), tmp_path / "elsewhere"
    shutil.move(folder / name, elsewhere)
    (folder / name).symlink_to(elsewhere)
    before = shop.bodies(elsewhere)
    runner = shop.runner(folder)

    refused = 0
    for work, _ in WORKS.values():
        try:
            work(runner)
        except ContinuationsError:
            refused += 1

    assert refused > 1
    assert before == shop.bodies(elsewhere)
    if name != "waits":
        with pytest.raises(StoreError):
            runner.look(RUN)


def test_leftovers_are_nothing(tmp_path: Path) -> None:
    """R-E6: temporary files and strangers in every folder change nothing."""
    folder = shop.copied(tmp_path)
    names = (".tmp+x", "0000000000.tmp+", ".nfs0001+", "x y", "core.1+2", "~$a+")
    for below in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        for name in names:
            (below / name).write_bytes(b"half a body")
    runner = shop.runner(folder)

    assert 3 == len(list(runner.waiting()))
    assert 0 == main(["doctor", RUN, "--store", f"file:{folder}"])
    assert {} == runner.sweep().failed
    for run_id in (RUN, OTHER):
        assert isinstance(shop.finished(runner, run_id), Finished)
    assert all((folder / name).read_bytes() == b"half a body" for name in names)


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"missing"}))
def test_a_run_can_be_ended_whatever_its_waits_and_decisions_hold(
    way: str, tmp_path: Path
) -> None:
    """R-F6: cancelling reads neither."""
    folder = shop.copied(tmp_path)
    for key in shop.keys(folder, "waits/", f"runs/{RUN}/in/d-"):
        path = folder / key
        path.write_bytes(WAYS[way](path.read_bytes()) or b"")
    runner = shop.runner(folder)

    assert "cancelled" == runner.cancel(RUN, by="kim").status
    with pytest.raises((Cancelled, FormatError)):
        approve(runner, scene().waits)


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"missing"}))
def test_a_damaged_wish_to_cancel_is_named(way: str, tmp_path: Path) -> None:
    """R-E7: neither taken for a wish nor for none; nobody runs past it."""
    folder = shop.copied(tmp_path)
    runner = shop.runner(folder)
    wish = layout.cancellation(RUN)
    body = WAYS[way](b"CONT" + bytes(60)) or b""
    (folder / wish).write_bytes(body)

    for name in ("resume", "cancel", "sweep"):
        assert isinstance(attempt(name, runner, wish), FormatError)
    assert body == (folder / wish).read_bytes()
