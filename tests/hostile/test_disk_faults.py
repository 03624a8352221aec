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
from tests.engine.door import Silent
from tests.hostile import shop
from tests.hostile.office import RUN, Office
from tests.hostile.share import share

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


class Disk:
    """Counts one system call and fails from the n-th on, once or for as long as on."""

    def __init__(self, patch: pytest.MonkeyPatch, call: str, number: int) -> None:
        self.calls = 0
        self.first = 0
        self.last = 0
        self._number = number
        honest: Callable[..., Any] = getattr(os, call)

        def faulty(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.first <= self.calls <= self.last:
                raise OSError(self._number, os.strerror(self._number))
            return honest(*given, **named)

        patch.setattr(os, call, faulty)

    def fails(self, first: int, last: int) -> None:
        """Fail these calls, by their number from now on."""
        self.calls, self.first, self.last = 0, first, last

    def mended(self) -> None:
        """Fail no more."""
        self.last = 0


def silent(folder: Path) -> Silent:
    """Return a folder's store that does not tell the time: the clocks are moved on."""
    return Silent(FileStore(folder))


def lived(office: Office, folder: Path) -> bool:
    """Start, decide and resume until the run has ended."""
    runner = office.runner(silent(folder))
    outcome = runner.start("go", run_id=RUN)
    return isinstance(office.ended(runner, outcome), Finished)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize(
    ("call", "number", "expected"),
    FAULTS,
    ids=[f"{call} {errno.errorcode[number]}" for call, number, _ in FAULTS],
)
def test_every_failing_call_is_typed_and_loses_nothing(
    call: str,
    number: int,
    expected: tuple[type[StoreError], ...],
    lasting: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-E6, R-E10, R-A8, PA-10: what stood before stands; then the run goes on."""
    disk = Disk(monkeypatch, call, number)
    assert lived(Office(small=True), tmp_path / "whole")
    total = disk.calls
    assert total > 2

    refused = 0
    for first in share(range(1, total + 1), 4 if lasting else 2):
        folder = tmp_path / f"{first}"
        office = Office(small=True)
        disk.fails(first, 10**9 if lasting else first)
        try:
            lived(office, folder)
        except expected as error:
            refused += 1
            assert os.strerror(number) in str(error)  # noqa: PT017 - not all are fatal
        disk.mended()
        before = shop.bodies(folder)

        # The claim of before is over, and people look at what happened
        office.clock.ahead += 60
        runner = office.runner(silent(folder))
        runner.sweep()
        assert lived(office, folder)
        assert ["pay 2", "send 1"] == sorted(office.done()), first

        # Versions and what came from outside are what they were, byte for byte
        after = shop.bodies(folder)
        for key, body in before.items():
            assert not key.startswith("runs/") or body == after[key]
        desk = folder / ".tmp+"
        assert call == "unlink" or [] == list(desk.iterdir())
        office.clock.ahead += 7200
        for _ in range(2):
            runner.sweep()
        assert [] == shop.keys(folder, "markers/", "waits/"), first
    assert refused > 0 or call == "unlink"


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_disk_that_cannot_be_read_is_typed_for_every_question(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-E5: never "no such run", never "no such wait", and nothing is changed."""
    folder = shop.copied(tmp_path)
    before = shop.bodies(folder)
    runner = shop.runner(folder)
    (wait, *_) = runner.look(shop.RUN).waits
    honest = os.open

    def faulty(path: Any, *given: Any, **named: Any) -> int:
        if named.get("dir_fd") is not None:
            raise OSError(number, os.strerror(number))
        return honest(path, *given, **named)

    works: list[Callable[[], object]] = [
        lambda: runner.look(shop.RUN),
        lambda: runner.wait(wait.id),
        lambda: list(runner.waiting()),
        lambda: runner.resume(shop.RUN),
        lambda: runner.cancel(shop.RUN),
        lambda: runner.send(shop.RUN, "hello"),
        lambda: runner.start("go", run_id=shop.RUN),
        runner.sweep,
    ]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", faulty)
        for work in works:
            with pytest.raises(StoreError):
                work()
    assert before == shop.bodies(folder)
    assert isinstance(shop.finished(runner, shop.RUN), Finished)


def read_only(patch: pytest.MonkeyPatch) -> None:
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
    folder = shop.copied(tmp_path)
    before = shop.bodies(folder)
    runner = shop.runner(folder)
    listed = [each.id for each in runner.waiting()]
    (wait, *_) = runner.look(shop.OTHER).waits
    works: list[Callable[[], object]] = [
        lambda: runner.decide(wait.id, Approve(by="kim")),
        lambda: runner.send(shop.RUN, "hello"),
        lambda: runner.cancel(shop.RUN),
        lambda: runner.start("go", run_id="new"),
        lambda: runner.resume(shop.RUN),
    ]

    # When the folder may only be read
    with monkeypatch.context() as patch:
        read_only(patch)

        # Then it is read
        assert listed == [each.id for each in runner.waiting()]
        assert "suspended" == runner.look(shop.RUN).status
        # And whoever has to write is told so
        for work in works:
            with pytest.raises(StoreDenied):
                work()
        failed = runner.sweep().failed
        assert {shop.RUN: StoreDenied} == {k: type(e) for k, e in failed.items()}

    # And once it may be written all goes on from where it was
    assert before == shop.bodies(folder)
    assert isinstance(shop.finished(runner, shop.RUN), Finished)


def test_a_key_that_is_taken_and_not_listed_ends_every_loop(tmp_path: Path) -> None:
    """R-E7: a pipe where the newest version was; nobody turns round and round."""
    folder = shop.copied(tmp_path)
    newest = min((folder / f"runs/{shop.RUN}/v").iterdir())
    newest.unlink()
    os.mkfifo(newest)
    office = Office()
    office.clock.ahead = 60
    runner = Runner(shop.agent(), store=silent(folder), clock=office.clock)
    for work in (runner.resume, runner.cancel, runner.resume):
        with pytest.raises(ContinuationsError) as raised:
            work(shop.RUN)
        assert not isinstance(raised.value, StaleRun)
    with suppress(ContinuationsError):
        runner.sweep()
