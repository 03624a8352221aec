"""Tools that may return a wait, and the functions that get its end."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from continuations.authoring import callables
from continuations.authoring.base_tool import BaseTool
from continuations.authoring.call_gate import begin_call
from continuations.authoring.errors import ResultNotSerializable
from continuations.authoring.handler_function import (
    CONTEXT_PARAMETER,
    HandlerFunction,
    check_function,
)
from continuations.authoring.tool_waits import ToolWait, is_tool_wait
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from continuations.authoring.answer_function import AnswerFunction
    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.context import ToolContext
    from continuations.core.attachments import ResultWithFiles

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _Functions:
    """The functions of a tool that waits, shared by the copies of the tool."""

    answer: AnswerFunction | None = None
    cancel: HandlerFunction | None = None


# The return annotations of a function whose result needs no serializer.
_TEXT = (str, "str")


class WaitingTool(BaseTool):
    """A tool that calls a function, which may return a wait.

    Attributes:
        function: The function, plain or async.
    """

    function: Callable[..., Any]

    @cached_property
    def _functions(self) -> _Functions:
        return _Functions()

    def with_policy(self, policy: ApprovalPolicy) -> Self:
        """Return a copy that asks by the policy of its agent; see `BaseTool`."""
        _ = self._functions  # a function that is declared later belongs to the copy too
        return super().with_policy(policy)

    @property
    @abstractmethod
    def _argument_names(self) -> Sequence[str] | None:
        """The names of the arguments; `None` if they are not readable."""

    @abstractmethod
    def _passed(
        self, function: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what a function of the tool gets, by position and by name.

        `function` is that of the tool, or `verify`.
        """

    async def invoke(
        self, arguments_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles | ToolWait[Any]:
        """Execute the function; see `ToolProtocol.invoke`.

        A plain function runs in a thread that runs nothing else meanwhile.
        """
        args, kwargs = self._passed(self.function, arguments_json, ctx)
        if getattr(self.function, "__annotations__", {}).get("return") not in _TEXT:
            # Before the call: an effect must not wait for an import to be recorded.
            _load_result_serializer()
        result: object = await begin_call(self.function, *args, **kwargs)
        if type(result) is str or is_tool_wait(result):
            return result
        return _load_result_serializer()(result)

    async def _call_verify(
        self, verify: Callable[..., Any], arguments_json: str, ctx: ToolContext
    ) -> object:
        args, kwargs = self._passed(verify, arguments_json, ctx)
        return await callables.call(verify, *args, **kwargs)

    @property
    def continues(self) -> bool:
        """Whether an `on_answer` function gets the answers that the tool waits for."""
        return self._functions.answer is not None

    def on_answer(self, function: Callable[P, R]) -> Callable[P, R]:
        """Declare the function that gets the answer, as a decorator.

        The tool returns a wait, such as `ask(...)`. The answer then goes to this
        function, and its result is the result of the call. It runs under the same
        rules as the tool: a call that may have begun is repeated only if the tool is
        repeatable.

        ```python
        @receipt.on_answer
        def received(answer: Claim, trip: str) -> str: ...
        ```

        Args:
            function: A plain or async function of `answer`. It may also take arguments
                of the tool by their names, and the `ToolContext` as `ctx`. The
                annotation of `answer` is the type of the answer. The function must
                not return a wait.

        Returns:
            The function.

        Raises:
            InvalidInput: The function does not take `answer`, or requires an argument
                that the tool does not have. Or the tool has such a function already.
        """
        from continuations.authoring import answer_function  # noqa: PLC0415 - few tools wait

        label = f"tool {self.name}"
        if self._functions.answer is not None:
            msg = f"{label} has an on_answer function already. Declare only one."
            raise InvalidInput(msg)
        scope = enclosing_locals(function, inspect.currentframe())
        receiver = answer_function.checked(function, label, scope)
        names = self._argument_names
        if names is not None:
            own = (answer_function.ANSWER_PARAMETER, CONTEXT_PARAMETER)
            callables.check_callback_parameters(
                function, (*names, *own), f"{label}: on_answer"
            )
        self._functions.answer = receiver
        return function

    @property
    def cancels(self) -> bool:
        """Whether an `on_cancel` function is called when a call is cancelled."""
        return self._functions.cancel is not None

    def on_cancel(self, function: Callable[P, R]) -> Callable[P, R]:
        """Declare the function that stops a job that is not needed any more.

        It is called when a call that waits is cancelled, and when the deadline of
        `external(...)` passes. A crash may repeat it, and a failure is tried again
        twice. So pass `ctx.idempotency_key` to the other system: it is the id of the
        wait that ends. The job has the name `ctx.wait_id`, as in the tool.

        ```python
        @scan.on_cancel
        def stop_scan(document: str, ctx: ToolContext) -> None: ...
        ```

        Args:
            function: A plain or async function. It may take arguments of the tool by
                their names, and the `ToolContext` as `ctx`. Its result is not used.

        Returns:
            The function.

        Raises:
            InvalidInput: The function requires an argument that the tool does not
                have. Or the tool has such a function already.
        """
        label = f"tool {self.name}"
        if self._functions.cancel is not None:
            msg = f"{label} has an on_cancel function already. Declare only one."
            raise InvalidInput(msg)
        check_function(function, f"{label}: on_cancel")
        scope = enclosing_locals(function, inspect.currentframe())
        names = self._argument_names
        if names is not None:
            callables.check_callback_parameters(
                function, (*names, CONTEXT_PARAMETER), f"{label}: on_cancel"
            )
        self._functions.cancel = HandlerFunction(function, scope)
        return function

    async def cancel_call(self, arguments_json: str, ctx: ToolContext) -> None:
        """Call the `on_cancel` function; see `ToolProtocol.cancel_call`."""
        if self._functions.cancel is not None:
            values = self._values_by_name(arguments_json)
            arguments = self._functions.cancel.accepted(values, ctx)
            await callables.call(self._functions.cancel.function, **arguments)

    def check_answer(self, answer_json: str) -> None:
        """Check an answer; see `ToolProtocol.check_answer`."""
        if self._functions.answer is not None:
            self._functions.answer.typed_answer(answer_json)

    async def receive_answer(
        self, arguments_json: str, answer_json: str, ctx: ToolContext
    ) -> str | ResultWithFiles:
        """Call the `on_answer` function; see `ToolProtocol.receive_answer`."""
        receiver = self._functions.answer
        if receiver is None:
            return await super().receive_answer(arguments_json, answer_json, ctx)
        values = self._values_by_name(arguments_json)
        arguments = receiver.arguments(answer_json, values, ctx)
        result = await begin_call(receiver.function, **arguments)
        if isinstance(result, ToolWait):
            msg = "the on_answer function returned a wait, and a call waits only once"
            raise ResultNotSerializable(msg)
        return _load_result_serializer()(result)


def _load_result_serializer() -> Callable[[object], str | ResultWithFiles]:
    from continuations.authoring.tool_results import serialize_result  # noqa: PLC0415 - slow to import

    return serialize_result


def enclosing_locals(
    function: object, frame: FrameType | None
) -> Mapping[str, Any] | None:
    """Return the local names that the annotations of a nested function may use.

    `frame` is that of the function that the application called.
    """
    # `from __future__ import annotations` leaves only the text of an annotation, and
    # a function's locals cannot be read after it returned. Most tools are not nested:
    # for them no frame is kept alive.
    nested = "<locals>" in getattr(function, "__qualname__", "")
    caller = None if frame is None else frame.f_back
    return caller.f_locals if nested and caller is not None else None
