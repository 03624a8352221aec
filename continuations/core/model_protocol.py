"""The protocol of a model: messages and tools in, one reply out."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from continuations.core import jsontext
from continuations.core.usage import Usage
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations.core.messages import Message
    from continuations.core.prices import Prices

    DeltaListener: TypeAlias = "Callable[[ModelDelta], Awaitable[None]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it.

    Attributes:
        name: The name under which the model calls the tool.
        description: The description of the tool; may be empty.
        parameters: The JSON Schema of the arguments.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """The JSON Schema of the final reply that an agent wants.

    An adapter decides how to request it from its provider, for example as
    `response_format`. The engine validates the reply in every case.

    Attributes:
        name: A name for the schema: 1 to 64 characters of `[a-zA-Z0-9_-]`.
        schema: A JSON Schema with `"type": "object"` and `properties`.
    """

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelta:
    """A part of a reply, handed on while the provider still computes the rest.

    Attributes:
        kind: `"text"` for a part of the reply, `"reasoning"` for a part of the model's
            reasoning. `"restart"`: the reply begins again, and the earlier parts do not
            count. The engine hands it on when it repeats a request. A model that asks
            again within one `reply` hands it on itself.
        text: The part; it continues the part of the same kind before. Empty for
            `"restart"`.
    """

    kind: Literal["text", "reasoning", "restart"]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    Attributes:
        messages: The conversation. It is valid for a chat completions provider.
        tools: The tools that the model may call.
        output_schema: The schema of the final reply; `None`: any text.
        settings: Options for the provider, passed on unchanged (`temperature`,
            `reasoning_effort`, ...). They win over what the adapter adds.
        agent: The name of the agent, for logs and tests. It is not sent.
        run_id: The id of the run, for logs and tests. It is not sent, except as the
            metadata of a reply that the provider computes later.
        on_delta: A model that can stream awaits this function with each part of the
            reply, before it reads the next part. `None`: the model need not
            stream. The returned reply contains all parts in every case.
        prices: For models that ask other models: the prices of the runner. Such a model
            has the attribute `priced_names`, with the names of all models that it may
            ask. It sets the cost of each part: `prices.with_cost(usage, name)`.
        may_ask_again: For such models: a function that they await before each further
            request of one `reply`. If it returns False, the worker must stop, and the
            model raises its error with `retryable=True`. `None`: it may ask again.
        files: The bytes of the attachments by digest. A user or tool message refers to
            one with a part of the type `continuations.attachment`, which has `kind`,
            `media_type`, `digest`, `size` and perhaps `name`. In a message of the
            model such a part is text.
        frame: The id of the frame for which the model is asked, for logs and traces.
        call: The id of the call whose tool is the frame's agent; `None` for the root
            agent.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    output_schema: OutputSchema | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    agent: str = ""
    run_id: str = ""
    on_delta: DeltaListener | None = field(default=None, compare=False, repr=False)
    prices: Prices | None = field(default=None, compare=False, repr=False)
    may_ask_again: Callable[[], Awaitable[bool]] | None = field(
        default=None, compare=False, repr=False
    )
    files: Mapping[str, bytes] = field(
        default_factory=dict[str, bytes], compare=False, repr=False
    )
    frame: str = field(default="", compare=False, repr=False)
    call: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The reply of a model.

    Attributes:
        message: One assistant message. Unknown fields are kept and sent back.
        usage: The requests and tokens that the reply cost. Default: one request.
            `Usage()` says that the provider bills nothing, as for a reply of a cache:
            it counts against no budget, and its cost is 0.
        finish_reason: The reason why the provider stopped, in the provider's word.
    """

    message: Message
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    finish_reason: str = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReply:
    """The provider computes the reply in the background, or in a batch.

    The engine stores the id, suspends the frame, and calls `poll` later. The run needs
    no process in between.

    Attributes:
        id: The provider's id of the reply, 1 to 500 characters.
        poll_after: The time until the first poll. Each further poll comes after a
            longer time, and after at least this one.
        usage: The requests and tokens that are billed already and that the reply's own
            usage does not contain. Default: none.
    """

    id: str
    poll_after: timedelta = timedelta(minutes=1)
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostReply:
    """A pending reply will never be ready: it failed, expired or was cancelled.

    The model is asked again later, as after a failed request.

    Attributes:
        reason: The reason, for people.
        usage: The requests and tokens that it cost. Default: none.
        retryable: Whether the model is asked again by itself. If not, for example
            because the account has no credit, the worker raises `ModelError`, and a
            `resume` asks again. Default: True.
    """

    reason: str
    usage: Usage = field(default_factory=Usage)
    retryable: bool = True


class Model(Protocol):
    """A model, or anything else that can reply to a conversation.

    A model keeps no state of a conversation: the next request of a run may come from
    another process.
    """

    @property
    def name(self) -> str:
        """The name of the model. It is recorded with the run."""
        ...

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Return the next assistant message of a conversation.

        The engine requests a turn again only after a `ModelError`, or after a crash
        before the reply was committed.

        Args:
            request: The conversation, the tools and the options.

        Returns:
            The reply of the model. A `PollableModel` may return a `PendingReply`.

        Raises:
            ModelError: There is no usable reply. A model raises no other exception.
        """
        ...


class PollableModel(Model, Protocol):
    """A model whose replies may be ready later."""

    async def poll(
        self, reply_id: str, request: ModelRequest
    ) -> ModelReply | PendingReply | LostReply:
        """Return a pending reply, if it is ready.

        A poll must have no effect: it may come twice, and from any process.

        Args:
            reply_id: The id of the newest `PendingReply` of the turn.
            request: The request of the turn, made again from the stored conversation.

        Returns:
            The reply; a `PendingReply`, perhaps with another id, if it is not ready; or
            a `LostReply`.

        Raises:
            ModelError: The provider cannot be asked now. The reply stays pending. A
                model raises no other exception.
        """
        ...


# The adapters of models make these parts of a request.
RESERVED_SETTINGS = frozenset(
    {"model", "messages", "input", "tools", "stream", "stream_options"}
)
# They are options of a client. Here they would be stored and shown.
_CLIENT_OPTIONS = frozenset({"api_key", "extra_headers", "extra_query", "timeout"})
_FORBIDDEN_SETTINGS = {
    RESERVED_SETTINGS: ", because the model's adapter sets them. Leave them out.",
    _CLIENT_OPTIONS: ": settings are stored with the run. Pass such options to the "
    "model, for example OpenAIChat(...).",
}
_MAX_CHARS = 20_000


def check_settings(settings: object) -> str | None:
    """Return the settings of a run as JSON text, or `None`; raises `InvalidInput`.

    The error shows no value: a setting may hold a secret.
    """
    if settings is None or settings == {}:
        return None
    if not isinstance(settings, dict):
        got = type(settings).__name__
        raise InvalidInput(
            "settings must be a dict of JSON values such as {'temperature': 0}, got "
            f"{got}."
        )
    names = cast("dict[object, object]", settings).keys()
    for forbidden, why in _FORBIDDEN_SETTINGS.items():
        if found := sorted(str(name) for name in names & forbidden):
            raise InvalidInput(f"settings must not have {', '.join(found)}{why}")
    try:
        text = jsontext.canonical(cast("object", settings))
    except jsontext.NotJson as error:
        msg = f"settings must be JSON: {error}. Pass JSON values only."
        raise InvalidInput(msg) from None
    if len(text) > _MAX_CHARS:
        raise InvalidInput(
            f"settings has {len(text):,} characters as JSON, and the limit is "
            f"{_MAX_CHARS:,}. Put long texts into the input."
        )
    return text


def merged_settings(of_agent: Mapping[str, Any], of_run: str) -> Mapping[str, Any]:
    """Return an agent's settings with those of the run, which win, over them."""
    return {**of_agent, **(jsontext.as_object(jsontext.parse(of_run)) or {})}
