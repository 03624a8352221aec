"""The context of a call, for tools that want one."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, Protocol

from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    # See `continuations.core.declared_types`.
    from typing_extensions import TypeVar

    State = TypeVar("State", default=Any)
else:
    from typing import TypeVar

    State = TypeVar("State")


class StateAccess(Protocol):
    """The state of an agent as one call reads and changes it: a `CallState`."""

    def value(self) -> Any:
        """Return the state as a new value."""
        ...

    def update(self, changes: Mapping[str, Any]) -> None:
        """Change fields."""
        ...

    def take_patch(self) -> str | None:
        """Return the changed fields as JSON text; nothing changes any more."""
        ...


def _no_form() -> None:
    return None


def _no_callback_url() -> str:
    raise InvalidInput(
        "ctx.callback_url is not available: the runner has no callback_url. Pass "
        "Runner(..., callback_url=Links(secret, base_url=...).callback_url)."
    )


def _no_listener(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[State]):
    """The context of one call of a tool.

    A tool gets it in a parameter that is annotated with `ToolContext`, under any name.
    The model does not see the parameter. For type checkers, `ToolContext[Claim]` says
    that the agent has a state of the type `Claim`.

    Attributes:
        run_id: The id of the run.
        call_id: The id of the call, unique within the run.
        idempotency_key: A key that names this call and no other. It is the same in
            every attempt and every process. Pass it to the service that you call.
        fence: A fencing token: a number that never decreases during a run. Store the
            highest value and refuse lower ones; then a replaced process cannot act.
        attempt: The number of the attempt, from 1. It is above 1 if a repeatable call
            runs again after a crash, or after an error (`retries=`).
        deadline: The time until which the engine waits for the tool at least (UTC). It
            follows from the tool's `timeout`. `None`: no limit.
        context: The object that the application passed as `context=` to `start` or
            `resume`. It is never stored.
        stage: 0 in the tool's function, n in the n-th call of its `on_answer` function.
        memo: The JSON value that the last wait of the call kept: `ask(..., memo=...)`.
            `None` if it kept nothing, or if the worker died before the wait was stored.
        make_wait_id: A function that returns `wait_id`.
        make_form: A function that returns `form`.
        make_callback_url: A function that returns `callback_url`.
        call_state: The state of the agent, if it has one.
        report_progress: The function behind `progress`.
        make_trace_context: A function that returns `trace_context`.
    """

    run_id: str
    call_id: str
    idempotency_key: str
    fence: int
    attempt: int
    deadline: datetime | None = None
    context: Any = field(default=None, repr=False)
    stage: int = 0
    memo: Any = field(default=None, repr=False, compare=False)
    # Few tools ask for the id of their wait, so it is made on request.
    make_wait_id: Callable[[], str] = field(default=str, repr=False, compare=False)
    make_form: Callable[[], Any] = field(default=_no_form, repr=False, compare=False)
    make_callback_url: Callable[[], str] = field(
        default=_no_callback_url, repr=False, compare=False
    )
    report_progress: Callable[[Any], None] = field(
        default=_no_listener, repr=False, compare=False
    )
    call_state: StateAccess | None = field(default=None, repr=False, compare=False)
    make_trace_context: Callable[[], Mapping[str, str]] = field(
        default=dict[str, str], repr=False, compare=False
    )

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The W3C trace context to send on, as a mapping of header names to values.

        With `otel.instrument(runner)`, it is that of this call. Without it, it is the
        one that `start(trace_context=...)` got. It is empty without such a context.
        """
        return self.make_trace_context()

    @property
    def state(self) -> State:
        """The state of the agent: a new value of `Agent(state=...)` at each access.

        To change the run, call `update`. A change of the value itself is lost. A call
        reads the state of the beginning of its turn. A tool with `writes_state` also
        reads what earlier calls of the turn wrote, and what it wrote itself.

        Raises:
            InvalidInput: The agent has no state.
        """
        value: State = self._known_state().value()
        return value

    def update(self, **changes: Any) -> None:
        """Change fields of the agent's state.

        The changes are stored with the result of the call, and take effect when the
        turn ends. If the call fails, or is denied or cancelled, they are dropped.

        Args:
            **changes: New values by the names of fields.

        Raises:
            InvalidInput: The agent has no state, the tool is not declared with
                `writes_state=True`, or the call has ended. A field does not exist, or
                its value has no JSON form.
            ValueError: The changed state does not fit its type. The text is for the
                model, which reads it if the tool does not catch the error.
        """
        self._known_state().update(changes)

    def _known_state(self) -> StateAccess:
        if self.call_state is None:
            raise InvalidInput(
                "ctx.state is not available: the agent has no state. Declare "
                "Agent(..., state=...) with a pydantic model or a dataclass."
            )
        return self.call_state

    @property
    def wait_id(self) -> str:
        """The id of the wait that the call opens if it returns `external(...)`.

        Give it to the other system: `decide(wait_id, Answer(result))` ends the wait,
        also before the tool has returned. The id is the same in every attempt.
        """
        return self.make_wait_id()

    @property
    def form(self) -> Any:
        """The form that the approver filled in: a value of `ApprovalPolicy(form=...)`.

        `None` if the call needed no approval, or if the policy has no form.
        """
        return self.make_form()

    @property
    def callback_url(self) -> str:
        """The URL to which another system sends the result of its job.

        The URL ends the wait that the call opens if it returns `external(...)`, and
        nothing else. A holder of the URL needs no other credentials: it is a secret.
        Like `wait_id`, it works before the tool has returned.

        Raises:
            InvalidInput: The runner has no `callback_url`.
        """
        return self.make_callback_url()

    def progress(self, value: Any) -> None:
        """Report how far the call is, to those who follow the run.

        They get the event `CallProgress`. It is not stored, and the model does not see
        it. Without a listener, the call has no effect. Any thread may call it.

        Args:
            value: A text or another JSON value. A value that is not JSON is logged and
                left out.
        """
        self.report_progress(value)
