"""SIGTERM and SIGINT stop a worker loop only where it was asked for."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from continuations import AsyncRunner
from continuations.engine.sweep.stop_signals import stop_signals_handled
from continuations.errors import InvalidInput
from tests.engine import agent_builders


@pytest.fixture
def host_signals() -> Iterator[list[int]]:
    """Install a host's handlers; return the signals that they receive."""
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        received.append(number)

    earlier = {
        number: signal.signal(number, receive)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    yield received
    for number, handler in earlier.items():
        signal.signal(number, handler)


def make_runner() -> AsyncRunner:
    """Return a runner without runs."""
    return AsyncRunner(agent_builders.make_boss({"go": ["end"]}), store="memory:")


def handlers() -> list[Any]:
    """Return the handlers of both signals."""
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]


def test_first_signal_is_handled_and_the_second_one_is_the_hosts(
    host_signals: list[int],
) -> None:
    before, handled = handlers(), list[int]()

    with stop_signals_handled(handled.append):
        signal.raise_signal(signal.SIGINT)
        assert before == handlers()
        signal.raise_signal(signal.SIGTERM)

    assert ([signal.SIGINT], [signal.SIGTERM]) == (handled, host_signals)


def test_handlers_are_restored_after_an_exception(host_signals: list[int]) -> None:
    before = handlers()

    with pytest.raises(LookupError), stop_signals_handled(print):
        raise LookupError

    assert before == handlers()
    signal.raise_signal(signal.SIGTERM)
    assert [signal.SIGTERM] == host_signals


def test_handler_that_the_host_sets_meanwhile_stays(host_signals: list[int]) -> None:
    late: list[int] = []

    with stop_signals_handled(print):
        signal.signal(signal.SIGTERM, lambda number, _: late.append(number))
    signal.raise_signal(signal.SIGTERM)

    assert ([], [signal.SIGTERM]) == (host_signals, late)


def test_ignored_signal_stays_ignored(host_signals: list[int]) -> None:
    """`nohup` and shells ignore signals on purpose."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handled: list[int] = []

    with stop_signals_handled(handled.append):
        signal.raise_signal(signal.SIGINT)

    assert ([], []) == (handled, host_signals)


def test_other_thread_installs_no_handlers(host_signals: list[int]) -> None:
    before, seen = handlers(), list[Any]()

    def look() -> None:
        with stop_signals_handled(print):
            seen.extend(handlers())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert before == seen
    assert [] == host_signals


async def test_serve_forever_in_a_foreign_loop_leaves_the_hosts_handlers(
    host_signals: list[int],
) -> None:
    """The host shuts down on SIGTERM; it stops the loop with `stop` when it is time."""
    before, stop = handlers(), asyncio.Event()
    serving = asyncio.create_task(make_runner().serve_forever(interval=0.01, stop=stop))
    await asyncio.sleep(0.05)
    assert before == handlers()
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0.05)
    assert not serving.done()
    stop.set()
    await serving
    assert before == handlers()
    assert [signal.SIGTERM] == host_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_forever_handles_signals_if_asked(
    host_signals: list[int], number: signal.Signals
) -> None:
    before = handlers()
    serving = asyncio.create_task(
        make_runner().serve_forever(interval=60, handle_signals=True)
    )
    await asyncio.sleep(0.05)
    signal.raise_signal(number)
    await asyncio.wait_for(serving, 60)
    assert before == handlers()
    assert [] == host_signals


async def test_cancelled_serve_forever_restores_the_handlers(
    host_signals: list[int],
) -> None:
    before = handlers()
    serving = asyncio.create_task(make_runner().serve_forever(handle_signals=True))
    await asyncio.sleep(0.05)
    assert before != handlers()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert before == handlers()
    assert [] == host_signals


@pytest.mark.parametrize(
    "options",
    [
        {"interval": "1"},
        {"interval": float("inf")},
        {"interval": True},
        {"max_concurrent_runs": "8"},
        {"max_concurrent_runs": 2.0},
        {"stop": threading.Event()},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_option_of_a_wrong_type_is_invalid_input(options: dict[str, Any]) -> None:
    [name] = options

    with pytest.raises(InvalidInput, match=f"^{name} must be "):
        await make_runner().serve_forever(**options)
