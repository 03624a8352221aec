"""The actions in progress of one run: a task for each, and the gates of the tools."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.call_events import RepeatAllowed
from continuations.core.calls import Started
from continuations.core.plan import RunTool
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.engine import side_task

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator
    from typing import Any

    from continuations.authoring.call_gate import CallGate
    from continuations.core.events import Event
    from continuations.core.plan import Action
    from continuations.core.state import RunState


class ActionTasks:
    """The actions in progress, each in a task of its own.

    Attributes:
        gates: The gates of the tools that were launched and have not returned.
    """

    def __init__(self) -> None:
        self._tasks: dict[Action, asyncio.Task[Event]] = {}
        self.gates: dict[Action, CallGate] = {}

    def __contains__(self, action: Action) -> bool:
        return action in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Action]:
        return iter(tuple(self._tasks))

    @property
    def tasks(self) -> Iterable[asyncio.Task[Event]]:
        """The tasks of all actions."""
        return self._tasks.values()

    def launch(self, action: Action, work: Coroutine[Any, Any, Event]) -> None:
        """Begin a task for an action."""
        self._tasks[action] = asyncio.create_task(work)

    def pop_done(self) -> Iterator[tuple[Action, asyncio.Task[Event]]]:
        """Remove and return the actions that are done, with their tasks."""
        for action, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[action]
                yield action, task

    def has_begun(self, action: Action) -> bool:
        """Return whether the tool of an action was called and has not returned."""
        return action in self.gates and self.gates[action].has_begun

    def has_begun_or_closes(self, action: Action) -> bool:
        """Return whether the tool of an action was called; if not, it never will be."""
        gate = self.gates.get(action)
        if gate is not None:
            gate.close()
        return self.has_begun(action)

    def with_starts_taken_back(self, state: RunState) -> RunState:
        """Return a state in which the calls that have not begun are ready again."""
        if state.run.status in ENDED_STATUSES:
            return state
        for call in list(state.calls.values()):
            if isinstance(call.state, Started) and not self.has_begun(RunTool(call.id)):
                state = advance(state, RepeatAllowed(call_id=call.id, never_began=True))
        return state

    async def drop(self, actions: Iterable[Action]) -> None:
        """Stop the tasks of some actions, and forget them."""
        dropped = [self._tasks.pop(each) for each in actions if each in self._tasks]
        await cancel_tasks(dropped)

    async def finish(
        self, state: RunState, commit: asyncio.Task[Any] | None = None
    ) -> None:
        """Wait some seconds for a commit and for calls that may not be repeated.

        Everything else can be done again, so it is given up at once.
        """
        self._close_gates()
        finishing = [each for each in self if self._cannot_be_repeated(each, state)]
        given_up = [each for each in self if each not in finishing]
        await cancel_tasks([self._tasks[action] for action in given_up])
        for action in given_up:
            if not _has_result(self._tasks[action]):
                del self._tasks[action]
        tasks: set[asyncio.Task[Any]] = {self._tasks[action] for action in finishing}
        if commit is not None:
            tasks.add(commit)
        if tasks:
            await asyncio.wait(tasks, timeout=side_task.INTERRUPT_GRACE_SECONDS)

    async def cancel_all(
        self, state: RunState, commit: asyncio.Task[Any] | None = None
    ) -> bool:
        """Cancel a commit and all actions; the next process settles the calls.

        Returns whether a call that may not be repeated was in progress.
        """
        self._close_gates()
        interrupted = any(self._cannot_be_repeated(each, state) for each in self)
        tasks: list[asyncio.Task[Any]] = [*self._tasks.values()]
        if commit is not None:
            tasks.append(commit)
        await cancel_tasks(tasks)
        return interrupted

    def _close_gates(self) -> None:
        for gate in self.gates.values():
            gate.close()

    def _cannot_be_repeated(self, action: Action, state: RunState) -> bool:
        if not isinstance(action, RunTool) or not self.has_begun(action):
            return False
        return not state.calls[action.call_id].repeatable


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
