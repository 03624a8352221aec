"""A disk that is full, broken or read-only, at every system call of a run's life."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Approve,
    ContinuationsError,
    Finished,
    Inconclusive,
    Runner,
    StaleRun,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from continuations_storage import FileStore
from tests.hostile import sample_store
from tests.hostile.recorded_app import RUN, RecordedApp
from tests.hostile.sampling import every_nth
from tests.stores import StoreWithoutTime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What each call is answered when it fails, and what we make of it.
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
    """Counts one system call and fails from the n-th on, once or for as long as on."""

    def __init__(self, patch: pytest.MonkeyPatch, call: str, error_number: int) -> None:
        self.calls = 0
        self.first = 0
        self.last = 0
        self._number = error_number
        honest: Callable[..., Any] = getattr(os, call)

        def faulty(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.first <= self.calls <= self.last:
                raise OSError(self._number, os.strerror(self._number))
            return honest(*given, **named)

        patch.setattr(os, call, faulty)

    def fail_calls(self, first: int, last: int) -> None:
        """Fail these calls, by their number from now on."""
        self.calls, self.first, self.last = 0, first, last

    def stop_failing(self) -> None:
        """Fail no more."""
        self.last = 0


def store_without_time(folder: Path) -> StoreWithoutTime:
    """Return a folder's store that does not tell the time: the clocks are moved on."""
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
    """R-E6, R-E10, R-A8, PA-10: what stood before stands; then the run goes on."""
    disk = FailingSystemCall(monkeypatch, call, error_number)
    assert run_to_end(RecordedApp(short_script=True), tmp_path / "whole")
    total = disk.calls
    assert total > 2

    refused = 0
    for first in every_nth(range(1, total + 1), 4 if lasting else 2):
        folder = tmp_path / f"{first}"
        office = RecordedApp(short_script=True)
        disk.fail_calls(first, 10**9 if lasting else first)
        try:
            run_to_end(office, folder)
        except expected as error:
            refused += 1
            assert os.strerror(error_number) in str(error)  # noqa: PT017 - not all are fatal
        disk.stop_failing()
        before = sample_store.store_bodies(folder)

        # The claim of before is over, and people look at what happened
        office.clock.offset_seconds += 60
        runner = office.runner(store_without_time(folder))
        runner.sweep()
        assert run_to_end(office, folder)
        assert ["pay 2", "send 1"] == sorted(office.effect_names()), first

        # Versions and what came from outside are what they were, byte for byte
        after = sample_store.store_bodies(folder)
        for key, body in before.items():
            assert not key.startswith("runs/") or body == after[key]
        desk = folder / ".tmp+"
        assert call == "unlink" or [] == list(desk.iterdir())
        office.clock.offset_seconds += 7200
        for _ in range(2):
            runner.sweep()
        assert [] == sample_store.store_keys(folder, "markers/", "waits/"), first
    assert refused > 0 or call == "unlink"


@pytest.mark.parametrize("error_number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_unreadable_disk_raises_store_error_for_every_operation(
    error_number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E5: never "no such run", never "no such wait", and nothing is changed."""
    folder = sample_store.copy_template(tmp_path)
    before = sample_store.store_bodies(folder)
    runner = sample_store.sample_runner(folder)
    (wait, *_) = runner.look(sample_store.RUN).waits
    honest = os.open

    def faulty(path: Any, *given: Any, **named: Any) -> int:
        if named.get("dir_fd") is not None:
            raise OSError(error_number, os.strerror(error_number))
        return honest(path, *given, **named)

    works: list[Callable[[], object]] = [
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
        for work in works:
            with pytest.raises(StoreError):
                work()
    assert before == sample_store.store_bodies(folder)
    assert isinstance(sample_store.finish_run(runner, sample_store.RUN), Finished)


def make_disk_read_only(patch: pytest.MonkeyPatch) -> None:
    """Let the system refuse all that writes, as it does to whoever is not root."""

    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    honest = os.open

    def opened(path: Any, flags: int, *given: Any, **named: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        return refused() if writes else honest(path, flags, *given, **named)

    patch.setattr(os, "open", opened)
    for call in ("mkdir", "link", "rename", "unlink", "rmdir"):
        patch.setattr(os, call, refused)


def test_a_folder_that_is_read_only_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E6, R-A4: nobody decides or moves anything, and nothing is half done."""
    # Given two runs, one of them with something to do
    folder = sample_store.copy_template(tmp_path)
    before = sample_store.store_bodies(folder)
    runner = sample_store.sample_runner(folder)
    listed = [each.id for each in runner.waiting()]
    (wait, *_) = runner.look(sample_store.OTHER).waits
    works: list[Callable[[], object]] = [
        lambda: runner.decide(wait.id, Approve(by="kim")),
        lambda: runner.send(sample_store.RUN, "hello"),
        lambda: runner.cancel(sample_store.RUN),
        lambda: runner.start("go", run_id="new"),
        lambda: runner.resume(sample_store.RUN),
    ]

    # When the folder may only be read
    with monkeypatch.context() as patch:
        make_disk_read_only(patch)

        # Then it is read
        assert listed == [each.id for each in runner.waiting()]
        assert "suspended" == runner.look(sample_store.RUN).status
        # And whoever has to write is told so
        for work in works:
            with pytest.raises(StoreDenied):
                work()
        failed = runner.sweep().errors
        assert {sample_store.RUN: StoreDenied} == {
            k: type(e) for k, e in failed.items()
        }

    # And once it may be written all goes on from where it was
    assert before == sample_store.store_bodies(folder)
    assert isinstance(sample_store.finish_run(runner, sample_store.RUN), Finished)


def test_unlisted_existing_version_key_causes_no_endless_loop(tmp_path: Path) -> None:
    """R-E7: a pipe where the newest version was; nobody turns round and round."""
    folder = sample_store.copy_template(tmp_path)
    newest = min((folder / f"runs/{sample_store.RUN}/v").iterdir())
    newest.unlink()
    os.mkfifo(newest)
    office = RecordedApp()
    office.clock.offset_seconds = 60
    runner = Runner(
        sample_store.sample_agent(),
        store=store_without_time(folder),
        clock=office.clock,
    )
    for work in (runner.resume, runner.cancel, runner.resume):
        with pytest.raises(ContinuationsError) as raised:
            work(sample_store.RUN)
        assert not isinstance(raised.value, StaleRun)
    with suppress(ContinuationsError):
        runner.sweep()
