"""Creates that wait at the same time share a thread and the flush of their folder."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import stat
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, suppress
from itertools import count, product
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from continuations_storage import FileStore
from continuations_storage.errors import AlreadyExists, StorageError
from continuations_storage.step_groups import StepGroups
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence
    from datetime import datetime
    from pathlib import Path
    from types import FrameType

    from continuations_storage.step_groups import SlowCall

_KEYS = [f"folder/{number:02d}" for number in range(16)]
_GROUP = 32
_MORE_THAN_LINES_OF_RUN = 9
_MORE_THAN_LINES_OF_START = 6


@asynccontextmanager
async def busy(groups: StepGroups) -> AsyncGenerator[None]:
    """Keep the thread of the groups busy, so that all others form one group."""
    entered, gate = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        entered.set()
        assert gate.wait(60)

    def hold() -> Generator[Sequence[SlowCall], None, None]:
        yield [(wait, 0)]

    holding = asyncio.ensure_future(groups.run(hold()))
    await asyncio.to_thread(entered.wait, 10)
    yield
    await asyncio.sleep(0)  # the creates of the caller are waiting now
    await asyncio.sleep(0)  # and the groups of other stores have a place in the queue
    gate.set()
    await holding


def creates(store: FileStore) -> StepGroups:
    return store._creates  # pyright: ignore[reportPrivateUsage]


def deletes(store: FileStore) -> StepGroups:
    return store._deletes  # pyright: ignore[reportPrivateUsage]


def create(store: FileStore, key: str) -> asyncio.Future[datetime]:
    return asyncio.ensure_future(store.create(key, key.encode()))


async def test_creates_that_wait_flush_their_folder_once_and_start_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen creates need 16 flushes of files, one of their folder, and no thread."""
    flushed: list[bool] = []
    started: list[str] = []
    fsync, start = os.fsync, threading.Thread.start

    def counted_fsync(descriptor: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    def counted_start(self: threading.Thread) -> None:
        started.append(self.name)
        start(self)

    store = FileStore(tmp_path)
    await store.create("folder/first", b"first")
    async with busy(creates(store)):
        monkeypatch.setattr(os, "fsync", counted_fsync)
        monkeypatch.setattr(threading.Thread, "start", counted_start)
        creating = [create(store, key) for key in _KEYS]
    await asyncio.gather(*creating)
    assert [await store.read(key) for key in _KEYS] == [k.encode() for k in _KEYS]

    assert flushed.count(False) == len(_KEYS)
    assert flushed.count(True) == 1
    assert "continuations-file" not in started


def test_creates_of_a_group_wake_their_event_loop_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wake-up is a system call, in which another thread takes the interpreter."""
    wakes = 0

    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def counted(*args: Any, **options: Any) -> asyncio.Handle:
            nonlocal wakes
            wakes += 1
            return wake(*args, **options)

        store = FileStore(tmp_path)
        await store.create("folder/first", b"first")
        async with busy(creates(store)):
            creating = [create(store, key) for key in _KEYS]
            await asyncio.sleep(0)
            monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        await asyncio.gather(*creating)
        return wakes

    # One for the operation that kept the thread busy, and one for the group.
    assert 2 == asyncio.run(scenario())


async def test_creates_of_two_event_loops_in_one_group_are_both_delivered(
    tmp_path: Path,
) -> None:
    """Also if the loop of one of them is closed meanwhile."""
    store = FileStore(tmp_path)
    closed = asyncio.new_event_loop()

    async with busy(creates(store)):
        abandoned = store.create("abandoned", b"x")

        def begin() -> None:
            closed.call_soon(abandoned.send, None)
            closed.run_until_complete(asyncio.sleep(0))
            closed.close()

        await asyncio.to_thread(begin)
        created = create(store, "mine")
    await created
    assert ["abandoned", "mine"] == await store.keys("")
    abandoned.close()


async def test_error_of_a_create_does_not_reach_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A taken key and a body that cannot be flushed fail alone."""
    fsync, fails = os.fsync, iter([True])  # for one of the threads

    def fails_once_for_a_file(descriptor: int) -> None:
        file = os.fstat(descriptor)
        # The file of the taken key has another size.
        is_new = stat.S_ISREG(file.st_mode) and file.st_size == len(_KEYS[0])
        if is_new and next(fails, False):
            raise OSError(errno.EIO, "the disk is damaged")
        fsync(descriptor)

    store = FileStore(tmp_path)
    await store.create("folder/taken", b"first")
    monkeypatch.setattr(os, "fsync", fails_once_for_a_file)
    async with busy(creates(store)):
        creating = [create(store, key) for key in (*_KEYS, "folder/taken")]
    results = await asyncio.gather(*creating, return_exceptions=True)
    assert b"first" == await store.read("folder/taken")
    listed = await store.keys("folder/")
    assert listed == sorted(
        key
        for key, result in zip((*_KEYS, "folder/taken"), results, strict=True)
        if not isinstance(result, StorageError) or isinstance(result, AlreadyExists)
    )
    *results, taken = list(results)

    assert isinstance(taken, AlreadyExists)
    assert 1 == sum(isinstance(result, StorageError) for result in results)


async def test_folder_is_flushed_after_the_last_link_of_each_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that began before a link does not make the name of this link durable."""
    made: list[str] = []
    fsync, link = os.fsync, os.link

    def recorded_fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            made.append("flush")
        fsync(descriptor)

    def recorded_link(*args: Any, **options: Any) -> None:
        link(*args, **options)
        made.append("link")

    store = FileStore(tmp_path)
    await store.create("folder/first", b"first")
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "link", recorded_link)
    async with busy(creates(store)):
        creating = [create(store, f"folder/{i}") for i in range(_GROUP + 8)]
    await asyncio.gather(*creating)

    assert made == [*["link"] * _GROUP, "flush", *["link"] * 8, "flush"]


async def test_folder_that_cannot_be_flushed_fails_every_create_of_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fails_for_a_folder(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "the disk is damaged")
        fsync(descriptor)

    store = FileStore(tmp_path)
    await store.create("folder/first", b"first")
    async with busy(creates(store)):
        monkeypatch.setattr(os, "fsync", fails_for_a_folder)
        creating = [create(store, key) for key in _KEYS]
    results = list(await asyncio.gather(*creating, return_exceptions=True))

    assert len(_KEYS) == sum(isinstance(result, StorageError) for result in results)


@pytest.mark.parametrize("mode", [0o644, 0o1644], ids=["flushed", "marked"])
async def test_creates_of_a_taken_key_flush_its_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Also if its creator is not done, which the sticky bit marks."""
    flushed: list[bool] = []
    fsync = os.fsync

    def counted_fsync(descriptor: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    store = FileStore(tmp_path)
    await store.create("folder/taken", b"first")
    (tmp_path / "folder/taken").chmod(mode)
    async with busy(creates(store)):
        monkeypatch.setattr(os, "fsync", counted_fsync)
        creating = [create(store, "folder/taken") for _ in _KEYS]
    results = list(await asyncio.gather(*creating, return_exceptions=True))

    assert [AlreadyExists] * len(_KEYS) == [type(result) for result in results]
    assert flushed.count(True) == 1


async def test_large_body_does_not_hold_a_small_create(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal of a claim is made while a file of many megabytes is flushed."""
    large = bytes((1 << 20) + 1)
    entered, gate = threading.Event(), threading.Event()
    fsync = os.fsync

    def waits_for_the_small_one(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == len(large):
            entered.set()
            gate.wait(60)
        fsync(descriptor)

    store = FileStore(tmp_path)
    monkeypatch.setattr(os, "fsync", waits_for_the_small_one)
    creating = asyncio.ensure_future(store.create("large", large))
    assert await asyncio.to_thread(entered.wait, 10)
    try:
        await asyncio.wait_for(store.create("small", b"small"), 60)
    finally:
        gate.set()
    await creating
    assert large == await store.read("large")


def test_deletes_of_a_group_remove_their_files_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal takes milliseconds if the file system discards blocks at once."""
    unlink, all_began = os.unlink, threading.Barrier(len(_KEYS))

    def waits_for_the_others(*args: Any, **options: Any) -> None:
        all_began.wait(60)
        unlink(*args, **options)

    async def scenario() -> list[str]:
        store = FileStore(tmp_path)
        await asyncio.gather(*(create(store, key) for key in [*_KEYS, "folder/kept"]))
        monkeypatch.setattr(os, "unlink", waits_for_the_others)
        async with busy(deletes(store)):
            deleting = [asyncio.ensure_future(store.delete(key)) for key in _KEYS]
        await asyncio.gather(*deleting)
        return await store.keys("folder/")

    assert ["folder/kept"] == asyncio.run(scenario())


async def test_creates_flush_in_parallel_while_removals_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removals have threads of their own."""
    unlink, fsync = os.unlink, os.fsync
    gate, all_began = threading.Event(), threading.Barrier(3)
    all_hang = threading.Barrier(_GROUP + 1)

    def hangs(*args: Any, **options: Any) -> None:
        all_hang.wait(60)
        assert gate.wait(60)
        unlink(*args, **options)

    def waits_for_the_others(descriptor: int) -> None:
        all_began.wait(60)
        fsync(descriptor)

    store = FileStore(tmp_path)
    keys = [f"folder/{number}" for number in range(_GROUP)]
    await asyncio.gather(*(create(store, key) for key in keys))
    monkeypatch.setattr(os, "unlink", hangs)
    monkeypatch.setattr(os, "fsync", waits_for_the_others)
    async with busy(deletes(store)):
        deleting = [asyncio.ensure_future(store.delete(key)) for key in keys]
    await asyncio.to_thread(all_hang.wait, 10)
    async with busy(creates(store)):
        new = [store.create(f"folder/new-{i}", b"") for i in range(2)]
        creating = asyncio.gather(*new)
    try:
        # Two empty bodies and their folder are flushed at the same time.
        await asyncio.wait_for(creating, 60)
    finally:
        gate.set()
    await asyncio.gather(*deleting)
    assert ["folder/new-0", "folder/new-1"] == await store.keys("folder/")


async def test_busy_store_gives_its_thread_to_other_stores_after_a_group() -> None:
    """With one thread, the other store is served before the second group."""
    pool = DaemonThreadPool(1, "test-fair")
    made: list[str] = []

    def step(name: str) -> Generator[Sequence[SlowCall], None, None]:
        made.append(name)
        yield from ()

    many, other = StepGroups(pool), StepGroups(pool)
    async with busy(many):
        waiting = [asyncio.ensure_future(many.run(step("many"))) for _ in range(8)]
        waiting.append(asyncio.ensure_future(other.run(step("other"))))
    await asyncio.gather(*waiting)

    assert made == ["other", *["many"] * 8]


async def test_cancelled_create_that_has_not_begun_is_not_made(tmp_path: Path) -> None:
    """Its key stays free; the creates beside it are made."""
    store = FileStore(tmp_path)
    async with busy(creates(store)):
        first, second = create(store, "a"), create(store, "b")
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
    await second
    assert ["b"] == await store.keys("")


def test_forked_child_makes_its_own_groups(tmp_path: Path) -> None:
    """A fork while a group is made does not stop the creates of the child."""
    script = """
        import asyncio, os, sys, threading
        from continuations_storage import FileStore
        store = FileStore(sys.argv[1])
        entered, gate = threading.Event(), threading.Event()

        def hold():
            yield [(lambda _: (entered.set(), gate.wait(60)), 0)]

        def create_in_child():
            asyncio.events._set_running_loop(None)
            loop = asyncio.new_event_loop()
            creating = store.create("child", b"child")
            loop.run_until_complete(asyncio.wait_for(creating, 60))
            os._exit(0)

        async def fork():
            holding = asyncio.ensure_future(store._creates.run(hold()))
            await asyncio.to_thread(entered.wait, 10)
            child = os.fork() or create_in_child()
            gate.set()
            await holding
            return child

        assert os.waitpid(asyncio.run(fork()), 0)[1] == 0
    """
    words = [sys.executable, "-c", dedent(script), str(tmp_path)]

    subprocess.run(words, check=True, timeout=120)

    assert b"child" == (tmp_path / "child").read_bytes()


_START = StepGroups._start_group  # pyright: ignore[reportPrivateUsage]


class SteppedCreate:
    """A create in a thread of its own that stops before one line of `StepGroups`.

    It is a line of `run`, or of `_start_group` with `in_start`.

    Attributes:
        thread: The thread.
        stopped: It has stopped there, or before the wait for its result.
        waits: It waits for its result, or has ended.
        go_on: Set by the test.
        is_made: Whether the create has returned.
    """

    def __init__(
        self,
        store: FileStore,
        key: str,
        line: int,
        *,
        is_interrupted: bool = False,
        in_start: bool = False,
    ) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._store, self._key = store, key
        self._line = line
        self._lines = count()
        self._is_interrupted = is_interrupted
        self._function = _START if in_start else StepGroups.run
        self.stopped, self.waits = threading.Event(), threading.Event()
        self.go_on = threading.Event()
        self.is_made = False

    def _run(self) -> None:
        with suppress(KeyboardInterrupt):
            asyncio.run(self._create())

    async def _create(self) -> None:
        sys.settrace(self._trace)
        try:
            creating = create(self._store, self._key)
            creating.add_done_callback(
                lambda made: made.cancelled() or made.exception()
            )
            await asyncio.sleep(0)  # `run`
            await asyncio.sleep(0)  # `_start_group`
        finally:
            sys.settrace(None)
            self.stopped.set()
            self.waits.set()
        await asyncio.wait([creating], timeout=120)
        self.is_made = creating.done()

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del event, argument
        return self._stop if frame.f_code is self._function.__code__ else None

    def _stop(self, frame: FrameType, event: str, argument: object) -> Any:
        del frame, argument
        if event == "line" and next(self._lines) == self._line:
            self.stopped.set()
            assert self.go_on.wait(60)
            if self._is_interrupted:
                raise KeyboardInterrupt
        return self._stop


def start(creating: SteppedCreate) -> None:
    creating.thread.start()
    assert creating.stopped.wait(60)


def finish(creating: SteppedCreate) -> None:
    creating.go_on.set()
    assert creating.waits.wait(60)


_LINES = range(_MORE_THAN_LINES_OF_RUN)
_LINES_AND_PLACES = [
    *((line, False) for line in _LINES),
    *((line, True) for line in range(_MORE_THAN_LINES_OF_START)),
]


def test_first_creates_of_two_threads_after_a_fork_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the two threads stop, and one goes on before the other."""
    store = FileStore(tmp_path)
    places = product(_LINES_AND_PLACES, _LINES_AND_PLACES)
    for process, lines in enumerate(places, 1 << 30):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        first, second = [
            SteppedCreate(store, f"{process}-{i}", line, in_start=in_start)
            for i, (line, in_start) in enumerate(lines)
        ]
        start(first)
        start(second)
        finish(first)
        finish(second)
        first.thread.join(60)
        second.thread.join(60)
        assert (first.is_made, second.is_made) == (True, True), lines


@pytest.mark.parametrize(("line", "in_start"), _LINES_AND_PLACES)
def test_interrupted_create_does_not_stop_the_next_ones(
    tmp_path: Path, line: int, *, in_start: bool
) -> None:
    """After Ctrl-C, those that wait already are made, and those that come later."""
    store = FileStore(tmp_path)
    interrupted = SteppedCreate(
        store, "interrupted", line, is_interrupted=True, in_start=in_start
    )
    beside, later = [SteppedCreate(store, key, 0) for key in ("beside", "later")]
    beside.go_on.set()
    later.go_on.set()

    start(interrupted)
    start(beside)
    finish(beside)
    finish(interrupted)
    beside.thread.join(60)
    start(later)
    later.thread.join(60)

    assert (beside.is_made, later.is_made) == (True, True)


async def test_interrupted_create_that_has_no_thread_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not by the thread of a later create."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    store = FileStore(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio.get_running_loop(), "call_soon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.create("a", b"x").send(None)
    await store.create("b", b"x")
    assert ["b"] == await store.keys("")


async def test_pickled_store_has_the_same_keys(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.create("a", b"x")
    assert b"x" == await pickle.loads(pickle.dumps(store)).read("a")  # noqa: S301
