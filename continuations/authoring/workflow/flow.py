"""The `Flow` that the code of a workflow uses, and the calls that it awaits."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import UTC, datetime
from random import Random
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NoReturn,
    ParamSpec,
    TypeVar,
    overload,
)
from uuid import UUID

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator

    from continuations.authoring.agent.agent import Agent
    from continuations.authoring.context import ToolContext
    from continuations.authoring.tool_waits import ToolWait
    from continuations.authoring.workflow.drive import FlowDrive
    from continuations.authoring.workflow.workflow import Workflow

P = ParamSpec("P")
T = TypeVar("T")


class Restart(BaseException):
    """Leaves the code of a workflow that begins anew."""


class Flow:
    """The workflow, as its code sees it: the first parameter of the function.

    Await `flow.call(...)` for tools, agents and other workflows, and the waits
    `ask(...)`, `wait_for(...)`, `external(...)`, `sleep(...)` and `sleep_until(...)`.
    Everything else is plain asyncio.
    """

    def __init__(self, drive: FlowDrive) -> None:
        self._drive = drive
        self._random: Random | None = None

    def __repr__(self) -> str:
        return f"<Flow of {self._drive.workflow.name}>"

    if TYPE_CHECKING:

        @overload
        def call(
            self, target: Workflow[P, T], /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self, target: Agent[T], input: object = ..., /, **arguments: Any
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[
                Concatenate[ToolContext, P], Coroutine[Any, Any, ToolWait[T]]
            ],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[P, Coroutine[Any, Any, ToolWait[T]]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[Concatenate[ToolContext, P], Coroutine[Any, Any, T]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[P, Coroutine[Any, Any, T]],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[Concatenate[ToolContext, P], T],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...
        @overload
        def call(
            self,
            target: Callable[P, T],
            /,
            *args: P.args,
            **kwargs: P.kwargs,
        ) -> Coroutine[Any, Any, T]: ...

    def call(
        self, target: Any, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Return a call of a tool, an agent or a workflow, to be awaited.

        The call is made when it is first awaited, by `await`, `create_task`, `gather`
        or a `TaskGroup`. It runs under the rules of every call: approvals, retries and
        unknown outcomes.

        Args:
            target: A tool, an agent or a workflow that the decorator lists.
            *args: Its arguments. An agent takes the text of the task, or one value of
                its `input_type`.
            **kwargs: Its arguments by name.

        Returns:
            The call. Its result has the return type of the tool, or the output type of
            the agent.

        Raises:
            InvalidInput: The workflow does not list the target, or the arguments do not
                fit it.
            CallFailed: The call failed; raised where the call is awaited, like those
                that follow.
            CallDenied: A person or a rule denied it.
            CallExpired: No person decided in time.
            CallCancelled: An operator cancelled it.
        """
        return self._drive.make_call(target, args, kwargs)

    def now(self) -> datetime:
        """Return the time of the history, in UTC: the same in every replay."""
        return datetime.fromtimestamp(self._drive.loop.now / 1000, UTC)

    @property
    def random(self) -> Random:
        """Randomness that is the same in every replay."""
        if self._random is None:
            self._random = Random(self._drive.seed)  # noqa: S311 - it is repeatable
        return self._random

    def uuid(self) -> UUID:
        """Return a new UUID that is the same in every replay."""
        return UUID(int=self.random.getrandbits(128), version=4)

    def patched(self, name: str) -> bool:
        """Return whether the new code after a change runs, in this workflow.

        It is true for a workflow that comes here for the first time, and false for one
        whose history went past this place with the code before.

        Args:
            name: The name of the change.

        Returns:
            Whether the new code runs. The answer stays the same for this workflow.
        """
        return self._drive.is_patched(name)

    def restart(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Begin the function anew with other arguments and an empty history.

        A loop over months keeps its history short with it. Open calls are cancelled as
        at the end of the function.

        Args:
            *args: The arguments of the workflow.
            **kwargs: Its arguments by name.

        Raises:
            InvalidInput: The arguments do not fit the function.
        """
        self._drive.ask_restart(args, kwargs)
        raise Restart


class FlowCall(Coroutine[Any, Any, Any]):
    """One call of a workflow. It begins when it is first awaited.

    Attributes:
        tool: The name under which the history knows what is called.
        arguments: The arguments as the code gave them, as canonical JSON.
        value_of: Makes the value from an outcome; raises `ValueError`.
        asked: The wait of a call with which the workflow itself waits, or `None`.
        call_id: The id, once the call is in the history.
    """

    def __init__(
        self,
        drive: FlowDrive,
        tool: str,
        arguments: str,
        value_of: Callable[[Any], Any],
        asked: ToolWait[Any] | None = None,
    ) -> None:
        self.tool = tool
        self.arguments = arguments
        self.value_of = value_of
        self.asked = asked
        self.call_id = ""
        self.future: asyncio.Future[Any] | None = None
        self._drive = drive
        self._number = drive.loop.next_number()
        self._steps: Generator[Any, Any, Any] | None = None

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"<call of {self.tool}>"

    def __await__(self) -> Generator[Any, Any, Any]:
        if self.future is not None:
            msg = f"a call of {self.tool} is awaited twice. Make a task of it."
            raise RuntimeError(msg)
        self.future = self._drive.begin(self)
        return (yield from self.future)

    def send(self, value: Any) -> Any:
        """Go on, as a coroutine does."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception where the call waits, as a coroutine does."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """End the call, as a coroutine does."""
        if self._steps is not None:
            self._steps.close()
