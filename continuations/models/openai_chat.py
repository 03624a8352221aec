"""The adapter for OpenAI and every server with a chat completions API.

It imports openai with the first request, see `openai_clients`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.errors import InvalidInput
from continuations.models import chat_errors, chat_reply, chat_request
from continuations.models.dialect import (
    ChatDialect,
    DialectMemory,
    dialect_after_refusal,
    dialect_of_host,
)
from continuations.models.openai_clients import OpenAIModel

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from continuations.core.model_protocol import ModelReply, ModelRequest


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
        client = await self._clients.of_running_loop(request.run_id)
        errors = chat_errors.RequestErrors(self._name, request, client)
        default = self._dialect or dialect_of_host(client.base_url.host)
        first = self._dialect_memory.first_dialect(default, request.output_schema)
        dialect = first
        while True:
            body = self._build_body(request, dialect)
            try:
                response = await _send(client, body, request, dialect)
            except chat_reply.UnusableReply as unusable:
                raise errors.of_unusable_reply(unusable) from None
            except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
                caught = error
            else:
                self._dialect_memory.remember(first, dialect, request.output_schema)
                return _parse_response(response, request, dialect, errors)
            # Outside of `except`: the original error holds the request with its
            # headers. It must not become the context of another error.
            next_dialect = _dialect_after(caught, dialect, request)
            if next_dialect is None:
                raise errors.of_exception(caught)
            dialect = next_dialect

    def _build_body(self, request: ModelRequest, dialect: ChatDialect) -> bytes:
        try:
            return chat_request.build_request_body(self._name, request, dialect)
        except chat_request.InvalidModelSettings as error:
            run_id = request.run_id
            raise chat_errors.model_error(self._name, run_id, f"{error}.") from None


async def _send(
    client: AsyncOpenAI, body: bytes, request: ModelRequest, dialect: ChatDialect
) -> bytes:
    if request.on_delta is None or not chat_request.streams(request, dialect):
        return await _post(client, body)
    return await chat_reply.post_for_stream(client, body, request.on_delta)


async def _post(client: AsyncOpenAI, body: bytes) -> bytes:
    # The public `post`, because `create` converts the whole request. The raw response,
    # because a ChatCompletion drops unknown fields.
    from openai import AsyncAPIResponse  # noqa: PLC0415 - slow to import

    response = await client.post(
        "/chat/completions",
        content=body,
        options={"security": {"bearer_auth": True}},
        cast_to=AsyncAPIResponse[object],
    )
    return await response.read()


def _dialect_after(
    error: Exception, dialect: ChatDialect, request: ModelRequest
) -> ChatDialect | None:
    refusal = chat_errors.refusal_of(error)
    if refusal is None:
        return None
    status, text = refusal
    return dialect_after_refusal(dialect, request, status=status, text=text)


def _parse_response(
    body: bytes,
    request: ModelRequest,
    dialect: ChatDialect,
    errors: chat_errors.RequestErrors,
) -> ModelReply:
    uses_tool = request.output_schema is not None and dialect.output == "tool"
    output_tool = chat_request.output_tool_name(request) if uses_tool else None
    try:
        return chat_reply.parse_completion(body, output_tool=output_tool)
    except chat_reply.UnusableReply as error:
        raise errors.of_unusable_reply(error) from None
