"""The changes of a task, as the events of a stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from a2a.types import (
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from continuations.events import MessageAdded
from continuations.interop.a2a.tasks import encodable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    from a2a.types import Task

    from continuations import AsyncRunner, Continuation
    from continuations.events import StreamEvent

__all__ = ["updates_of"]

T = TypeVar("T")
# After all events of a version: no event has so high a number in its version.
_LAST_ORDINAL = 9_999_999_999


async def updates_of(
    runner: AsyncRunner[Any],
    run: Continuation,
    known: Task,
    look: Callable[[], Awaitable[Task]],
    *,
    job: asyncio.Task[None] | None,
    stops_at: frozenset[TaskState],
    can_read: bool,
) -> AsyncGenerator[TaskStatusUpdateEvent | TaskArtifactUpdateEvent]:
    """Yield the changes of a task after a version of its run.

    Args:
        runner: The runner whose store has the run.
        run: The version that the client knows.
        known: The task of that version.
        look: Returns the task as it is now.
        job: The work of this process on the run, whose error ends the stream.
        stops_at: The states that end the stream.
        can_read: Whether the client may read the texts of the agent.

    Yields:
        The texts of the agent, the artifact, and the changes of the state.
    """
    queue: asyncio.Queue[StreamEvent | BaseException | None] = asyncio.Queue()
    follower = asyncio.create_task(_follow(runner, run, queue))
    if job is not None:
        job.add_done_callback(lambda done: queue.put_nowait(_error_of(done)))
    try:
        while True:
            batch = await _next_batch(queue)
            task = await look()
            if can_read and task.status.state not in stops_at:
                for text in _texts_of(batch):
                    yield _status_with(task, text)
            for update in _changes(known, task):
                yield update
            known = task
            if task.status.state in stops_at and (job is None or job.done()):
                return
            _raise_error_of(batch)
    finally:
        follower.cancel()
        await asyncio.wait({follower})


async def _next_batch(queue: asyncio.Queue[T]) -> list[T]:
    batch = [await queue.get()]
    while not queue.empty():
        batch.append(queue.get_nowait())
    return batch


def _raise_error_of(batch: Sequence[object]) -> None:
    for event in batch:
        if isinstance(event, BaseException):
            raise event


async def _follow(
    runner: AsyncRunner[Any],
    run: Continuation,
    queue: asyncio.Queue[StreamEvent | BaseException | None],
) -> None:
    after = f"{run.version}.{_LAST_ORDINAL}"
    try:
        async for event in runner.events(run.run_id, after=after, follow=True):
            queue.put_nowait(event)
        queue.put_nowait(None)
    except Exception as error:  # noqa: BLE001 - the reader of the queue raises it
        queue.put_nowait(error)


def _error_of(job: asyncio.Task[None]) -> BaseException | None:
    return None if job.cancelled() else job.exception()


def _texts_of(batch: Sequence[object]) -> Iterator[str]:
    """Yield the texts that the root agent wrote before it called tools."""
    for event in batch:
        if isinstance(event, MessageAdded) and len(event.path) == 1:
            message = event.message
            text = message.get("content")
            if message.get("tool_calls") and isinstance(text, str) and text:
                yield text


def _status_with(task: Task, text: str) -> TaskStatusUpdateEvent:
    message = Message(
        message_id=f"{task.status.message.message_id or task.id}-text",
        role=Role.ROLE_AGENT,
        task_id=task.id,
        context_id=task.context_id,
        parts=[Part(text=encodable(text))],
    )
    status = TaskStatus(
        state=TaskState.TASK_STATE_WORKING,
        message=message,
        timestamp=task.status.timestamp,
    )
    return TaskStatusUpdateEvent(
        task_id=task.id, context_id=task.context_id, status=status
    )


def _changes(
    known: Task, task: Task
) -> Iterator[TaskStatusUpdateEvent | TaskArtifactUpdateEvent]:
    """Yield the updates that make of one task the other."""
    if _is_equal(known, task):
        return
    for artifact in task.artifacts:
        yield TaskArtifactUpdateEvent(
            task_id=task.id,
            context_id=task.context_id,
            artifact=artifact,
            last_chunk=True,
        )
    yield TaskStatusUpdateEvent(
        task_id=task.id, context_id=task.context_id, status=task.status
    )


def _is_equal(known: Task, task: Task) -> bool:
    """Return whether the states are equal; each version has a time of its own."""
    return (
        known.status.state == task.status.state
        and known.status.message.parts == task.status.message.parts
    )
