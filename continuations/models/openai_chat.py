"""The adapter for OpenAI and every server with a chat completions API.

Only this module imports openai. The import takes half a second, and most processes of
a run never call a model: so the first reply imports it.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from continuations.errors import InvalidInput
from continuations.models import chat_errors, chat_reply, chat_request
from continuations.models.dialect import (
    ChatDialect,
    DialectMemory,
    dialect_after_refusal,
    dialect_of_host,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from ssl import SSLContext

    from openai import AsyncOpenAI

    from continuations.core.model_protocol import ModelReply, ModelRequest
    from continuations.errors import ModelError

    ClientsByLoop = dict[
        asyncio.AbstractEventLoop,
        tuple[AsyncOpenAI, AsyncGenerator[AsyncOpenAI, None]],
    ]

_pending_closes: set[asyncio.Future[None]] = set()


class OpenAIChat:
    """A `Model` that sends requests to `POST /chat/completions`.

    Each event loop gets its own client, which is closed when the loop shuts down.

    `reply` raises only `ModelError`. `ModelError.retryable` is `True` if there is no
    connection, on a timeout, for the statuses 408, 409, 429 and 5xx, and for a
    response without a usable message. Such a response is often an exception, and
    nothing of it is stored. A status of 500 or 501 whose text says that the request
    is invalid is not retryable. The code of an error with status 200 decides like a
    status.

    The runner repeats a retryable request (`Runner(patience=...)`). So the client that
    is made here does not, unless you pass `max_retries`.

    Args:
        model: The name of the model, as the provider knows it.
        client: A client of your own. It is used as it is, and you close it; the other
            arguments are ignored. Default: a client is made.
        base_url: The URL of the API. Default: `OPENAI_BASE_URL`, else OpenAI's.
        api_key: The API key. Default: `OPENAI_API_KEY`.
        timeout: The time limit of one request in seconds. Default: the client's, 600.
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
        self._name = model
        self._dialect = dialect
        self._dialect_memory = DialectMemory()
        self._own_client = client
        settings = {"base_url": base_url, "api_key": api_key, "timeout": timeout}
        self._settings: dict[str, Any] = {
            name: value for name, value in settings.items() if value is not None
        }
        self._settings["max_retries"] = max_retries
        # A connection belongs to the loop that opened it. Each loop touches its own
        # entry in single operations, so loops in several threads need no lock.
        self._clients_by_loop: ClientsByLoop = {}
        # The finalizer holds the clients, so that it can close them properly: collected
        # together with this object, they would emit warnings instead.
        weakref.finalize(self, _close_clients, self._clients_by_loop).atexit = False

    def __repr__(self) -> str:
        return f"OpenAIChat({self._name!r})"

    @property
    def name(self) -> str:
        """The name of the model, as the provider knows it."""
        return self._name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the next assistant message; see `Model.reply`."""
        client = self._own_client or await self._client_of_running_loop(request)
        errors = chat_errors.RequestErrors(self._name, request, client)
        default = self._dialect or dialect_of_host(client.base_url.host)
        first = self._dialect_memory.first_dialect(default, request.output_schema)
        dialect = first
        while True:
            body = self._build_body(request, dialect)
            try:
                response = await _post(client, body)
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
            raise self._model_error(request, f"{error}.") from None

    def _model_error(self, request: ModelRequest, text: str) -> ModelError:
        return chat_errors.model_error(self._name, request.run_id, text)

    # The client of a loop -----------------------------------------------------

    async def _client_of_running_loop(self, request: ModelRequest) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        existing = self._clients_by_loop.get(loop)
        if existing is not None and not existing[0].is_closed():
            return existing[0]
        self._forget_closed_loops()
        client = self._make_client(request)
        generator = _client_until_shutdown(client)
        await anext(generator)
        self._clients_by_loop[loop] = (client, generator)
        return client

    def _forget_closed_loops(self) -> None:
        # Not a weak dictionary: a client refers to its loop, so no key would ever go.
        for loop in list(self._clients_by_loop):
            if loop.is_closed():
                self._clients_by_loop.pop(loop, None)

    def _make_client(self, request: ModelRequest) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415
        except ModuleNotFoundError:
            text = "the package openai is not installed. Run: pip install 'openai>=3'"
            raise self._model_error(request, text) from None
        if not (self._settings.get("api_key") or os.getenv("OPENAI_API_KEY")):
            text = "there is no API key. Set OPENAI_API_KEY, or pass api_key=. For a"
            text += " server without keys, use any text."
            raise self._model_error(request, text)
        try:
            http = DefaultAsyncHttpxClient(verify=_ssl_context())
            return AsyncOpenAI(**self._settings, http_client=http)
        except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
            text = f"the client cannot be made ({type(error).__name__}). Check"
            text += " OPENAI_BASE_URL and the arguments of OpenAIChat."
            raise self._model_error(request, text) from None


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


@cache
def _ssl_context() -> SSLContext | bool:
    """Return the SSL context that a client would make, one for all loops.

    Making it takes 20 ms, nearly the whole time of making a client, and each `run` and
    `resume` of a synchronous program has a loop of its own.
    """
    try:
        from httpx2 import create_ssl_context  # noqa: PLC0415 - comes with openai
    except ModuleNotFoundError:
        return True  # another transport makes its own context
    return create_ssl_context()


def _close_clients(clients_by_loop: ClientsByLoop) -> None:
    for loop, (_, generator) in clients_by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(partial(_close_on_loop, loop, generator))


def _close_on_loop(
    loop: asyncio.AbstractEventLoop, client_generator: AsyncGenerator[AsyncOpenAI, None]
) -> None:
    # asyncio keeps only weak references to tasks.
    closing = asyncio.ensure_future(client_generator.aclose(), loop=loop)
    _pending_closes.add(closing)
    closing.add_done_callback(_pending_closes.discard)


async def _client_until_shutdown(
    client: AsyncOpenAI,
) -> AsyncGenerator[AsyncOpenAI, None]:
    """Yield a client, and close it when the loop shuts its generators down.

    `asyncio.run` and `asyncio.Runner` call `loop.shutdown_asyncgens()` before they
    close a loop. After that, connections cannot be closed properly.
    """
    try:
        yield client
    finally:
        await client.close()
