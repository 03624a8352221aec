"""A model that asks other models, one after another, until one replies.

It keeps no state: which model owns a pending reply stands in the id of that reply, so
any process polls the right one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

from continuations.core import jsontext
from continuations.core.model_protocol import (
    LostReply,
    ModelDelta,
    ModelReply,
    PendingReply,
)
from continuations.core.usage import Usage
from continuations.errors import InvalidInput, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from continuations.core.model_protocol import Model, ModelRequest

ErrorKind: TypeAlias = Literal[
    "retryable",
    "rate_limit",
    "server_error",
    "no_response",
    "credentials",
    "not_found",
    "invalid_request",
    "content_filter",
]
_KINDS: tuple[str, ...] = get_args(ErrorKind)
_RATE_LIMIT, _NOT_FOUND, _TIMEOUT, _SERVER_ERROR = 429, 404, 408, 500
_CREDENTIALS = frozenset({401, 402, 403})
_INVALID_REQUEST = frozenset({400, 413, 422})
_MAX_ERROR_CHARS = 300
_MAX_REPLY_ID_CHARS = 500
_MIN_MODELS = 2

_COVERS: dict[str, Callable[[ModelError], bool]] = {
    # An account without credit has this status too, and another provider may have some.
    "retryable": lambda error: error.retryable or error.status == _RATE_LIMIT,
    "rate_limit": lambda error: error.status == _RATE_LIMIT,
    "server_error": lambda error: (error.status or 0) >= _SERVER_ERROR,
    "no_response": lambda error: error.retryable and error.status in (None, _TIMEOUT),
    "credentials": lambda error: error.status in _CREDENTIALS,
    "not_found": lambda error: error.status == _NOT_FOUND,
    "invalid_request": lambda error: error.status in _INVALID_REQUEST,
    "content_filter": lambda _: False,  # a reply, and no error
}


class _Member(NamedTuple):
    """A model, with a key that is unique in its `Fallback`."""

    key: str
    model: Any


class _Attempt(NamedTuple):
    """A model that gave no reply."""

    key: str
    error: ModelError

    @property
    def facts(self) -> dict[str, Any]:
        status = {} if self.error.status is None else {"status": self.error.status}
        return {"model": self.key, **status, "error": _shortened(str(self.error))}


class Fallback:
    """A `Model` that asks the next model if one fails.

    Each request begins with the first model. A model is asked once, after the retries
    of its own adapter. If all models fail, and an error is retryable, the runner
    repeats the request or lets the agent wait, as for any model.

    The stored reply has metadata, which providers do not get: `model`, and for each
    model that failed before it its name, status and error. See `Frame.metadata`.

    Args:
        models: At least two models: objects, or names for `OpenAIChat`.
        on: Which failures lead to the next model: kinds of failures, or a function of
            the `ModelError`. Default: `("retryable",)`.

            - `"retryable"`: `ModelError.retryable`: rate limits, server errors,
              timeouts, no connection, unusable responses, no credit
            - `"rate_limit"`, `"server_error"`: status 429, status 500 and above
            - `"no_response"`: a timeout or no connection
            - `"credentials"`: status 401, 402 and 403
            - `"not_found"`: status 404
            - `"invalid_request"`: status 400, 413 and 422
            - `"content_filter"`: the reply was withheld by a content filter
        name: The name, for the run and for logs. Default: made from the names of the
            models.

    Raises:
        InvalidInput: `models`, `on` or `name` is invalid.
    """

    def __init__(
        self,
        models: Sequence[Model | str],
        *,
        on: Sequence[ErrorKind] | Callable[[ModelError], bool] = ("retryable",),
        name: str | None = None,
    ) -> None:
        self._members = _members_of(models)
        self._on = _checked_on(on)
        unchecked: Any = name
        if unchecked == "" or not isinstance(unchecked, str | None):
            msg = f"name must be a text that is not empty, or None, got {name!r:.60}."
            raise InvalidInput(msg)
        self._name = (
            name or f"fallback({', '.join(each.key for each in self._members)})"
        )

    def __repr__(self) -> str:
        return f"Fallback({self._name!r})"

    @property
    def name(self) -> str:
        """The name: `fallback(MODEL, MODEL)`, unless you gave one."""
        return self._name

    @property
    def models(self) -> tuple[Model, ...]:
        """The models, in the order in which they are asked."""
        return tuple(each.model for each in self._members)

    @property
    def priced_names(self) -> tuple[str, ...]:
        """The names of all models that may be asked; each has its own price."""
        names = [_names_of(each.model) for each in self._members]
        return tuple(dict.fromkeys(name for each in names for name in each))

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Return the reply of the first model that gives one; see `Model.reply`.

        Args:
            request: The conversation, the tools and the options.

        Returns:
            The reply, or the `PendingReply` of a model that replies later.

        Raises:
            ModelError: No model replied, or a model failed in a way that `on` does not
                name.
        """
        failed: list[_Attempt] = []
        costs = Usage()
        for member in self._members:
            if failed:
                await _begin_again(request, failed, costs)
            try:
                answer = await member.model.reply(request)
            except ModelError as error:
                costs += _cost(request, member, error.usage)
                failed.append(_Attempt(member.key, error))
                if not self._goes_on(error):
                    break
                continue
            is_last = member is self._members[-1]
            if self._is_withheld(answer) and not is_last:
                costs += _cost(request, member, answer.usage)
                withheld = ModelError("the reply was withheld by a content filter")
                failed.append(_Attempt(member.key, withheld))
                continue
            facts = [attempt.facts for attempt in failed]
            found: ModelReply | PendingReply = _owned(
                member, answer, request, facts, costs
            )
            return found
        raise _error_of(failed, request, costs)

    async def poll(
        self, reply_id: str, request: ModelRequest
    ) -> ModelReply | PendingReply | LostReply:
        """Poll the model that owns a pending reply; see `PollableModel.poll`.

        Args:
            reply_id: The id of the newest `PendingReply`; it names the model.
            request: The request of the turn.

        Returns:
            The reply, a `PendingReply` or a `LostReply`. After a `LostReply`, the
            turn is asked again, beginning with the first model.

        Raises:
            ModelError: The provider cannot be asked now, or the model that owns the
                reply is missing here.
        """
        key, inner_id, failed = _read_reply_id(reply_id)
        for member in self._members:
            if member.key == key and hasattr(member.model, "poll"):
                return await _poll(member, inner_id, request, failed)
        msg = (
            f"{_prefix(request)} {self._name}: the model {key!r} owns the pending "
            "reply, and is not one of the models here. Restore the model, then resume "
            "the run."
        )
        raise ModelError(msg, run_id=request.run_id or None)

    def _goes_on(self, error: ModelError) -> bool:
        if callable(self._on):
            return bool(self._on(error))
        return any(_COVERS[kind](error) for kind in self._on)

    def _is_withheld(self, answer: object) -> bool:
        if callable(self._on) or "content_filter" not in self._on:
            return False
        return (
            isinstance(answer, ModelReply) and answer.finish_reason == "content_filter"
        )


def _members_of(models: object) -> tuple[_Member, ...]:
    listed = isinstance(models, list | tuple)
    given: list[Any] = [*cast("Sequence[Any]", models)] if listed else []
    if len(given) < _MIN_MODELS:
        got = f"{len(given)} of them" if listed else type(models).__name__
        raise InvalidInput(f"models must be a list of at least two models, got {got}.")
    members: dict[str, _Member] = {}
    for each in given:
        model = _model_of(each)
        # One model of two providers may have the same name twice.
        key, number = model.name, 2
        while key in members:
            key, number = f"{model.name}#{number}", number + 1
        members[key] = _Member(key, model)
    return tuple(members.values())


def _model_of(given: Any) -> Any:
    if isinstance(given, str) and given:
        from continuations.models.openai_chat import OpenAIChat  # noqa: PLC0415 - only for names

        return OpenAIChat(given)
    has_name = isinstance(getattr(given, "name", None), str)
    if has_name and callable(getattr(given, "reply", None)):
        return given
    # The value is not shown: a client of a model may show its API key.
    raise InvalidInput(
        "models must have names, or objects with `name` and `reply`, got "
        f"{type(given).__name__}."
    )


def _checked_on(on: object) -> tuple[str, ...] | Callable[[ModelError], bool]:
    if callable(on):
        return cast("Callable[[ModelError], bool]", on)
    kinds = tuple(cast("Sequence[object]", on)) if isinstance(on, list | tuple) else ()
    if kinds and all(kind in _KINDS for kind in kinds):
        return cast("tuple[str, ...]", kinds)
    raise InvalidInput(
        f"on must be a function of a ModelError, or a list of {', '.join(_KINDS)}, got "
        f"{on!r:.80}."
    )


def _names_of(model: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(model, "priced_names", (model.name,))
    return names


async def _begin_again(
    request: ModelRequest, failed: list[_Attempt], costs: Usage
) -> None:
    """Prepare a request to the next model; raise an error if the worker must stop."""
    if request.may_ask_again is not None and not await request.may_ask_again():
        stopped = _error_of(failed, request, costs)
        stopped.retryable = True  # the next worker begins with the first model
        raise stopped
    if request.on_delta is not None:
        await request.on_delta(ModelDelta(kind="restart"))


def _cost(request: ModelRequest, member: _Member, usage: object) -> Usage:
    if not isinstance(usage, Usage):
        return Usage()
    if request.prices is None:
        return usage
    return request.prices.with_cost(usage, member.model.name)


async def _poll(
    member: _Member, reply_id: str, request: ModelRequest, failed: list[dict[str, Any]]
) -> ModelReply | PendingReply | LostReply:
    try:
        answer = await member.model.poll(reply_id, request)
    except ModelError as error:
        error.usage = _cost(request, member, error.usage) if error.usage else None
        raise
    found: ModelReply | PendingReply | LostReply = _owned(
        member, answer, request, failed, Usage()
    )
    return found


def _owned(
    member: _Member,
    answer: Any,
    request: ModelRequest,
    failed: list[dict[str, Any]],
    costs: Usage,
) -> Any:
    """Return a model's answer with its name, and with the cost of all attempts."""
    if not isinstance(answer, ModelReply | PendingReply | LostReply):
        return answer  # the engine says that it is no answer
    usage = costs + _cost(request, member, answer.usage)
    if isinstance(answer, ModelReply):
        message = _with_facts(member, answer, failed)
        return replace(answer, usage=usage, message=message)
    if isinstance(answer, LostReply):
        # Another model may answer the turn when it is asked again.
        return replace(answer, usage=usage, retryable=True)
    if not hasattr(member.model, "poll"):
        return None  # no process could poll it
    return _pending(member, replace(answer, usage=usage), failed)


def _with_facts(
    member: _Member, answer: ModelReply, failed: list[dict[str, Any]]
) -> Any:
    inner = answer.message.metadata or {}  # of a Fallback among the models
    facts = {**inner, "model": inner.get("model", member.key)}
    failed = [*failed, *inner.get("failed", ())]
    if failed:
        facts["failed"] = failed
    return answer.message.with_metadata(jsontext.canonical(facts))


def _pending(
    member: _Member, answer: PendingReply, failed: list[dict[str, Any]]
) -> PendingReply:
    """Return a pending reply whose id names its model, and if possible the others."""
    short = [[each["model"], each.get("status", 0)] for each in failed]
    parts: list[object] = [member.key, answer.id, short]
    reply_id = jsontext.dump(parts)
    if len(reply_id) > _MAX_REPLY_ID_CHARS:
        without: list[str | list[str]] = [member.key, answer.id, []]
        reply_id = jsontext.dump(without)
    return replace(answer, id=reply_id)


def _read_reply_id(reply_id: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the model of a pending reply, its id there, and who failed before."""
    try:
        value: Any = jsontext.parse(reply_id)
        key, inner_id, pairs = value
        failed = [
            {"model": str(model), **({"status": status} if status else {})}
            for model, status in pairs
        ]
        return str(key), str(inner_id), failed
    except (TypeError, ValueError):
        # The reply is of another model: the agent had no Fallback when it asked.
        return "", reply_id, []


def _error_of(
    failed: list[_Attempt], request: ModelRequest, costs: Usage
) -> ModelError:
    """Return one error for all models that failed."""
    last = failed[-1].error
    usage = costs if costs.counted else None
    if len(failed) == 1:
        last.usage = usage
        return last
    texts = "; ".join(f"{key}: {_shortened(str(error))}" for key, error in failed)
    later = [error.retry_after or 0.0 for _, error in failed if error.retryable]
    return ModelError(
        f"{_prefix(request)}s failed one after another: {texts}",
        run_id=request.run_id or None,
        status=last.status,
        retryable=bool(later),
        retry_after=min(later, default=0.0) or None,
        unreachable=all(e.unreachable for _, e in failed if e.retryable)
        and any(e.unreachable for _, e in failed),
        usage=usage,
    )


def _prefix(request: ModelRequest) -> str:
    return f"run {request.run_id}, model" if request.run_id else "model"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}…"
