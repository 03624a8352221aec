"""Plain functions run in threads that are kept for the next call."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
import weakref
from contextlib import suppress
from queue import SimpleQueue

import pytest

from continuations.authoring import callables

pytestmark = pytest.mark.usefixtures("waiting_threads")

_person = contextvars.ContextVar("_person", default="nobody")


async def test_functions_one_after_the_other_share_a_thread() -> None:
    """A new thread costs more than the work of most tools."""

    assert 1 == len({await callables.call(threading.get_ident) for _ in range(20)})


async def test_functions_at_the_same_time_have_a_thread_each() -> None:
    """No function waits for another one, however many there are."""
    together = threading.Barrier(40, timeout=120)

    await asyncio.gather(*(callables.call(together.wait) for _ in range(40)))

    assert not together.broken


def test_thread_ends_if_enough_others_wait(
    waiting_threads: list[SimpleQueue[callables.ThreadCall]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a thousand functions at the same time, the process keeps few threads."""

    async def kept_after_a_call() -> int:
        await callables.call(int)
        return len(waiting_threads)

    kept = asyncio.run(kept_after_a_call())
    monkeypatch.setattr(callables, "_MAX_WAITING_THREADS", 0)

    assert (1, 0) == (kept, asyncio.run(kept_after_a_call()))


async def test_function_that_hangs_does_not_stop_the_next_one() -> None:
    over = threading.Event()

    hanging = asyncio.create_task(callables.call(over.wait, 30))
    await asyncio.sleep(0)
    await callables.call(over.set)
    assert await hanging


class _Large:
    """A value that can be watched."""


async def test_waiting_thread_holds_no_arguments_and_no_results() -> None:
    """Arguments and results can be secret or large."""

    def make(value: _Large) -> _Large:
        del value
        return _Large()

    given = _Large()
    made = await callables.call(make, given)
    watched = [weakref.ref(given), weakref.ref(made)]
    del given, made
    await asyncio.sleep(0)
    # The thread takes its next call only after it has left the first one.
    await callables.call(int)
    gc.collect()
    assert [None, None] == [reference() for reference in watched]


async def test_next_function_has_no_context_of_the_last_one() -> None:
    def become(person: str) -> str:
        before = _person.get()
        _person.set(person)
        return before

    assert ["nobody", "nobody"] == [
        await callables.call(become, name) for name in ("kim", "lee")
    ]


async def test_exception_leaves_the_thread_usable() -> None:
    def fail() -> None:
        raise SystemExit(3)

    idents = {await callables.call(threading.get_ident)}
    with pytest.raises(SystemExit):
        await callables.call(fail)
    assert 1 == len(idents | {await callables.call(threading.get_ident)})


# Python 3.12 warns about a fork with threads, which this test needs.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_child_starts_its_own_threads() -> None:
    """A thread of the parent does not exist in the child."""

    async def scenario() -> int:
        return int(await asyncio.wait_for(callables.call(int, 7), 60))

    assert 7 == asyncio.run(scenario())
    child = os.fork()
    if child == 0:
        result = 1
        with suppress(BaseException):
            result = asyncio.run(scenario())
        os._exit(result)

    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
