"""The adapter for OpenAI and every server with a chat completions API.

It imports openai with the first request, see `openai_clients`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.errors import InvalidInput
from continuations.models import chat_reply, chat_request
from continuations.models.dialect import (
    ChatDialect,
    DialectMemory,
    dialect_after_refusal,
    dialect_of_host,
)
from continuations.models.openai_clients import OpenAIModel, post, post_for_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from continuations.core.model_protocol import ModelReply, ModelRequest
    from continuations.models.chat_errors import RequestErrors

_PATH = "/chat/completions"


class OpenAIChat(OpenAIModel):
    """A `Model` that sends requests to `POST /chat/completions`.

    Each event loop gets its own client, which is closed when the loop shuts down.

    `reply` raises only `ModelError`. `ModelError.retryable` is `True` if there is no
    connection, on a timeout, for the statuses 408, 409, 429 and 5xx, and for a
    response without a usable message. Nothing of such a response is stored. A status of
    500 or 501 whose text says that the request is invalid is not retryable. If a
    response with status 200 contains an error with a code, the code is treated as a
    status.

    For a listener (`runner.stream`), the reply is requested as a stream. Its parts are
    joined to the message that the server would have sent without a stream. A stream
    that is cut, or does not go on within `timeout`, is a retryable error.

    The runner repeats a retryable request (`Runner(model_retry_time=...)`). So the
    client that is made here does not, unless you pass `max_retries`.

    Args:
        model: The name of the model, as the provider knows it.
        client: A client of your own. It is used as it is, and you close it; the other
            arguments are ignored. Default: a client is made.
        base_url: The URL of the API. Default: `OPENAI_BASE_URL`, else OpenAI's.
        api_key: The API key. Default: `OPENAI_API_KEY`.
        timeout: The time limit of one request in seconds, of a stream for each part.
            Default: the client's, 600.
        max_retries: How often the client itself repeats a failed request. Default: 0.
        dialect: The forms that the server accepts; see `ChatDialect`. Default:
            OpenAI's, or that of a known host. If the server refuses a request, the
            adapter avoids the form that the refusal names, and remembers that for the
            later requests of this process: the form of an output for its schema, the
            form of `null` for all.

    Raises:
        InvalidInput: `dialect` is not a `ChatDialect`.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 0,
        dialect: ChatDialect | None = None,
    ) -> None:
        unchecked: Any = dialect
        if unchecked is not None and not isinstance(unchecked, ChatDialect):
            msg = f"dialect must be a ChatDialect, got {type(unchecked).__name__}."
            raise InvalidInput(msg)
        super().__init__(
            model,
            client,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
        )
        self._dialect = dialect
        self._dialect_memory = DialectMemory()

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the next assistant message; see `Model.reply`."""
        errors = await self._errors_of(request)
        client = errors.client
        default = self._dialect or dialect_of_host(client.base_url.host)
        first = self._dialect_memory.first_dialect(default, request.output_schema)
        response, dialect = await self._answered(
            errors,
            first,
            partial(chat_request.build_request_body, self._name, request),
            partial(_send, client, request),
            partial(dialect_after_refusal, request),
        )
        self._dialect_memory.remember(first, dialect, request.output_schema)
        return _parse_response(response, request, dialect, errors)


async def _send(
    client: AsyncOpenAI, request: ModelRequest, body: bytes, dialect: ChatDialect
) -> bytes:
    if request.on_delta is None or not chat_request.streams(request, dialect):
        return await post(client, _PATH, body)
    stream = await post_for_stream(client, _PATH, body)
    return await chat_reply.read_stream(stream, request.on_delta)


def _parse_response(
    body: bytes,
    request: ModelRequest,
    dialect: ChatDialect,
    errors: RequestErrors,
) -> ModelReply:
    uses_tool = request.output_schema is not None and dialect.output == "tool"
    output_tool = chat_request.output_tool_name(request) if uses_tool else None
    try:
        return chat_reply.parse_completion(body, output_tool=output_tool)
    except chat_reply.UnusableReply as error:
        raise errors.of_unusable_reply(error) from None
