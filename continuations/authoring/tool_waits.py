"""Waits that a tool opens: the tool returns one of them instead of a result.

The run is then suspended. The answer becomes the tool's result, or the argument of the
tool's `on_answer` function. No code of the tool that ran before the wait runs again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeGuard,
    TypeVar,
    overload,
)

from continuations.authoring.deadline_options import checked_action, to_timedelta
from continuations.authoring.errors import WaitNotReturned
from continuations.core.rows.decisions import Answer, Deny, Escalate, Fail
from continuations.core.rows.grants import checked_moment
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping, Sequence
    from datetime import datetime, timedelta

    from continuations.authoring.deadline_options import Duration

_log = logging.getLogger("continuations")
T = TypeVar("T")
ToolWaitKind: TypeAlias = Literal["question", "event", "timer", "external"]
DeadlineAction: TypeAlias = Answer | Deny | Fail
QuestionDeadline: TypeAlias = DeadlineAction | Escalate


if TYPE_CHECKING:

    class _Awaited(Coroutine[Any, Any, T]):
        """A wait as type checkers see it: the code of a workflow awaits it."""

        def send(self, value: Any, /) -> Any: ...
        def throw(self, *error: Any) -> Any: ...
        def close(self) -> None: ...
        def __await__(self) -> Generator[Any, Any, T]: ...

else:
    _Awaited = Generic


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWait(_Awaited[T]):
    """A wait that a tool returns; `ask`, `wait_for`, `sleep` and `external` make one.

    Attributes:
        kind: The kind of the wait.
        question: The question, or the name of the job.
        answer_type: The type of the value of the answer; `None` for any JSON value.
        event: The name of the event.
        key: The key of the event.
        within: The time until the deadline.
        until: The deadline, if it is a point in time.
        on_deadline: The consequence of the deadline; `None` for the rule of the kind.
        memo: A JSON value that the `on_answer` function reads as `ctx.memo`.
    """

    kind: ToolWaitKind
    question: str | None = None
    answer_type: Any = None
    event: str | None = None
    key: str | None = None
    within: timedelta | None = None
    until: datetime | None = None
    on_deadline: QuestionDeadline | None = None
    memo: Any = None

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same wait: two equal questions are two waits."""
        return self is other

    def __hash__(self) -> int:
        return id(self)

    if not TYPE_CHECKING:

        def __await__(self) -> Any:
            """Wait in a workflow; in a tool, name the remedy."""
            loop = loop_of_workflow()
            if loop is not None:
                return loop.coroutine_of(self).__await__()
            name = _function_name(self)
            raise WaitNotReturned(
                f"{name}(...) was awaited outside a workflow. In a tool, write: return "
                f"{name}(...)."
            )


class FlowWait(ToolWait[Any]):
    """A wait that the code of a workflow made.

    Attributes:
        loop: The loop of the workflow.
        was_awaited: Whether the code has awaited it.
    """

    __slots__ = ("loop", "was_awaited")
    loop: Any
    was_awaited: bool

    @classmethod
    def of(cls, loop: Any, fields: Mapping[str, Any]) -> FlowWait:
        """Return a new wait."""
        wait = cls(**fields)
        object.__setattr__(wait, "loop", loop)
        object.__setattr__(wait, "was_awaited", False)
        return wait

    def note_await(self) -> None:
        """Note that the code awaits the wait."""
        object.__setattr__(self, "was_awaited", True)

    def __del__(self) -> None:
        """Tell the developer of a wait that the code forgot to await."""
        if not getattr(self, "was_awaited", True) and not self.loop.is_closed():
            name = _function_name(self)
            _log.warning(
                "%s(...) was called in a workflow and never awaited, so it did not "
                "wait. Write: await %s(...).",
                *(name, name),
            )


def loop_of_workflow() -> Any:
    """Return the loop if the code of a workflow runs now, or `None`."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if hasattr(loop, "coroutine_of") else None


def _function_name(wait: ToolWait[Any]) -> str:
    return "sleep_until" if wait.until is not None else WAIT_RULES[wait.kind].function


# The waits that the present call of a tool has made.
_made: ContextVar[list[ToolWait[Any]] | None] = ContextVar("made_waits", default=None)


def _recorded(**fields: Any) -> ToolWait[Any]:
    loop = loop_of_workflow()
    if loop is not None:
        if fields["memo"] is not None:
            raise InvalidInput(
                f"{_function_name(ToolWait(**fields))}: memo is only for tools. In a "
                "workflow, keep the value in a variable: the code goes on after the "
                "wait."
            )
        return FlowWait.of(loop, fields)
    wait: ToolWait[Any] = ToolWait(**fields)
    made = _made.get()
    if made is not None:
        made.append(wait)
    elif threading.current_thread() is not threading.main_thread():
        # Tests and declarations make waits in the main thread, and tools in threads
        # that know their call. A thread of a tool's own does not know it.
        name = _function_name(wait)
        _log.warning(
            "%s(...) was called in a thread that no call of a tool is known for, so "
            "nobody is told if the wait is not returned. Write: return %s(...), in the "
            "tool itself.",
            name,
            name,
        )
    return wait


def record_waits() -> list[ToolWait[Any]]:
    """Record the waits that this task makes from now on, also in its threads."""
    made: list[ToolWait[Any]] = []
    _made.set(made)
    return made


def check_returned(made: Sequence[ToolWait[Any]], result: object) -> None:
    """Raise `WaitNotReturned` if a tool has made a wait that it does not return.

    The result may be a changed copy of the only wait that was made.
    """
    if not made:
        return
    names = [_function_name(wait) for wait in made]
    if not is_tool_wait(result):
        raise WaitNotReturned(
            f"{names[0]}(...) was called, and not returned. "
            f"Write: return {names[0]}(...)."
        )
    if len(made) > 1:
        calls = ", ".join(f"{name}(...)" for name in names)
        raise WaitNotReturned(
            f"the tool made {len(made)} waits ({calls}) and returned one, so the "
            "others would be lost. Make only the wait that the tool returns."
        )


@overload
def ask(
    question: str,
    *,
    within: Duration | None = None,
    on_deadline: QuestionDeadline | None = None,
    memo: Any = None,
) -> ToolWait[str]: ...


@overload
def ask(
    question: str,
    answer_type: type[T],
    *,
    within: Duration | None = None,
    on_deadline: QuestionDeadline | None = None,
    memo: Any = None,
) -> ToolWait[T]: ...


@overload
def ask(
    question: str,
    answer_type: Any,
    *,
    within: Duration | None = None,
    on_deadline: QuestionDeadline | None = None,
    memo: Any = None,
) -> ToolWait[Any]: ...


def ask(
    question: str,
    answer_type: Any = str,
    *,
    within: Duration | None = None,
    on_deadline: QuestionDeadline | None = None,
    memo: Any = None,
) -> ToolWait[Any]:
    """Ask a person: return the result from a tool, and the run waits for the answer.

    Args:
        question: The question, as the person reads it.
        answer_type: The type of the answer: any type that pydantic can validate. An
            answer that does not fit is refused when it is given.
        within: The time to answer, as a `timedelta` or in seconds. `None`: no limit.
        on_deadline: The end of the wait then: `Answer(value)`, `Deny(reason=...)`
            or `Fail(error)`, or `escalate(to=..., within=...)`: other people are
            asked. `None`: the call ends as expired.
        memo: A JSON value that is stored with the call: the tool's `on_answer` function
            reads it as `ctx.memo`. Not for the code of a workflow.

    Returns:
        The wait. Return it from the tool.

    Raises:
        InvalidInput: An option is invalid.
    """
    return _recorded(
        kind="question",
        question=_checked_text("ask: question", question),
        answer_type=answer_type,
        within=to_timedelta(within, "ask: within"),
        on_deadline=checked_action("ask", on_deadline, (Answer, Deny, Fail, Escalate)),
        memo=memo,
    )


@overload
def wait_for(
    event: str,
    answer_type: type[T],
    *,
    key: str | None = None,
    within: Duration | None = None,
    on_deadline: DeadlineAction | None = None,
    memo: Any = None,
) -> ToolWait[T]: ...


@overload
def wait_for(
    event: str,
    answer_type: Any = None,
    *,
    key: str | None = None,
    within: Duration | None = None,
    on_deadline: DeadlineAction | None = None,
    memo: Any = None,
) -> ToolWait[Any]: ...


def wait_for(
    event: str,
    answer_type: Any = None,
    *,
    key: str | None = None,
    within: Duration | None = None,
    on_deadline: DeadlineAction | None = None,
    memo: Any = None,
) -> ToolWait[Any]:
    """Wait for an event: return the result from a tool.

    Args:
        event: The name of the event, for example `"receipt"`.
        answer_type: The type of the event's data. `None`: any JSON value.
        key: The key of the event, for example an order number. `None`: no key.
        within: The time to wait, as a `timedelta` or in seconds. `None`: no limit.
        on_deadline: The end of the wait then: `Answer(value)`, `Deny(reason=...)`
            or `Fail(error)`. `None`: the call fails.
        memo: A JSON value that is stored with the call: the tool's `on_answer` function
            reads it as `ctx.memo`. Not for the code of a workflow.

    Returns:
        The wait. Return it from the tool.

    Raises:
        InvalidInput: An option is invalid.
    """
    return _recorded(
        kind="event",
        event=_checked_text("wait_for: event", event),
        key=None if key is None else _checked_text("wait_for: key", key),
        answer_type=answer_type,
        within=to_timedelta(within, "wait_for: within"),
        on_deadline=checked_action("wait_for", on_deadline),
        memo=memo,
    )


def sleep(duration: Duration, *, memo: Any = None) -> ToolWait[str]:
    """Wait for a time without a running process: return the result from a tool.

    Args:
        duration: The time, as a `timedelta` or in seconds.
        memo: A JSON value that is stored with the call: the tool's `on_answer` function
            reads it as `ctx.memo`. Not for the code of a workflow.

    Returns:
        The wait. Return it from the tool.

    Raises:
        InvalidInput: `duration` is invalid.
    """
    return _recorded(
        kind="timer",
        within=to_timedelta(duration, "sleep: duration"),
        memo=memo,
    )


def sleep_until(moment: datetime, *, memo: Any = None) -> ToolWait[str]:
    """Wait until a point in time without a running process.

    Args:
        moment: The time, with a time zone. If it has passed, the wait ends at once.
        memo: A JSON value that is stored with the call: the tool's `on_answer` function
            reads it as `ctx.memo`. Not for the code of a workflow.

    Returns:
        The wait. Return it from the tool.

    Raises:
        InvalidInput: `moment` is not a `datetime` with a time zone.
    """
    return _recorded(
        kind="timer",
        until=checked_moment("sleep_until: moment", moment),
        memo=memo,
    )


@overload
def external(
    job: str,
    answer_type: type[T],
    *,
    within: Duration | None = None,
    on_deadline: DeadlineAction | None = None,
    memo: Any = None,
) -> ToolWait[T]: ...


@overload
def external(
    job: str,
    answer_type: Any = None,
    *,
    within: Duration | None = None,
    on_deadline: DeadlineAction | None = None,
    memo: Any = None,
) -> ToolWait[Any]: ...


def external(
    job: str,
    answer_type: Any = None,
    *,
    within: Duration | None = None,
    on_deadline: DeadlineAction | None = None,
    memo: Any = None,
) -> ToolWait[Any]:
    """Wait for a job of another system: return the result from a tool.

    Start the job in the tool, and give it `ctx.wait_id`. The other system ends the
    wait with `decide(wait_id, Answer(result))` or `decide(wait_id, Fail(error))`. It
    may do so before the tool has returned.

    Args:
        job: The name of the job, as people read it.
        answer_type: The type of the job's result. `None`: any JSON value.
        within: The time to wait, as a `timedelta` or in seconds. `None`: no limit.
        on_deadline: The end of the wait then: `Answer(value)`, `Deny(reason=...)`
            or `Fail(error)`. `None`: the call fails.
        memo: A JSON value that is stored with the call: the tool's `on_answer` function
            reads it as `ctx.memo`. Not for the code of a workflow.

    Returns:
        The wait. Return it from the tool.

    Raises:
        InvalidInput: An option is invalid.
    """
    return _recorded(
        kind="external",
        question=_checked_text("external: job", job),
        answer_type=answer_type,
        within=to_timedelta(within, "external: within"),
        on_deadline=checked_action("external", on_deadline),
        memo=memo,
    )


def _checked_text(label: str, value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise InvalidInput(f"{label} must be a str that is not empty, got {value!r}.")


def is_tool_wait(value: object) -> TypeGuard[ToolWait[Any]]:
    """Return whether a tool returned a wait."""
    return isinstance(value, ToolWait)
