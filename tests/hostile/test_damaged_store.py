"""Damaged objects raise errors that name them, and are never changed."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from continuations import Approve, ContinuationsError, Finished, Runner
from continuations.cli import main
from continuations.errors import Cancelled, FormatError, RunBusy, StoreError
from continuations.ledger import layout
from continuations.ledger.versions import FIRST_TREE
from continuations_storage import SQLiteStore, Store, SyncStore, open_store
from tests.hostile import sample_store
from tests.hostile.editable_store import EditableStore
from tests.hostile.sample_store import OTHER, RUN
from tests.hostile.sampling import every_nth
from tests.ledger.damage import DAMAGES
from tests.postgres_server import PostgresServer


@dataclass(frozen=True)
class TemplateContents:
    """The objects of the template, and the waits and versions of RUN."""

    objects: dict[str, bytes]
    decided_wait_id: str
    open_wait_id: str
    versions: tuple[str, ...]

    def role_of(self, key: str) -> str:
        """Return the role of an object for RUN, "" for none."""
        if key in (
            layout.version_key(RUN, n) for n in FIRST_TREE.chain(len(self.versions))
        ):
            return "version"
        if key in self.versions:
            return "old version"
        roles = {"in/d-": "decision", "in/m-": "message"}
        for prefix, role in roles.items():
            if key.startswith(f"runs/{RUN}/{prefix}"):
                return role
        return "wait" if key == f"waits/{self.open_wait_id}" else ""


@cache
def template_contents() -> TemplateContents:
    """Read the template, once."""
    decided_wait_id, open_wait_id = (
        w.id
        for w in sample_store.sample_runner(sample_store.template_store())
        .look(RUN)
        .waits
    )
    objects = sample_store.store_bodies(sample_store.template_store())
    versions = (key for key in objects if key.startswith(f"runs/{RUN}/v/"))
    return TemplateContents(objects, decided_wait_id, open_wait_id, tuple(versions))


def sweep_or_raise(runner: Runner) -> None:
    """Sweep, and raise the error of RUN, if there is one."""
    errors = runner.sweep().errors
    assert errors.keys() <= {RUN}
    if errors:
        raise errors[RUN]


# All operations, and the roles of the objects that each of them needs.
OPERATIONS: dict[str, tuple[Callable[[Runner], Any], set[str]]] = {
    "look": (lambda runner: runner.look(RUN), {"version"}),
    "waiting": (lambda runner: list(runner.waiting()), set()),
    "wait": (lambda runner: runner.wait(template_contents().open_wait_id), {"wait"}),
    "decide": (
        lambda runner: approve_wait(runner, template_contents().open_wait_id),
        {"wait"},
    ),
    "decide again": (
        lambda runner: approve_wait(runner, template_contents().decided_wait_id),
        {"decision"},
    ),
    "send": (lambda runner: runner.send(RUN, "More."), {"version"}),
    "start": (
        lambda runner: runner.start("go", run_id=RUN),
        {"version", "decision"},
    ),
    "resume": (
        lambda runner: runner.resume(RUN),
        {"version", "decision"},
    ),
    "sweep": (sweep_or_raise, {"version", "decision"}),
    "cancel": (lambda runner: runner.cancel(RUN), {"version"}),
}


def approve_wait(runner: Runner, wait_id: str) -> object:
    return runner.decide(wait_id, Approve(by="kim"))


def run_operation(
    operation: str, runner: Runner, key: str
) -> ContinuationsError | None:
    """Run an operation; its error, if any, is typed and names the object."""
    run, _ = OPERATIONS[operation]
    try:
        run(runner)
    except RunBusy as error:
        # Without its newest version the run is as it was before: claimed.
        assert key == template_contents().versions[0]
        return error
    except ContinuationsError as error:
        assert key in str(error)  # noqa: PT017 - not every operation raises
        return error
    return None


def with_damage(key: str, way: str) -> dict[str, bytes]:
    """Return the bodies of the template, one of them damaged."""
    bodies = template_contents().objects
    damaged = DAMAGES[way](bodies[key])
    rest = {other: body for other, body in bodies.items() if other != key}
    return rest if damaged is None else rest | {key: damaged}


def check_refused_if_needed(operation: str, way: str, key: str, runner: Runner) -> None:
    """An operation that needs the object raises an error; all others work."""
    _, needs = OPERATIONS[operation]
    needed = template_contents().role_of(key) in needs
    if way == "missing":
        # Only a missing version is noticed, because later versions refer to it.
        needed = needed and key in template_contents().versions[1:]
    assert needed == isinstance(run_operation(operation, runner, key), FormatError), (
        key,
        way,
    )


_DELETABLE = ("index/", "waits/", "markers/")


def check_nothing_overwritten(
    before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    """No object is overwritten; only keys that can be made again may be deleted."""
    for other, body in before.items():
        assert body == after.get(other, body)
        assert other in after or other.startswith(_DELETABLE)


def test_the_template_has_an_object_of_every_kind() -> None:
    """The tests below would pass for an empty store too."""
    roles = {template_contents().role_of(key) for key in template_contents().objects}

    assert {"version", "old version", "decision", "message", "wait", ""} == roles
    assert {"index", "waits", "markers", "probe", "runs"} == {
        key.partition("/")[0] for key in template_contents().objects
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damage_raises_typed_error_and_overwrites_nothing(operation: str) -> None:
    """Promise 5: for each object, damage and operation."""
    first = [*OPERATIONS].index(operation)
    for number, key in enumerate(template_contents().objects):
        for way in every_nth(DAMAGES, 6, first + number):
            before = with_damage(key, way)
            store = EditableStore(before)
            check_refused_if_needed(
                operation, way, key, Runner(sample_store.sample_agent(), store=store)
            )
            check_nothing_overwritten(before, store.bodies)


@pytest.mark.parametrize("way", ["missing", "empty", "cut in half"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_damage_on_disk_raises_typed_error_and_overwrites_nothing(
    operation: str, way: str, tmp_path: Path
) -> None:
    """Promise 5: on disk, all other files stay as they are, byte for byte."""
    first = [*OPERATIONS].index(operation) + len(way)
    for number, key in enumerate(every_nth(template_contents().objects, 3, first)):
        before = with_damage(key, way)
        folder = sample_store.write_bodies(before, tmp_path / str(number))
        check_refused_if_needed(operation, way, key, sample_store.sample_runner(folder))
        check_nothing_overwritten(before, sample_store.store_bodies(folder))


def check_damage_in_databases(operation: str, new_store: Callable[[], Store]) -> None:
    """Check an operation on some objects, each damaged in an empty store."""
    ways = ("missing", "empty", "cut in half")
    cases = [(key, way) for key in template_contents().objects for way in ways]
    for key, way in every_nth(cases, 16, [*OPERATIONS].index(operation)):
        before, store = with_damage(key, way), new_store()
        with SyncStore(store) as rows:
            for name, body in before.items():
                rows.create(name, body)
            runner = Runner(sample_store.sample_agent(), store=store)
            check_refused_if_needed(operation, way, key, runner)
            after = {name: rows.read(name) for name in rows.all_keys("")}
        check_nothing_overwritten(before, after)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damage_in_sqlite_raises_typed_error_and_overwrites_nothing(
    operation: str, tmp_path: Path
) -> None:
    """Promise 5: in a database, all other rows stay as they are."""
    names = itertools.count()
    check_damage_in_databases(
        operation, lambda: SQLiteStore(tmp_path / f"{next(names)}.db")
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_damage_in_postgres_raises_typed_error_and_overwrites_nothing(
    operation: str, postgres: PostgresServer
) -> None:
    """As in SQLite."""
    check_damage_in_databases(operation, lambda: open_store(postgres.new_url()))


@pytest.mark.parametrize("way", ["missing", "empty", "cut in half"])
def test_the_doctor_names_what_is_damaged_and_changes_nothing(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`doctor` finds damage also in objects that no operation needs any more."""
    for number, key in enumerate(template_contents().objects):
        before = with_damage(key, way)
        folder = sample_store.write_bodies(before, tmp_path / str(number))
        noticed = template_contents().role_of(key) != ""
        if way == "missing":
            noticed = key in template_contents().versions[1:]

        code = main(["doctor", RUN, "--store", f"file:{folder}"])

        assert (1 if noticed else 0) == code
        assert noticed == (key in capsys.readouterr().out)
        assert before == sample_store.store_bodies(folder)


@pytest.mark.parametrize("way", ["missing", "zero-filled"])
def test_damage_of_one_run_blocks_no_other_run(way: str, tmp_path: Path) -> None:
    """A sweep continues with other runs; restored bytes make the run usable again."""
    keys_of_run = [
        k for k in template_contents().objects if RUN in k or k.startswith("probe/")
    ]
    versions = template_contents().versions
    for number, key in enumerate(keys_of_run):
        # Given a store in which an object of one run is damaged
        folder = sample_store.write_bodies(
            with_damage(key, way), tmp_path / str(number)
        )
        runner = sample_store.sample_runner(folder)

        # When the other run is decided, and then only sweeps run
        first, second = runner.look(OTHER).waits
        for wait in (first, second):
            approve_wait(runner, wait.id)
            assert OTHER not in runner.sweep().errors

        # Then it is finished
        assert "finished" == runner.look(OTHER).status

        # And so is the first one, once the bytes are restored. The sweep may have
        # deleted markers and waits that it did not need. If the newest version was
        # missing and a marker came due, the sweep continued from the version before.
        path = folder / key
        was_continued = way == "missing" and key in versions and path.exists()
        is_needed = path.exists() or not key.startswith(_DELETABLE)
        if is_needed and not was_continued:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(template_contents().objects[key])
        ended = sample_store.finish_run(runner, RUN)
        assert isinstance(ended, Finished)
        assert "all paid" == ended.output


# Links, folders and pipes instead of files -------------------------------------------


def _link_inside(path: Path) -> None:
    copy = path.parent.parent / "copy"
    shutil.copy(path, copy)
    path.unlink()
    path.symlink_to(copy)


def _link_outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def _dangling_symlink(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _symlink_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"x")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FILE_REPLACEMENTS = (
    _link_inside,
    _link_outside,
    _dangling_symlink,
    _symlink_loop,
    _directory,
    _fifo,
)


def needed_without_listing(operation: str, key: str) -> bool:
    """Tell whether an operation needs an object and finds it without a listing.

    A listing shows only files, so it does not show a link, folder or pipe.
    """
    _, needs = OPERATIONS[operation]
    role = template_contents().role_of(key)
    is_listed = key == template_contents().versions[0] or (
        role in ("decision", "message") and operation != "decide again"
    )
    return role in needs and not is_listed


@pytest.mark.parametrize(
    "replace", FILE_REPLACEMENTS, ids=lambda each: each.__name__[1:]
)
@pytest.mark.parametrize("operation", [*OPERATIONS, "doctor", "doctor --repair"])
def test_object_replaced_by_link_folder_or_pipe_raises_typed_error(
    operation: str, replace: Callable[[Path], None], tmp_path: Path
) -> None:
    """Promise 5: links, folders and pipes are never followed, read or deleted."""
    passwd = os.stat("/etc/passwd")  # noqa: PTH116 - its times
    first = [*OPERATIONS, operation].index(operation) + FILE_REPLACEMENTS.index(replace)
    for number, key in enumerate(every_nth(template_contents().objects, 8, first)):
        folder = sample_store.copy_template(tmp_path / str(number))
        replace(folder / key)
        inode = os.lstat(folder / key).st_ino
        before = {
            k: b for k, b in sample_store.store_bodies(folder).items() if k != key
        }

        if operation in OPERATIONS:
            raised = (
                run_operation(operation, sample_store.sample_runner(folder), key)
                is not None
            )
            assert raised or not needed_without_listing(operation, key), key
        else:
            code = main([*operation.split(), RUN, "--store", f"file:{folder}"])
            assert code in (0, 1, 4, 5)

        # Then it still exists, unless it may always be deleted, and so do all others
        deleted = not os.path.lexists(folder / key)
        assert key.startswith(_DELETABLE) or not deleted
        assert deleted or inode == os.lstat(folder / key).st_ino
        check_nothing_overwritten(before, sample_store.store_bodies(folder))
    assert passwd.st_mtime_ns == os.stat("/etc/passwd").st_mtime_ns  # noqa: PTH116


@pytest.mark.parametrize("operation", ["runs", f"runs/{RUN}", f"runs/{RUN}/v", "waits"])
def test_a_linked_folder_is_not_entered(operation: str, tmp_path: Path) -> None:
    """A linked folder of a run, or above it, is neither read nor written."""
    folder, elsewhere = sample_store.copy_template(tmp_path), tmp_path / "elsewhere"
    shutil.move(folder / operation, elsewhere)
    (folder / operation).symlink_to(elsewhere)
    before = sample_store.store_bodies(elsewhere)
    runner = sample_store.sample_runner(folder)

    error_count = 0
    for run, _ in OPERATIONS.values():
        try:
            run(runner)
        except ContinuationsError:
            error_count += 1

    assert error_count > 1
    assert before == sample_store.store_bodies(elsewhere)
    if operation != "waits":
        with pytest.raises(StoreError):
            runner.look(RUN)


def test_leftover_files_are_ignored(tmp_path: Path) -> None:
    """Temporary and foreign files in every folder change nothing."""
    folder = sample_store.copy_template(tmp_path)
    names = (".tmp+x", "0000000000.tmp+", ".nfs0001+", "x y", "core.1+2", "~$a+")
    for below in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        for name in names:
            (below / name).write_bytes(b"half a body")
    runner = sample_store.sample_runner(folder)

    assert 3 == len(list(runner.waiting()))
    assert 0 == main(["doctor", RUN, "--store", f"file:{folder}"])
    assert {} == runner.sweep().errors
    for run_id in (RUN, OTHER):
        assert isinstance(sample_store.finish_run(runner, run_id), Finished)
    assert all((folder / name).read_bytes() == b"half a body" for name in names)


@pytest.mark.parametrize("way", sorted(set(DAMAGES) - {"missing"}))
def test_cancel_works_with_damaged_waits_and_decisions(
    way: str, tmp_path: Path
) -> None:
    """Cancelling reads neither waits nor decisions."""
    folder = sample_store.copy_template(tmp_path)
    for key in sample_store.store_keys(folder, "waits/", f"runs/{RUN}/in/d-"):
        path = folder / key
        path.write_bytes(DAMAGES[way](path.read_bytes()) or b"")
    runner = sample_store.sample_runner(folder)

    assert "cancelled" == runner.cancel(RUN, by="kim").status
    with pytest.raises((Cancelled, FormatError)):
        approve_wait(runner, template_contents().open_wait_id)


@pytest.mark.parametrize("way", sorted(set(DAMAGES) - {"missing"}))
def test_damaged_cancel_request_is_named(way: str, tmp_path: Path) -> None:
    """A damaged cancel request counts neither as a request nor as none."""
    folder = sample_store.copy_template(tmp_path)
    runner = sample_store.sample_runner(folder)
    key = layout.cancel_request_key(RUN)
    body = DAMAGES[way](b"CONT" + bytes(60)) or b""
    (folder / key).write_bytes(body)

    for name in ("resume", "cancel", "sweep"):
        assert isinstance(run_operation(name, runner, key), FormatError)
    assert body == (folder / key).read_bytes()
