"""A model whose replies are recorded once from a real provider, then replayed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from continuations.errors import InvalidInput, ModelError
from continuations.models.interface import LostReply, Message, ModelReply, PendingReply
from continuations.models.scripted import hand_on_words
from continuations.prices import Usage
from continuations.testing.recording_file import (
    Difference,
    Exchange,
    RecordingFile,
    SecretRemover,
    digest_of,
    first_difference,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from os import PathLike

    from continuations.models.interface import Model, ModelRequest

_COUNTS = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
)


class RecordedModel:
    """A `Model` that records the traffic of another model, and replays it.

    A request is found by its digest, so a run that is resumed in another process gets
    the right reply. The digest covers the whole request: model, messages, tools, output
    schema and settings. An equal request gets an equal reply, also while recording.

    For a listener (`runner.stream`), a replay sends each word of the recorded reply as
    a part, like a model that streams. While recording, the parts are those of the
    provider. They are not stored: a secret may be divided between two of them.

    Secrets in requests and replies are replaced by `[removed]` before anything is
    written:

    - the values of environment variables such as `OPENAI_API_KEY`
    - the values of headers, and of fields such as `api_key`
    - texts with the form of a key or of an `Authorization` header
    - the texts of `secrets`

    The file contains the conversation: read it before you commit it.

    Args:
        path: The JSON file.
        model: The model to record, or a function that makes it. The function is called
            only for a request that is not recorded. `None`: replay only.
        record: Ask `model` for each request that is not in the file, and add it. To
            record all of it again, delete the file. Default: only replay.
        secrets: Further texts that must not be written.

    Raises:
        InvalidInput: `record` is set without `model`, the file does not exist and
            `record` is not set, or the file is not a recording.
        ModelError: From `reply`: the file has no such request. The text names the
            first difference from the nearest recorded request.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        model: Model | Callable[[], Model] | None = None,
        *,
        record: bool = False,
        secrets: Iterable[str] = (),
    ) -> None:
        if record and model is None:
            raise InvalidInput(
                "RecordedModel: record=True needs the model to record. Pass "
                "RecordedModel(path, model, record=True)."
            )
        self._file = RecordingFile(Path(path))
        if not record and not self._file.path.exists():
            raise InvalidInput(
                f"recording {self._file.path} does not exist. Record it once with "
                "RecordedModel(path, model, record=True), or in pytest with the option "
                "--record-models."
            )
        self._given_model = model
        self._record = record
        self._secret_remover = SecretRemover(secrets)

    def __repr__(self) -> str:
        return f"RecordedModel({str(self._file.path)!r})"

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        is_new = self._record and not self._file.exchanges
        return self._model.name if is_new else self._file.model

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Return the recorded reply to a request; see `Model.reply`.

        While recording, a `PendingReply` is returned. It is not recorded: the reply of
        a later `poll` is.
        """
        answer = await self._answer(request, lambda model: model.reply(request))
        assert not isinstance(answer, LostReply)  # noqa: S101 - only a poll returns it
        return answer

    async def poll(
        self, reply_id: str, request: ModelRequest
    ) -> ModelReply | PendingReply | LostReply:
        """Return a pending reply, or the recorded reply to its request.

        Args:
            reply_id: The id of the newest `PendingReply`.
            request: The request of the turn.

        Returns:
            The reply. While recording, it may be a `PendingReply` or a `LostReply`.
        """
        return await self._answer(request, lambda model: model.poll(reply_id, request))

    async def _answer(
        self, request: ModelRequest, ask: Callable[[Any], Awaitable[Any]]
    ) -> ModelReply | PendingReply | LostReply:
        given = self._cleaned_request(request)
        exchange = self._find(given)
        is_replay = exchange is not None
        if exchange is None:
            if not self._record:
                raise self._unknown_request(request, given)
            if self._model.name != self.name:
                raise self._error(
                    request,
                    f"it is a recording of {self.name}, and the model is "
                    f"{self._model.name}. Delete the file and record it again",
                )
            answer = await ask(self._model)
            if isinstance(answer, PendingReply | LostReply):
                return answer
            cleaned = self._secret_remover.clean(_reply_json(answer))
            exchange = self._add(request, Exchange.of(request.agent, given, cleaned))
        try:
            reply = _reply_of(exchange.reply)
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(
                request,
                f"the reply of exchange {exchange.digest[:8]} cannot be read "
                f"({type(error).__name__}). Delete the file and record it again",
            ) from None
        if is_replay:
            await hand_on_words(request, reply.message)
        return reply

    def _add(self, request: ModelRequest, exchange: Exchange) -> Exchange:
        try:
            return self._file.add(self.name, exchange)
        except OSError as error:
            raise self._error(
                request,
                f"the file cannot be written ({type(error).__name__}). Make "
                f"{self._file.path.parent} a folder that this process may write",
            ) from None

    @cached_property
    def _model(self) -> Model:
        given: Any = self._given_model
        model = given if hasattr(given, "reply") else given()
        return cast("Model", model)

    def _cleaned_request(self, request: ModelRequest) -> dict[str, Any]:
        schema = request.output_schema
        value = {
            "model": self.name,
            "messages": [message.data for message in request.messages],
            "tools": [asdict(tool) for tool in request.tools],
            "output_schema": None if schema is None else asdict(schema),
            "settings": dict(request.settings),
        }
        try:
            # As it will be read from the file: tuples are lists.
            plain = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            raise self._error(
                request,
                "settings cannot be written to a recording, because they are not JSON. "
                "Use values of JSON only",
            ) from None
        return cast("dict[str, Any]", self._secret_remover.clean(plain))

    def _find(self, given: Mapping[str, Any]) -> Exchange | None:
        exchange = self._file.exchanges.get(digest_of(given))
        if exchange is not None or self._record:
            return exchange
        # This machine may know other secrets than the one that made the recording.
        return next(
            (
                each
                for each in self._file.exchanges.values()
                if first_difference(each.request, given) is None
            ),
            None,
        )

    def _unknown_request(
        self, request: ModelRequest, given: Mapping[str, Any]
    ) -> ModelError:
        candidates = [
            _Candidate(number, each, _equal_messages(each.request, given))
            for number, each in enumerate(self._file.exchanges.values(), 1)
        ]
        of_agent = [each for each in candidates if each.exchange.agent == request.agent]
        nearest = max(
            of_agent or candidates, key=lambda each: each.equal_messages, default=None
        )
        advice = "If the change is intended, delete the file and record it again"
        if nearest is None:
            return self._error(request, f"no request is recorded. {advice}")
        difference = _difference(nearest.exchange, given)
        return self._error(
            request,
            f"the request differs from recorded request {nearest.number} at "
            f"{difference.path}: recorded {difference.recorded}, got "
            f"{difference.given}. {advice}",
        )

    def _error(self, request: ModelRequest, text: str) -> ModelError:
        run = f"run {request.run_id}, " if request.run_id else ""
        agent = f"agent {request.agent}, " if request.agent else ""
        return ModelError(
            f"{run}{agent}recording {self._file.path.name}: {text}.",
            run_id=request.run_id or None,
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A recorded request, and how far a given one equals it."""

    number: int
    exchange: Exchange
    equal_messages: int


def _difference(exchange: Exchange, given: Mapping[str, Any]) -> Difference:
    found = first_difference(exchange.request, given)
    # `_find` compares in the same way, so a difference exists.
    return found or Difference(path="the digest", recorded="another", given="this")


def _equal_messages(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    pairs = zip(recorded.get("messages", ()), given["messages"], strict=False)
    count = 0
    for left, right in pairs:
        if first_difference(left, right) is not None:
            break
        count += 1
    return count


def _reply_json(reply: ModelReply) -> dict[str, Any]:
    return {
        "message": reply.message.data,
        # Without a cost: prices may differ when the reply is replayed.
        "usage": {name: getattr(reply.usage, name) for name in _COUNTS},
        "finish_reason": reply.finish_reason,
    }


def _reply_of(data: Mapping[str, Any]) -> ModelReply:
    return ModelReply(
        message=Message.from_mapping(data["message"]),
        usage=Usage(**data["usage"]),
        finish_reason=data["finish_reason"],
    )


class RecordModel(Protocol):
    """The type of the fixture `recorded_model`."""

    def __call__(
        self,
        model: Model | Callable[[], Model],
        *,
        name: str | None = None,
        secrets: Iterable[str] = (),
    ) -> RecordedModel:
        """Return a recorded model of this test.

        The file is `recordings/<file>/<test>.json` in the folder of the test's file.

        Args:
            model: The model to record with `--record-models`, or a function that makes
                it.
            name: Name of the file without `.json`. Default: the name of the test.
            secrets: Further texts that must not be written.

        Returns:
            The model.
        """
        ...
