"""Hooks: functions of an application that observe or change the steps of an agent."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.authoring import callables
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations.core.usage import Usage

    BeforeModel: TypeAlias = Callable[
        ["TurnInfo"], "ChangeRequest | Awaitable[ChangeRequest | None] | None"
    ]
    ReplyChange: TypeAlias = "ChangeReply | RefuseReply | Continue"
    AfterModel: TypeAlias = Callable[
        ["ReplyInfo"], "ReplyChange | Awaitable[ReplyChange | None] | None"
    ]
    BeforeTool: TypeAlias = Callable[
        ["CallInfo"], "ChangeArguments | Awaitable[ChangeArguments | None] | None"
    ]
    AfterTool: TypeAlias = Callable[
        ["ResultInfo"], "ChangeResult | Awaitable[ChangeResult | None] | None"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInfo:
    """A turn of a model, before the request.

    Attributes:
        run_id: The id of the run.
        agent: The name of the agent.
        path: Names from the root agent down to this agent.
        turns: The number of turns that the model has made before in this frame.
        text: The new text of the user or of the calling agent; `""` if there is no new
            text. Several messages are joined with blank lines.
        usage: The model usage of the whole run.
        context: The object that the application passed as `context=`.
        make_messages: The engine sets it. Read `messages` instead.
        make_state: The engine sets it. Read `state` instead.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    turns: int
    usage: Usage
    text: str = field(default="", repr=False)
    context: Any = field(default=None, repr=False)
    make_messages: Callable[[], list[dict[str, Any]]] = field(
        default=list, repr=False, compare=False
    )
    make_state: Callable[[], Any] = field(
        default=lambda: None, repr=False, compare=False
    )

    @property
    def state(self) -> Any:
        """A new value of `Agent(state=...)`, `None` if the agent has no state."""
        return self.make_state()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the agent in the chat completions format, as new dicts."""
        return self.make_messages()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyInfo:
    """The reply of a model, before it is recorded.

    Attributes:
        run_id: The id of the run.
        agent: The name of the agent.
        path: Names from the root agent down to this agent.
        turns: The number of turns that the model has made before in this frame.
        text: The text of the reply.
        tools: The names of the tools that the model calls, in its order.
        finish_reason: The reason why the provider stopped, in the provider's word.
        usage: The usage of this reply.
        context: The object that the application passed as `context=`.
        output: For a guardrail on the output: the output with its type, else `None`.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    turns: int
    text: str = field(repr=False)
    tools: tuple[str, ...]
    finish_reason: str
    usage: Usage
    context: Any = field(default=None, repr=False)
    output: Any = field(default=None, repr=False)

    @property
    def is_final(self) -> bool:
        """Whether the reply calls no tool."""
        return not self.tools


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """A call with valid arguments, before its policy is asked.

    Attributes:
        run_id: The id of the run.
        agent: The name of the agent.
        path: Names from the root agent down to the tool.
        call_id: The id of the call, unique within the run.
        tool: The name of the tool.
        arguments: The effective arguments as JSON values. They may contain secrets.
        context: The object that the application passed as `context=`.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    call_id: str
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    context: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """The result of a tool, before it is recorded.

    Attributes:
        run_id: The id of the run.
        agent: The name of the agent.
        path: Names from the root agent down to the tool.
        call_id: The id of the call, unique within the run.
        tool: The name of the tool.
        arguments: The arguments with which the tool ran, as JSON values.
        text: The text that the model would read.
        failed: Whether the tool raised or took too long. Then `text` says so.
        context: The object that the application passed as `context=`.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    call_id: str
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)
    failed: bool
    context: Any = field(default=None, repr=False)


# Changes --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """Send more messages, or other settings; `before_model` returns it.

    Attributes:
        messages: Messages after the stored ones: texts of a user, or chat messages with
            the role `user`, `system` or `developer`. They are stored with the reply.
        request_messages: Messages like these, of this request only. They come last, and
            are not stored.
        settings: Options for the provider, of this turn only. They win over those of
            the agent, and are not stored.
    """

    messages: Sequence[str | Mapping[str, Any]] = ()
    request_messages: Sequence[str | Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ChangeReply:
    """Record another text instead of the text of the model; `after_model` returns it.

    The calls of the reply and its metadata stay. Other fields of the provider's message
    are dropped.

    Attributes:
        text: The text.
    """

    text: str


@dataclass(frozen=True, slots=True)
class RefuseReply:
    """Do not use the reply; `after_model` returns it.

    It is no message and its calls do not run. The first 1,000 characters of its text
    are stored, for people who may read the run. The model reads the reason and is
    asked again, at most `output_retries` times. Then the agent ends with the error
    `refused`.

    Attributes:
        reason: The reason, which the model reads.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Continue:
    """Let the agent go on after a reply without calls; `after_model` returns it.

    The reply is stored, then this message of a user, and the model is asked again.
    After `max_turns` turns, the agent ends with the error `max_turns`.

    Attributes:
        text: The message.
    """

    text: str


@dataclass(frozen=True, slots=True)
class ChangeArguments:
    """Call the tool with other arguments; `before_tool` returns it.

    People who approve the call read these arguments, and the tool gets them.

    Attributes:
        arguments: All arguments as JSON values, by name.
    """

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """Record another result; `after_tool` returns it.

    Attributes:
        text: The text that the model reads.
    """

    text: str


HOOK_NAMES = ("before_model", "after_model", "before_tool", "after_tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions that observe or change the steps of an agent.

    Each function is plain or async, and takes one argument. It returns `None` to
    observe, or a change. A hook may be called again after a crash.

    Attributes:
        before_model: Called with a `TurnInfo` before each request to the model; may
            return a `ChangeRequest`.
        after_model: Called with a `ReplyInfo` after each reply of the model; may return
            a `ChangeReply`, a `RefuseReply` or a `Continue`.
        before_tool: Called with a `CallInfo` for each call with valid arguments, before
            guardrails and the approval policy; may return `ChangeArguments`.
        after_tool: Called with a `ResultInfo` after the function of a tool has returned
            or raised; may return a `ChangeResult`.

    Raises:
        InvalidInput: A hook is not a function with one parameter.
    """

    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None

    def __repr__(self) -> str:
        # A hook that is a method of a subclass would show this object again.
        names = [name for name in HOOK_NAMES if getattr(self, name) is not None]
        return f"<{type(self).__name__}: {', '.join(names) or 'none'}>"

    def __post_init__(self) -> None:
        """Check the functions."""
        for name in HOOK_NAMES:
            hook = getattr(self, name)
            if hook is not None and not callables.is_observer(hook):
                raise InvalidInput(
                    f"Hooks: {name} must be a function with one parameter, got "
                    f"{callables.shown(hook)}. Declare def {name}(info)."
                )
