"""Each process has its own connections and locks."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from continuations_storage import Unavailable
from continuations_storage.fork_safety import (
    ForkGate,
    PerProcess,
    SingleProcessGuard,
)


def test_racing_threads_get_the_same_value_and_it_is_made_once() -> None:
    made: list[object] = []

    def make() -> object:
        time.sleep(0.01)
        made.append(object())
        return made[-1]

    value = PerProcess(make)
    gate = threading.Barrier(8)

    def ask(_: int) -> object:
        gate.wait()
        return value()

    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(ask, range(8)))

    assert [value()] == made
    assert set(made) == seen


def test_failed_creation_is_retried() -> None:
    tries: list[int] = []

    def make() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return "made"

    value = PerProcess(make)

    with pytest.raises(OSError, match="not yet"):
        value()
    assert "made" == value()


# Python 3.12 warns about a fork with threads, which this test needs.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_child_creates_its_own_value() -> None:
    value = PerProcess(os.getpid)
    first = SingleProcessGuard("it", "do otherwise")
    begun, over = threading.Event(), threading.Event()

    def slowly() -> int:
        begun.set()
        over.wait(60)
        return os.getpid()

    slow = PerProcess(slowly)
    maker = threading.Thread(target=slow)
    assert os.getpid() == value()
    first.check_process()
    maker.start()
    begun.wait(60)

    child = os.fork()
    if child == 0:
        over.set()  # the copy of the child; the lock of the parent's slot stays held
        refused = False
        try:
            first.check_process()
        except Unavailable as error:
            refused = "do otherwise" in str(error)
        os._exit(0 if refused and value() == slow() == os.getpid() else 1)
    status = os.waitpid(child, 0)[1]
    over.set()
    maker.join()

    assert 0 == status
    first.check_process()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("ends_in_time", [True, False])
def test_child_of_a_fork_within_a_block_is_refused_at_once(
    *, ends_in_time: bool
) -> None:
    """A lock that stays held would stop the child without a word."""
    gate = ForkGate(max_wait=60 if ends_in_time else 0.05)
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        with gate:
            begun.set()
            over.wait(0.3 if ends_in_time else 60)

    worker = threading.Thread(target=work)
    worker.start()
    begun.wait()

    child = os.fork()
    if child == 0:
        refused = False
        try:
            with gate:
                pass
        except Unavailable as error:
            refused = str(error).endswith("Start a new process.")
        os._exit(0 if refused is not ends_in_time else 1)
    status = os.waitpid(child, 0)[1]
    over.set()
    worker.join()

    assert 0 == status
    with gate:  # of the parent
        pass
