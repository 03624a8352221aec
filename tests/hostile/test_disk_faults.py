"""A full, broken or read-only disk, at every system call of a run."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from continuations import Approve, ContinuationsError, Finished, Runner
from continuations.errors import (
    Inconclusive,
    StaleRun,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from continuations_storage import FileStore
from tests.hostile import sample_store
from tests.hostile.recorded_app import RUN, SHORT_SCRIPT, RecordedApp
from tests.hostile.sampling import every_nth
from tests.stores import StoreWithoutTime

# A system call, its error, and the errors that the library may raise.
FAULTS: list[tuple[str, int, tuple[type[StoreError], ...]]] = [
    ("write", errno.ENOSPC, (StoreUnavailable,)),
    ("write", errno.EIO, (StoreUnavailable,)),
    ("fsync", errno.EIO, (StoreUnavailable, Inconclusive)),
    ("link", errno.ENOSPC, (StoreUnavailable,)),
    ("link", errno.EROFS, (StoreDenied,)),
    ("mkdir", errno.ENOSPC, (StoreUnavailable,)),
    ("unlink", errno.EROFS, (StoreDenied,)),
]


class FailingSystemCall:
    """Counts the calls of one system call and fails some of them."""

    def __init__(self, patch: pytest.MonkeyPatch, call: str, error_number: int) -> None:
        self.calls = 0
        self.first = 0
        self.last = 0
        self._number = error_number
        original: Callable[..., Any] = getattr(os, call)

        def faulty(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.first <= self.calls <= self.last:
                raise OSError(self._number, os.strerror(self._number))
            return original(*given, **named)

        patch.setattr(os, call, faulty)

    def fail_calls(self, first: int, last: int) -> None:
        """Fail the calls with these numbers, counted from now on."""
        self.calls, self.first, self.last = 0, first, last

    def stop_failing(self) -> None:
        """Let all calls succeed."""
        self.last = 0


def store_without_time(folder: Path) -> StoreWithoutTime:
    """Return a file store that does not tell the time, because tests set the clock."""
    return StoreWithoutTime(FileStore(folder))


def run_to_end(app: RecordedApp, folder: Path) -> bool:
    """Start, decide and resume until the run has ended."""
    runner = app.runner(store_without_time(folder))
    outcome = runner.start("go", run_id=RUN)
    return isinstance(app.run_to_end(runner, outcome), Finished)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize(
    ("call", "error_number", "expected"),
    FAULTS,
    ids=[f"{call} {errno.errorcode[number]}" for call, number, _ in FAULTS],
)
def test_failing_system_call_raises_typed_error_and_loses_nothing(
    call: str,
    error_number: int,
    expected: tuple[type[StoreError], ...],
    lasting: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Promise 5: stored objects stay, and the run continues after the fault."""
    disk = FailingSystemCall(monkeypatch, call, error_number)
    assert run_to_end(RecordedApp(script=SHORT_SCRIPT), tmp_path / "whole")
    total = disk.calls
    assert total > 2

    error_count = 0
    for first in every_nth(range(1, total + 1), 6 if lasting else 4):
        folder = tmp_path / f"{first}"
        app = RecordedApp(script=SHORT_SCRIPT)
        disk.fail_calls(first, 10**9 if lasting else first)
        try:
            run_to_end(app, folder)
        except expected as error:
            error_count += 1
            assert os.strerror(error_number) in str(error)  # noqa: PT017 - not all are fatal
        disk.stop_failing()
        before = sample_store.store_bodies(folder)

        # When the claim has ended and the run is continued
        app.clock.offset_seconds += 60
        runner = app.runner(store_without_time(folder))
        runner.sweep()
        assert run_to_end(app, folder)
        assert ["act 1", "pay 2"] == sorted(app.effect_names()), first

        # Then versions, decisions and messages are the same, byte for byte
        after = sample_store.store_bodies(folder)
        for key, body in before.items():
            assert not key.startswith("runs/") or body == after[key]
        assert call == "unlink" or [] == list(folder.glob(".tmp+/*"))
        app.clock.offset_seconds += 7200
        for _ in range(2):
            runner.sweep()
        assert [] == sample_store.store_keys(folder, "markers/", "waits/"), first
    assert error_count > 0 or call == "unlink"


@pytest.mark.parametrize("error_number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_unreadable_disk_raises_store_error_for_every_operation(
    error_number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable disk never counts as a missing run or wait."""
    folder = sample_store.copy_template(tmp_path)
    before = sample_store.store_bodies(folder)
    runner = sample_store.sample_runner(folder)
    (wait, *_) = runner.look(sample_store.RUN).waits
    original = os.open

    def faulty(path: Any, *given: Any, **named: Any) -> int:
        if named.get("dir_fd") is not None:
            raise OSError(error_number, os.strerror(error_number))
        return original(path, *given, **named)

    operations: list[Callable[[], object]] = [
        lambda: runner.look(sample_store.RUN),
        lambda: runner.wait(wait.id),
        lambda: list(runner.waiting()),
        lambda: runner.resume(sample_store.RUN),
        lambda: runner.cancel(sample_store.RUN),
        lambda: runner.send(sample_store.RUN, "hello"),
        lambda: runner.start("go", run_id=sample_store.RUN),
        runner.sweep,
    ]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", faulty)
        for operation in operations:
            with pytest.raises(StoreError):
                operation()
    assert before == sample_store.store_bodies(folder)
    assert isinstance(sample_store.finish_run(runner, sample_store.RUN), Finished)


def make_disk_read_only(patch: pytest.MonkeyPatch) -> None:
    """Let the system refuse every write, as on a read-only file system."""

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    original = os.open

    def opened(path: Any, flags: int, *given: Any, **named: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        return refused() if writes else original(path, flags, *given, **named)

    patch.setattr(os, "open", opened)
    for call in ("mkdir", "link", "rename", "unlink", "rmdir"):
        patch.setattr(os, call, refused)


def test_read_only_folder_can_be_read_but_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation that writes raises `StoreDenied` and changes nothing."""
    # Given two runs, one of which can be resumed
    folder = sample_store.copy_template(tmp_path)
    before = sample_store.store_bodies(folder)
    runner = sample_store.sample_runner(folder)
    listed = [each.id for each in runner.waiting()]
    (wait, *_) = runner.look(sample_store.OTHER).waits
    operations: list[Callable[[], object]] = [
        lambda: runner.decide(wait.id, Approve(by="kim")),
        lambda: runner.send(sample_store.RUN, "hello"),
        lambda: runner.cancel(sample_store.RUN),
        lambda: runner.start("go", run_id="new"),
        lambda: runner.resume(sample_store.RUN),
    ]

    # When the folder is read-only
    with monkeypatch.context() as patch:
        make_disk_read_only(patch)

        # Then reading works
        assert listed == [each.id for each in runner.waiting()]
        assert "suspended" == runner.look(sample_store.RUN).status
        # And every operation that writes raises an error
        for operation in operations:
            with pytest.raises(StoreDenied):
                operation()
        errors = runner.sweep().errors
        assert {sample_store.RUN: StoreDenied} == {
            run_id: type(error) for run_id, error in errors.items()
        }

    # And once it is writable again the run continues
    assert before == sample_store.store_bodies(folder)
    assert isinstance(sample_store.finish_run(runner, sample_store.RUN), Finished)


def test_unlisted_existing_version_key_causes_no_endless_loop(tmp_path: Path) -> None:
    """A pipe in the place of the newest version raises an error, without a loop."""
    folder = sample_store.copy_template(tmp_path)
    newest = min((folder / f"runs/{sample_store.RUN}/v").iterdir())
    newest.unlink()
    os.mkfifo(newest)
    app = RecordedApp()
    app.clock.offset_seconds = 60
    runner = Runner(
        sample_store.sample_agent(),
        store=store_without_time(folder),
        clock=app.clock,
    )
    for operation in (runner.resume, runner.cancel, runner.resume):
        with pytest.raises(ContinuationsError) as raised:
            operation(sample_store.RUN)
        assert not isinstance(raised.value, StaleRun)
    with suppress(ContinuationsError):
        runner.sweep()
