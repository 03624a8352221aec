"""Run the worker loop inside a web application, from its start to its shutdown.

    app = FastAPI(lifespan=worker_lifespan(runner))
    app = asgi.app(api, lifespan=worker_lifespan(runner))

The server keeps its signal handlers: SIGTERM makes the server shut down, and the
shutdown of the application stops the worker loop. Inside a lifespan of your own:

    async with worker_loop(runner):
        yield
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from continuations.serve.option_checks import check_async_runner, check_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from continuations.engine.runner.async_runner import AsyncRunner

__all__ = ["worker_lifespan", "worker_loop"]

_log = logging.getLogger("continuations")


def worker_lifespan(
    runner: AsyncRunner,
    *,
    interval: float = 10.0,
    max_concurrent_runs: int = 8,
    context: Any = None,
    grace: float | None = None,
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return a lifespan for Starlette or FastAPI that runs the worker loop.

    Starlette does not run the lifespan of a mounted application: pass it to the outer
    one.

    Args:
        runner: The runner whose due runs are resumed.
        interval: Longest time between two looks for due runs, in seconds. The loop
            also looks when the next marker is due, when this runner records a
            decision, message or signal, and when the store reports one of another
            process. After work, the first pause is one second.
        max_concurrent_runs: Maximum number of runs at the same time, at least 1.
        context: Your object for the tools, `ctx.context`. It is never stored.
        grace: See `worker_loop`.

    Returns:
        The lifespan, as `FastAPI(lifespan=...)` accepts it.

    Raises:
        InvalidInput: `runner` or `grace` is invalid. The other options are checked when
            the application starts.
    """
    _check_arguments(runner, grace)

    def lifespan(_application: object) -> AbstractAsyncContextManager[None]:
        return worker_loop(
            runner,
            interval=interval,
            max_concurrent_runs=max_concurrent_runs,
            context=context,
            grace=grace,
        )

    return lifespan


@asynccontextmanager
async def worker_loop(
    runner: AsyncRunner,
    *,
    interval: float = 10.0,
    max_concurrent_runs: int = 8,
    context: Any = None,
    grace: float | None = None,
) -> AsyncGenerator[None]:
    """Run `runner.serve_forever` in a task while the block runs.

    At the end of the block nothing new begins, calls in progress are completed, and
    their runs are suspended. Any process may resume them at once. If the caller is
    cancelled while it waits for that, the loop is cancelled as after `grace`.

    Args:
        runner: The runner whose due runs are resumed.
        interval: Longest time between two looks for due runs, in seconds. The loop
            also looks when the next marker is due, when this runner records a
            decision, message or signal, and when the store reports one of another
            process. After work, the first pause is one second.
        max_concurrent_runs: Maximum number of runs at the same time, at least 1.
        context: Your object for the tools, `ctx.context`. It is never stored.
        grace: How long the end of the block waits for calls in progress, in seconds.
            Then they are cancelled: a model call is repeated by the next process; a
            tool that is not repeatable gets an unknown outcome. Without `grace`, the
            block waits until every call in progress has ended.

    Yields:
        Nothing.

    Raises:
        InvalidInput: An option is invalid.
    """
    _check_arguments(runner, grace)
    stop = asyncio.Event()
    loop_task = asyncio.create_task(
        runner.serve_forever(
            interval=interval,
            max_concurrent_runs=max_concurrent_runs,
            context=context,
            stop=stop,
        )
    )
    try:
        # The first step checks the options: no application starts without a worker.
        await asyncio.sleep(0)
        if loop_task.done():
            await loop_task
        loop_task.add_done_callback(_log_if_failed)
        yield
    finally:
        stop.set()
        await _join(loop_task, grace)


async def _join(loop_task: asyncio.Task[None], grace: float | None) -> None:
    """Wait until the loop has ended; a cancellation of the caller cancels the loop."""
    try:
        done, _ = await asyncio.wait({loop_task}, timeout=grace)
        if done:
            return
        _log.warning(
            "the worker loop is cancelled: after %g s, calls are still in progress",
            grace,
        )
    finally:
        loop_task.cancel()
        await asyncio.wait({loop_task})


def _log_if_failed(loop_task: asyncio.Task[None]) -> None:
    if not loop_task.cancelled() and (error := loop_task.exception()) is not None:
        _log.critical("the worker loop has ended with an error", exc_info=error)


def _check_arguments(runner: object, grace: object) -> None:
    check_async_runner(runner)
    if grace is not None:
        check_seconds("grace", grace, above_zero=False)
