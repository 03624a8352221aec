"""Runner: the methods of AsyncRunner, for code without an event loop.

The types and docstrings of all methods are in `sync_runner.pyi`, which
`tools/sync_stubs.py` writes.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from continuations.core.declared_types import Output
from continuations.engine.runner.async_runner import AsyncRunner
from continuations.engine.runner.runner_parts import missing_attribute
from continuations.engine.sync import portal, sync_face

if TYPE_CHECKING:
    from continuations.engine.threads.async_thread import AsyncThread
    from continuations.engine.threads.sync_thread import Thread

# A process that only decides should start fast: it has no threads.
# ruff: noqa: PLC0415


def _thread(thread: AsyncThread[Any]) -> Thread[Any]:
    from continuations.engine.threads.sync_thread import Thread

    return Thread(thread)


@sync_face.of(
    AsyncRunner,
    "async_runner",
    wraps={
        "stream": sync_face.run_stream,
        "resume_stream": sync_face.run_stream,
        "thread": _thread,
    },
)
class Runner(Generic[Output]):
    """Runs of some agents, kept in a store.

    Its methods may be called from any thread in which no event loop is running. In an
    `async def` function or a notebook, use `AsyncRunner`, which has the same methods as
    coroutines. Any number of runners in any number of processes may share a store.

    Attributes:
        async_runner: The `AsyncRunner` of the same agents and store.
    """

    async_runner: AsyncRunner[Output]

    @functools.wraps(AsyncRunner.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.async_runner = sync_face.call(AsyncRunner, *args, **kwargs)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Name the method that does what another package calls differently."""
            raise missing_attribute(self, name)

    def serve_forever(
        self,
        *,
        interval: float = 10.0,
        max_concurrent_runs: int = 8,
        context: Any = None,
        handle_signals: bool = True,
    ) -> None:
        """Resume due runs until SIGTERM or SIGINT.

        After the first signal nothing new begins, calls in progress are completed,
        their runs are suspended, and the method returns. The earlier handlers are
        restored at the first signal, so a second one has its usual effect. Errors of
        the store and of runs are logged. Do not call it where an event loop is running.

        Args:
            interval: Longest time between two looks for due runs, in seconds. The loop
                also looks when the next marker is due, when this runner records a
                decision, message or signal, and when the store reports one of another
                process. After work, the first pause is one second.
            max_concurrent_runs: Maximum number of runs at the same time, at least 1.
            context: Your object for the tools, `ctx.context`. It is never stored.
            handle_signals: With False, no handlers are installed. Outside the main
                thread, Python allows none.

        Raises:
            InvalidInput: `interval`, `max_concurrent_runs` or `context` is invalid.
            ContinuationsError: An event loop is running in this thread.
        """
        serving = self.async_runner.serve_forever(
            interval=interval,
            max_concurrent_runs=max_concurrent_runs,
            context=context,
            handle_signals=handle_signals,
        )
        portal.check_no_loop_runs(serving)
        asyncio.run(serving)
