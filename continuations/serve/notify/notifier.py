"""Notifiers: tell people and systems about waits and runs.

A runner calls its `notify` after the wait is stored and can be decided, so a failed
notification loses no run. The same wait may be notified again at any time. Every
notifier sends one wait under one id, so receivers can recognize a repeat. A notifier
with a method `on_notice` also gets notices: how waits, agents and runs end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from continuations.authoring import callables
from continuations.core.reading.notices import (
    ChildNotice,
    DecisionNotice,
    Notice,
    RunNotice,
    open_notice_id,
)
from continuations.core.rows.waits import Wait
from continuations.errors import ContinuationsError, InvalidInput
from continuations.present.json_forms import notice_json, wait_notice_json
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from continuations.engine.ports import Notify, OnNotice

    MakeLink = Callable[[Wait], str]

__all__ = [
    "NOTICE_TYPES",
    "ChildNotice",
    "DecisionNotice",
    "Notice",
    "NoticeListener",
    "Notification",
    "Notifier",
    "NotifyAll",
    "NotifyFailed",
    "RunNotice",
]

# The reasons why people are notified of an open wait.
OPEN_TYPES = ("wait.opened", "wait.escalated", "wait.reminder")
# All types of notifications.
NOTICE_TYPES = (
    *OPEN_TYPES,
    "wait.decided",
    "wait.expired",
    "child.ended",
    "run.suspended",
    "run.ended",
)


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


class NoticeListener(Notifier, Protocol):
    """A notifier that also gets notices: how waits, agents and runs end."""

    async def on_notice(self, notice: Notice) -> None:
        """Send a notice.

        It is called after the decision or the version is stored. A notice may come
        several times, from several processes, with the same id. Notices of one run may
        come in another order than they happened.

        Args:
            notice: A `DecisionNotice`, a `ChildNotice` or a `RunNotice`.

        Raises:
            NotifyFailed: The receiver did not accept the notice.
        """
        ...


class NotifyFailed(ContinuationsError):
    """A notification failed, or may have failed. No run is affected.

    It is safe to notify again.

    Attributes:
        detail: Which receiver failed, and why.
        retryable: Whether a later attempt can succeed without a change.
    """

    def __init__(self, subject: Wait | Notice, detail: str, *, retryable: bool) -> None:
        run_id = subject.run_id
        wait_id = None
        if isinstance(subject, Wait):
            wait_id = subject.id
            text = (
                f"the notification of wait {wait_id} failed: {detail}. The wait can "
                "still be decided. Call runner.notify(wait_id) to notify again."
            )
        else:
            text = (
                f"the notice {subject.type} of run {run_id} failed: {detail}. The run "
                "is not affected. Check the receiver and its address."
            )
        super().__init__(text, run_id=run_id, wait_id=wait_id)
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
                "Wait. Write NotifyAll(first, second), without a list."
            )
        self._notifiers = notifiers
        found = (getattr(each, "on_notice", None) for each in notifiers)
        self._listeners: list[OnNotice] = [each for each in found if each is not None]

    def __repr__(self) -> str:
        return f"<NotifyAll {' '.join(map(repr, self._notifiers))}>"

    @property
    def on_notice(self) -> OnNotice | None:
        """The function that hands a notice to each listener; `None` without one."""
        return self._hand_on if self._listeners else None

    async def __call__(self, wait: Wait) -> None:
        """Notify through each notifier, and wait for all of them.

        Args:
            wait: The open wait.

        Raises:
            NotifyFailed: At least one notifier failed. The text names all failures, and
                the cause is an exception group of them.
        """
        await _call_all(self._notifiers, wait)

    async def _hand_on(self, notice: Notice) -> None:
        await _call_all(self._listeners, notice)


async def _call_all(
    functions: Collection[Callable[..., Any]], subject: Wait | Notice
) -> None:
    results = await asyncio.gather(
        *(_call_notifier(function, subject) for function in functions)
    )
    failures = tuple(failure for failure in results if failure is not None)
    if failures:
        details = "; ".join(map(_failure_text, failures))
        raise NotifyFailed(
            subject,
            f"{len(failures)} of {len(results)} notifiers failed ({details})",
            retryable=any(getattr(each, "retryable", True) for each in failures),
        ) from BaseExceptionGroup("notifiers", failures)


async def _call_notifier(
    function: Callable[..., Any], subject: Wait | Notice
) -> BaseException | None:
    try:
        await callables.call(function, subject)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """The content that a notifier sends to another system.

    Attributes:
        id: Id of the notice, the same in each process and each repeat.
        type: One of `NOTICE_TYPES`.
        run_id: Id of the run.
        at: When it happened. For an open wait, when it was opened.
        data: The JSON form of the wait and its link, or of the notice.
    """

    id: str
    type: str
    run_id: str
    at: datetime
    data: dict[str, Any]


def notification_of(
    subject: Wait | Notice,
    *,
    link: MakeLink | None = None,
    with_arguments: bool = False,
) -> Notification:
    """Return what to send about an open wait, or of a notice.

    Args:
        subject: The open wait, or the notice.
        link: Returns the link to decide a wait.
        with_arguments: Whether to send arguments, and texts that may contain them.

    Returns:
        The notification, the same in each process.

    Raises:
        NotifyFailed: `link` raised.
    """
    if isinstance(subject, Wait):
        wait = wait_notice_json(subject, with_arguments=with_arguments)
        return Notification(
            id=open_notice_id(subject),
            type=event_type(subject),
            run_id=subject.run_id,
            at=subject.created_at,
            data={"wait": wait, "link": make_link(subject, link)},
        )
    return Notification(
        id=subject.id,
        type=subject.type,
        run_id=subject.run_id,
        at=subject.at,
        data=notice_json(subject, with_arguments=with_arguments),
    )


def check_types(types: Collection[str]) -> frozenset[str]:
    """Return the types of notifications to send; raises `InvalidInput`."""
    given: object = types
    is_collection = isinstance(given, list | tuple | set | frozenset)
    chosen = frozenset(map(str, types)) if is_collection else frozenset[str]()
    if not chosen or not chosen <= set(NOTICE_TYPES):
        raise InvalidInput(
            f"types must be a list of types of notifications, got {types!r:.100}. "
            f"Choose from {', '.join(NOTICE_TYPES)}."
        )
    return chosen


def event_type(wait: Wait) -> str:
    """Return why people are notified: a new wait, an escalation or a reminder."""
    return f"wait.{wait.notice.partition('-')[0]}"


def make_link(wait: Wait, link: MakeLink | None) -> str | None:
    """Return the link to decide a wait; raise `NotifyFailed` if `link` raises."""
    try:
        return link(wait) if link is not None else None
    except Exception as error:
        detail = f"link() raised {type(error).__name__}"
        raise NotifyFailed(wait, detail, retryable=False) from error
