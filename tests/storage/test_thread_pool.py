"""The thread pool: limited threads that run until the process ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent
from typing import NoReturn

import pytest

from continuations_storage.thread_pool import DaemonThreadPool


async def test_run_returns_the_result_or_raises_the_error() -> None:
    threads = DaemonThreadPool(2, "test")

    def fail(why: str) -> NoReturn:
        raise LookupError(why)

    assert 3 == await threads.run(sum, (1, 2))
    with pytest.raises(LookupError, match="no such thing"):
        await threads.run(fail, "no such thing")
    assert 7 == await threads.run(lambda: 7)


async def test_thread_count_grows_up_to_the_limit() -> None:
    threads = DaemonThreadPool(3, "test-most")
    gate = threading.Event()

    def stand() -> str:
        gate.wait(60)
        return threading.current_thread().name

    def running() -> int:
        return sum(each.name == "test-most" for each in threading.enumerate())

    await threads.run(time.monotonic)
    await threads.run(time.monotonic)
    assert 1 == running()

    waiting = [asyncio.ensure_future(threads.run(stand)) for _ in range(8)]
    await asyncio.sleep(0)
    assert 3 == running()
    gate.set()
    assert ["test-most"] * 8 == await asyncio.gather(*waiting)
    assert 3 == running()


async def test_cancelled_queued_function_is_not_run() -> None:
    threads = DaemonThreadPool(1, "test")
    gate = threading.Event()
    done: list[str] = []

    first = asyncio.ensure_future(threads.run(gate.wait, 10))
    second = asyncio.ensure_future(threads.run(done.append, "second"))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.wait([second])
    gate.set()
    assert await first
    await threads.run(done.append, "third")
    assert ["third"] == done


def test_function_runs_inline_if_no_thread_can_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)

    assert 5 == asyncio.run(DaemonThreadPool(4, "test").run(lambda: 5))


@pytest.mark.parametrize("max_threads", [1, 4])
def test_every_function_runs_if_no_thread_can_start(
    monkeypatch: pytest.MonkeyPatch, max_threads: int
) -> None:
    """Also one that comes while the system refuses the thread of another."""
    pool = DaemonThreadPool(max_threads, "test")
    done: list[str] = []

    class Call:
        def __init__(self, name: str) -> None:
            self._name = name

        def run(self) -> None:
            done.append(f"{self._name} runs")

        def deliver(self) -> None:
            done.append(f"{self._name} is delivered")

    others = iter([Call("second")])

    def refuse(*_: object) -> NoReturn:
        for other in others:
            pool.start(other)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    pool.start(Call("first"))

    assert done == [
        "first runs",
        "first is delivered",
        "second runs",
        "second is delivered",
    ]


def test_forked_child_starts_its_own_threads() -> None:
    script = """
        import asyncio, os
        from continuations_storage.thread_pool import DaemonThreadPool
        threads = DaemonThreadPool(2, "test")
        assert asyncio.run(threads.run(os.getpid)) == os.getpid()
        child = os.fork()
        if not child:
            os._exit(asyncio.run(threads.run(os.getpid)) != os.getpid())
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", dedent(script)], check=True, timeout=120)


def test_thread_can_store_after_the_main_thread_ended(tmp_path: Path) -> None:
    """The interpreter waits for the thread, and the store still works."""
    script = """
        import asyncio, sys, threading
        from continuations_storage import FileStore

        def work():
            threading.main_thread().join()
            asyncio.run(FileStore(sys.argv[1]).create("a", b"kept"))

        threading.Thread(target=work).start()
    """
    folder = tmp_path / "store"
    words = [sys.executable, "-c", dedent(script), str(folder)]

    done = subprocess.run(words, check=True, timeout=120, capture_output=True)

    assert b"" == done.stderr
    assert b"kept" == (folder / "a").read_bytes()
