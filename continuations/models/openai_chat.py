"""The adapter for OpenAI and every server with a chat completions API.

Only this module imports openai. The import takes half a second, and most processes of
a run never call a model: so the first reply imports it.
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from continuations.errors import ModelError
from continuations.models import chat_reply, chat_request
from continuations.models.redaction import redact_provider_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from ssl import SSLContext

    from openai import APIStatusError, AsyncOpenAI

    from continuations.core.model_protocol import ModelReply, ModelRequest

    ClientsByLoop = dict[
        asyncio.AbstractEventLoop,
        tuple[AsyncOpenAI, AsyncGenerator[AsyncOpenAI, None]],
    ]

# And every 5xx status. The openai client repeats the same ones.
_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_ADVICE_BY_STATUS = {
    401: "Check OPENAI_API_KEY, or the argument api_key.",
    403: "The key has no permission for this model. Check its permissions.",
    404: "Check the name of the model and OPENAI_BASE_URL.",
    413: "The conversation is too long for this model.",
    429: "Check the limits and the credit of the account, then resume the run.",
}
# Headers that the client sends with every request; they hold no secret.
_CLIENT_HEADERS = re.compile(r"(?i)accept|content-type|user-agent|x-stainless-.*")

_pending_closes: set[asyncio.Future[None]] = set()


class OpenAIChat:
    """A `Model` that sends requests to `POST /chat/completions`.

    Each event loop gets its own client, which is closed when the loop shuts down.

    `reply` raises only `ModelError`. `ModelError.retryable` is `True` if there is no
    connection, on a timeout, for the statuses 408, 409, 429 and 5xx, and for a
    response without a usable message. Such a response is often an exception, and
    nothing of it is stored.

    Args:
        model: The name of the model, as the provider knows it.
        client: A client of your own. It is used as it is, and you close it; the other
            arguments are ignored. Default: a client is made.
        base_url: The URL of the API. Default: `OPENAI_BASE_URL`, else OpenAI's.
        api_key: The API key. Default: `OPENAI_API_KEY`.
        timeout: The time limit of one request in seconds. Default: the client's, 600.
        max_retries: How often the client repeats a failed request. Default: 2.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
    ) -> None:
        self._name = model
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
        try:
            body = chat_request.build_request_body(self._name, request)
        except chat_request.InvalidModelSettings as error:
            raise self._model_error(request, f"{error}.") from None
        client = self._own_client or await self._client_of_running_loop(request)
        response = await self._post(client, body, request)
        try:
            return chat_reply.parse_completion(response)
        except chat_reply.UnusableReply as error:
            quote = self._quote_provider(error.provider_text, client, request)
            text = f"{client.base_url.host}: {error}{quote}. Resume the run to retry."
            raise self._model_error(request, text, status=200, retryable=True) from None

    async def _post(
        self, client: AsyncOpenAI, body: bytes, request: ModelRequest
    ) -> bytes:
        # The public `post`, because `create` converts the whole request. The raw
        # response, because a ChatCompletion drops unknown fields.
        from openai import AsyncAPIResponse  # noqa: PLC0415 - slow to import

        try:
            response = await client.post(
                "/chat/completions",
                content=body,
                options={"security": {"bearer_auth": True}},
                cast_to=AsyncAPIResponse[object],
            )
            return await response.read()
        except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
            failure = self._to_model_error(error, client, request)
        # Outside of `except`: the original error holds the request with its headers. It
        # must not become the context of this error.
        raise failure

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

    # Errors -------------------------------------------------------------------

    def _to_model_error(
        self, error: Exception, client: AsyncOpenAI, request: ModelRequest
    ) -> ModelError:
        from openai import APIConnectionError, APIStatusError, APITimeoutError  # noqa: PLC0415

        host = client.base_url.host or "the base URL"
        if isinstance(error, APIStatusError):
            return self._status_error(error, client, request)
        if isinstance(error, APITimeoutError):
            text = f"{host} did not reply in time. Resume the run later."
            return self._model_error(request, text, retryable=True)
        cause = type(error.__cause__ or error).__name__
        if isinstance(error, APIConnectionError):
            text = f"no connection to {host} ({cause}). Check OPENAI_BASE_URL and"
            text += " the network, then resume the run."
            return self._model_error(request, text, retryable=True)
        text = f"the client could not send the request to {host} ({cause}). Check the"
        text += " arguments of OpenAIChat."
        return self._model_error(request, text)

    def _status_error(
        self, error: APIStatusError, client: AsyncOpenAI, request: ModelRequest
    ) -> ModelError:
        status = error.status_code
        retryable = status in _RETRYABLE_STATUSES or status >= 500  # noqa: PLR2004 - RFC 9110
        later = "Resume the run later."
        changed = "The same request will be refused again: change the agent."
        text = f"{client.base_url.host} returned status {status}"
        text += self._quote_provider(chat_reply.error_text(error.body), client, request)
        text += f". {_ADVICE_BY_STATUS.get(status, later if retryable else changed)}"
        if error.request_id:
            text += f" The request id is {error.request_id[:80]!r}."
        return self._model_error(request, text, status=status, retryable=retryable)

    def _quote_provider(
        self, provider_text: str, client: AsyncOpenAI, request: ModelRequest
    ) -> str:
        quote = redact_provider_text(
            provider_text,
            api_key=client.api_key,
            messages=request.messages,
            headers=_custom_headers(client),
        )
        return f" ({quote.rstrip('.')})" if quote else ""

    def _model_error(
        self,
        request: ModelRequest,
        text: str,
        *,
        status: int | None = None,
        retryable: bool = False,
    ) -> ModelError:
        run = f"run {request.run_id}, model" if request.run_id else "model"
        return ModelError(
            f"{run} {self._name}: {text}",
            run_id=request.run_id or None,
            status=status,
            retryable=retryable,
        )


def _custom_headers(client: AsyncOpenAI) -> list[str]:
    """Return the values of the headers that the application set on a client."""
    return [
        value
        for name, value in client.default_headers.items()
        if isinstance(value, str) and not _CLIENT_HEADERS.fullmatch(name)
    ]


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
