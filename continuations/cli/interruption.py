"""Stop a command that works on a run, on Ctrl-C or SIGTERM.

The first signal pauses the run: calls in progress are completed, nothing new begins,
and the claim is released. A model call that takes longer than a few seconds is given
up, because the next process can ask again. A tool is never given up: its outcome would
be unknown. The second signal stops the command at once.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from continuations.cli.output import write_note
from continuations.core.rows.calls import Started
from continuations.engine.sweep.stop_signals import stop_signals_handled
from continuations.errors import ContinuationsError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from continuations import AsyncRunner, Outcome
    from continuations.engine.worker_options import ShouldPause

    Attempt: TypeAlias = Callable[[ShouldPause], Coroutine[Any, Any, Outcome]]

Result = TypeVar("Result")

# How long a model call in progress is awaited after the first signal, in seconds.
MODEL_RETRY_TIME = 5.0
# How often a signal is looked for, in seconds.
_POLL_INTERVAL = 0.1
_FIRST_NOTE = (
    "stopping: calls in progress are completed, nothing new begins; press Ctrl-C again "
    "to stop at once"
)


class StopSwitch:
    """Whether the user asked the command to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of a command that a signal ended."""
        return 128 + (self.signal or signal.SIGINT)

    def is_set(self) -> bool:
        """Return whether a signal arrived."""
        return self.signal is not None


@contextmanager
def stopped_by_signals() -> Generator[StopSwitch]:
    """Set the switch on the first signal; raise `KeyboardInterrupt` on the second."""
    switch = StopSwitch()

    def receive_second(number: signal.Signals) -> None:
        switch.signal = number
        raise KeyboardInterrupt

    def receive_first(number: signal.Signals) -> None:
        switch.signal = number
        handlers.enter_context(stop_signals_handled(receive_second))
        # The signal may interrupt another note.
        with suppress(RuntimeError):
            write_note(_FIRST_NOTE)

    with ExitStack() as handlers:
        handlers.enter_context(stop_signals_handled(receive_first))
        yield switch


async def advance_until_stopped(
    runner: AsyncRunner,
    run_id: str,
    attempt: Callable[[ShouldPause], Coroutine[Any, Any, Result]],
    switch: StopSwitch,
) -> Result | None:
    """Return the outcome of an attempt, or `None` if a model call was given up."""
    task = asyncio.create_task(attempt(switch.is_set))
    try:
        while not task.done() and not switch.is_set():
            await asyncio.wait({task}, timeout=_POLL_INTERVAL)
        await asyncio.wait({task}, timeout=MODEL_RETRY_TIME)
        # A model call that hangs may be the sibling of a tool in progress.
        while not task.done() and await _tool_is_in_progress(runner, run_id):
            await asyncio.wait({task}, timeout=MODEL_RETRY_TIME)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def _tool_is_in_progress(runner: AsyncRunner, run_id: str) -> bool:
    # The start of each call is stored before it runs, and none starts after the signal.
    try:
        run = await runner.look(run_id)
    except ContinuationsError:
        return True  # unknown, so nothing is given up
    calls = run.run_state.calls.values()
    return any(isinstance(call.state, Started) for call in calls)
