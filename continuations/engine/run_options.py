"""The options of one call that works on runs, passed as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.rows.run import RunRow
    from continuations.engine.event_reading import Cursor
    from continuations.engine.ports import EventSink
    from continuations.engine.work_observers import WatchedSession, WorkObserver

ShouldPause: TypeAlias = Callable[[], bool]


def never_pause() -> bool:
    """Return False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of one `start`, `resume`, `sweep` or `serve_forever`.

    Attributes:
        context: The application's object for its tools, `ctx.context`. It is never
            stored.
        should_pause: Called before every model call and every new tool call. Once it
            returns True, calls in progress are completed and nothing new begins.
        awaited_message: A thread is not worked on any further once this message has its
            reply; `None`: as long as there is a message.
        reopens: An approved call whose tool is missing here waits again. Otherwise the
            run is left to another process.
        events: Takes the events of the runs; `None`: there is no listener.
        events_after: Only later events are handed on. `None`: those after the version
            that the worker finds.
        observer: Observes the work, or `None`.
        session: The session of one worker for the observer, or `None`.
    """

    context: Any = None
    should_pause: ShouldPause = never_pause
    awaited_message: int | None = None
    reopens: bool = False
    events: EventSink | None = None
    events_after: Cursor | None = None
    observer: WorkObserver | None = None
    session: WatchedSession | None = None

    def is_enough(self, run: RunRow) -> bool:
        """Return whether the awaited message of a thread has its reply."""
        awaited = self.awaited_message
        return awaited is not None and run.rests and run.answered >= awaited

    def check_run(self, run: RunRow) -> None:
        """Raise `RunExists` if a message is awaited from a run that is not a thread."""
        if self.awaited_message is not None and run.thread_key is None:
            from continuations.ledger.arrivals.thread_keys import check_thread  # noqa: PLC0415 - rarely needed

            check_thread(run)

    @classmethod
    def from_arguments(
        cls,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        observer: WorkObserver | None = None,
    ) -> RunOptions:
        """Return the options of a method's arguments; raises `InvalidInput`."""
        if should_pause is None:
            return cls(context=context, observer=observer)
        pause: object = should_pause
        # The coroutine of an async function is true: each run would pause at once.
        if not callable(pause) or inspect.iscoroutinefunction(pause):
            got = "an async function" if callable(pause) else repr(pause)[:80]
            msg = f"should_pause must be a plain function or None, got {got}."
            raise InvalidInput(msg)
        return cls(context=context, should_pause=should_pause, observer=observer)


DEFAULT_RUN_OPTIONS = RunOptions()
