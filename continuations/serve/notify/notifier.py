"""Notifiers: tell people about open waits.

A runner calls its `notify` after the wait is stored and can be decided, so a failed
notification loses no run. The same wait may be notified again at any time. Every
notifier sends one wait under one id, so receivers can recognize a repeat.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from continuations.authoring import callables
from continuations.core import jsontext
from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Notify

    MakeLink = Callable[[Wait], str]

__all__ = ["Notifier", "NotifyAll", "NotifyFailed"]


class Notifier(Protocol):
    """Notify a person of an open wait; a runner accepts it as `notify`."""

    async def __call__(self, wait: Wait) -> None:
        """Send the notification of a wait.

        A second call for the same wait sends the same content with the same id.

        Args:
            wait: The open wait.

        Raises:
            NotifyFailed: The receiver did not accept the notification.
        """
        ...


class NotifyFailed(ContinuationsError):
    """A notification failed, or may have failed. The wait can still be decided.

    It is safe to notify again.

    Attributes:
        detail: Which receiver failed, and why.
        retryable: Whether a later attempt can succeed without a change.
    """

    def __init__(self, wait: Wait, detail: str, *, retryable: bool) -> None:
        text = (
            f"the notification of wait {wait.id} failed: {detail}. The wait can still "
            "be decided. Call runner.notify(wait_id) to notify again."
        )
        super().__init__(text, run_id=wait.run_id, wait_id=wait.id)
        self.detail = detail
        self.retryable = retryable


class NotifyAll:
    """Notify through several notifiers at the same time.

    A failure of one does not affect the others.

    Args:
        *notifiers: Notifiers, or other functions that a runner accepts as `notify`.

    Raises:
        InvalidInput: There is no notifier, or one is not callable.
    """

    def __init__(self, *notifiers: Notify) -> None:
        if not notifiers or not all(map(callable, notifiers)):
            raise InvalidInput(
                "NotifyAll needs at least one notifier, each a callable that takes a "
                "Wait."
            )
        self._notifiers = notifiers

    def __repr__(self) -> str:
        return f"<NotifyAll {' '.join(map(repr, self._notifiers))}>"

    async def __call__(self, wait: Wait) -> None:
        """Notify through each notifier, and wait for all of them.

        Args:
            wait: The open wait.

        Raises:
            NotifyFailed: At least one notifier failed. The text names all failures, and
                the cause is an exception group of them.
        """
        results = await asyncio.gather(
            *(_call_notifier(notifier, wait) for notifier in self._notifiers)
        )
        failures = tuple(failure for failure in results if failure is not None)
        if failures:
            details = "; ".join(map(_failure_text, failures))
            raise NotifyFailed(
                wait,
                f"{len(failures)} of {len(results)} notifiers failed ({details})",
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
    # The text of an error from other code may contain secrets.
    if isinstance(failure, NotifyFailed):
        return failure.detail
    return type(failure).__name__


def event_type(wait: Wait) -> str:
    """Return why people are notified: a new wait, an escalation or a reminder."""
    return f"wait.{wait.notice.partition('-')[0]}"


def notice_digest(wait: Wait) -> str:
    """Return a digest that names one notice of a wait, the same in every process."""
    return jsontext.digest(f"wait.{wait.notice}", wait.id)[:32]


def make_link(wait: Wait, link: MakeLink | None) -> str | None:
    """Return the link to decide a wait; raise `NotifyFailed` if `link` raises."""
    try:
        return link(wait) if link is not None else None
    except Exception as error:
        detail = f"link() raised {type(error).__name__}"
        raise NotifyFailed(wait, detail, retryable=False) from error
