"""Telling people that a wait is open: what every way of telling has in common.

A runner's `notify` is called once the wait is durable and can be decided, so nothing
hangs on it: a notifier that fails loses nobody's run, and a wait may be told of again
at any time. Therefore every notifier tells of one wait under one id, whatever the
number of times, and its receiver knows a repeat by that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from continuations.authoring import callables
from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.waits import Wait
    from continuations.engine.ports import Notify

    MakeLink = Callable[[Wait], str]

__all__ = ["Notifier", "NotifyAll", "NotifyFailed"]


class Notifier(Protocol):
    """Tells somebody of an open wait; fits a runner's `notify`."""

    async def __call__(self, wait: Wait) -> None:
        """Return once the receiver has it, or raise `NotifyFailed`.

        Called again for the same wait, it tells the same under the same id.
        """
        ...


class NotifyFailed(ContinuationsError):
    """Somebody was not told of a wait, or not surely; the wait stands all the same.

    Telling again is harmless. `retryable` says whether it may do better by itself, or
    only once something was put right.
    """

    def __init__(self, wait: Wait, detail: str, *, retryable: bool) -> None:
        text = (
            f"Wait {wait.id} is kept and can be decided, but {detail}. "
            "Call the runner's notify() with its id to tell again."
        )
        super().__init__(text, run_id=wait.run_id, wait_id=wait.id)
        self.detail = detail
        self.retryable = retryable


class NotifyAll:
    """Tells through several notifiers at once, each of them whatever the others do.

    Takes whatever a runner's `notify` takes. Raises one `NotifyFailed` that names all
    failures; its cause is an exception group of them.
    """

    def __init__(self, *notifiers: Notify) -> None:
        if not notifiers or not all(map(callable, notifiers)):
            raise InvalidInput("All needs notifiers: functions of a wait")
        self._notifiers = notifiers

    def __repr__(self) -> str:
        return f"<All {' '.join(map(repr, self._notifiers))}>"

    async def __call__(self, wait: Wait) -> None:
        """Tell through each; raises once all of them have been tried."""
        tried = await asyncio.gather(
            *(_call_notifier(notifier, wait) for notifier in self._notifiers)
        )
        failures = tuple(failure for failure in tried if failure is not None)
        if failures:
            said = "; ".join(map(_failure_text, failures))
            raise NotifyFailed(
                wait,
                f"{len(failures)} of {len(tried)} notifiers failed ({said})",
                retryable=any(getattr(each, "retryable", True) for each in failures),
            ) from BaseExceptionGroup("notifiers", failures)


async def _call_notifier(
    notifier: Callable[..., Any], wait: Wait
) -> BaseException | None:
    try:
        await callables.call(notifier, wait)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        return error
    return None


def _failure_text(failure: BaseException) -> str:
    # The text of somebody else's error may hold what must not be in a log.
    if isinstance(failure, NotifyFailed):
        return failure.detail
    return type(failure).__name__


def make_link(wait: Wait, link: MakeLink | None) -> str | None:
    """Return the link to decide a wait; what makes it is the application's code."""
    try:
        return link(wait) if link is not None else None
    except Exception as error:
        detail = f"its link could not be made ({type(error).__name__})"
        raise NotifyFailed(wait, detail, retryable=False) from error
