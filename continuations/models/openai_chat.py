"""The OpenAI adapter: any server that speaks chat completions; the only one to openai.

openai takes half a second to import, and most processes of a run never ask a model:
so it is imported by the first reply, not before.
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

# Beside every 5xx; the same that the client itself asks again for.
_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_ADVICE_BY_STATUS = {
    401: "Check OPENAI_API_KEY, or the api_key that was passed.",
    403: "This key may not use this model here: check its permissions.",
    404: "Check the model's name and OPENAI_BASE_URL.",
    413: "The conversation is too long for this model.",
    429: "Check the account's limits and credit, then resume the run.",
}
# What the client says of itself with every request, and what nobody hides.
_CLIENT_HEADERS = re.compile(r"(?i)accept|content-type|user-agent|x-stainless-.*")

_pending_closes: set[asyncio.Future[None]] = set()


class OpenAIChat:
    """A `Model` behind `POST /chat/completions`.

    Without arguments it is the client of the environment: `OPENAI_API_KEY`, and
    `OPENAI_BASE_URL` for any compatible server. A `client` of one's own is used as it
    is and stays one's own to close; the other arguments are then not looked at.
    Otherwise each event loop gets a client, closed when the loop shuts down.

    `reply` raises `ModelError` and nothing else. Retryable are: no connection, no
    answer in time, 408, 409, 429, 5xx, and a 200 without a usable message: models
    and proxies do that once and not again, and nothing of it was kept.
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
        # The finalizer holds the clients, so that they are whole when it closes them:
        # collected together with this object they would complain instead.
        weakref.finalize(self, _close_clients, self._clients_by_loop).atexit = False

    def __repr__(self) -> str:
        return f"OpenAIChat({self._name!r})"

    @property
    def name(self) -> str:
        """The model's name, as the provider knows it."""
        return self._name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the next assistant message of a conversation."""
        try:
            body = chat_request.build_request_body(self._name, request)
        except chat_request.InvalidModelSettings as error:
            raise self._model_error(request, f"{error}.") from None
        client = self._own_client or await self._client_of_running_loop(request)
        answer = await self._post(client, body, request)
        try:
            return chat_reply.parse_completion(answer)
        except chat_reply.UnusableReply as error:
            what = f"{client.base_url.host}: {error}"
            said = self._quote_provider(error.provider_text, client, request)
            text = f"{what}{said}. Resume the run to ask again."
            raise self._model_error(request, text, status=200, retryable=True) from None

    async def _post(
        self, client: AsyncOpenAI, body: bytes, request: ModelRequest
    ) -> bytes:
        # The client's public way past `create`, which converts the whole request; the
        # raw response, because a ChatCompletion does not keep what it does not know.
        from openai import AsyncAPIResponse  # noqa: PLC0415 - its price is paid late

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
        # Outside of `except`: the error that is dropped holds the request, with its
        # headers, and must not hang on this one as its context.
        raise failure

    # The client of a loop ---------------------------------------------------

    async def _client_of_running_loop(self, request: ModelRequest) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        lent = self._clients_by_loop.get(loop)
        if lent is not None and not lent[0].is_closed():
            return lent[0]
        self._forget_closed_loops()
        client = self._make_client(request)
        keeper = _client_until_shutdown(client)
        await anext(keeper)
        self._clients_by_loop[loop] = (client, keeper)
        return client

    def _forget_closed_loops(self) -> None:
        # Not a weak dictionary: a client knows its loop, and would keep its own key.
        for loop in list(self._clients_by_loop):
            if loop.is_closed():
                self._clients_by_loop.pop(loop, None)

    def _make_client(self, request: ModelRequest) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415
        except ModuleNotFoundError:
            text = "openai is not installed. Run: pip install 'openai>=3'"
            raise self._model_error(request, text) from None
        if not (self._settings.get("api_key") or os.getenv("OPENAI_API_KEY")):
            text = "there is no API key. Set OPENAI_API_KEY, or pass api_key=; for a"
            text += " server that asks for none, any text will do."
            raise self._model_error(request, text)
        try:
            http = DefaultAsyncHttpxClient(verify=_ssl_context())
            return AsyncOpenAI(**self._settings, http_client=http)
        except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
            text = f"openai takes no such settings ({type(error).__name__}). Check"
            text += " OPENAI_BASE_URL and what was passed."
            raise self._model_error(request, text) from None

    # What went wrong --------------------------------------------------------

    def _to_model_error(
        self, error: Exception, client: AsyncOpenAI, request: ModelRequest
    ) -> ModelError:
        from openai import APIConnectionError, APIStatusError, APITimeoutError  # noqa: PLC0415

        host = client.base_url.host or "that base URL"
        if isinstance(error, APIStatusError):
            return self._status_error(error, client, request)
        if isinstance(error, APITimeoutError):
            text = f"{host} did not answer in time. Resume the run later."
            return self._model_error(request, text, retryable=True)
        cause = type(error.__cause__ or error).__name__
        if isinstance(error, APIConnectionError):
            text = f"no connection to {host} ({cause}). Check OPENAI_BASE_URL and"
            text += " the network, then resume the run."
            return self._model_error(request, text, retryable=True)
        text = f"the client for {host} could not ask ({cause}). Check its settings."
        return self._model_error(request, text)

    def _status_error(
        self, error: APIStatusError, client: AsyncOpenAI, request: ModelRequest
    ) -> ModelError:
        status = error.status_code
        retryable = status in _RETRYABLE_STATUSES or status >= 500  # noqa: PLR2004 - RFC 9110
        later = "Resume the run later."
        changed = "It will be refused again until the request is changed."
        text = f"{client.base_url.host} answered {status}"
        text += self._quote_provider(chat_reply.error_text(error.body), client, request)
        text += f". {_ADVICE_BY_STATUS.get(status, later if retryable else changed)}"
        if error.request_id:
            text += f" Its id there is {error.request_id[:80]!r}."
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
        run = f"Run {request.run_id}, model" if request.run_id else "Model"
        return ModelError(
            f"{run} {self._name}: {text}",
            run_id=request.run_id or None,
            status=status,
            retryable=retryable,
        )


def _custom_headers(client: AsyncOpenAI) -> list[str]:
    """Return the values of the headers that a client was given by its owner."""
    return [
        value
        for name, value in client.default_headers.items()
        if isinstance(value, str) and not _CLIENT_HEADERS.fullmatch(name)
    ]


@cache
def _ssl_context() -> SSLContext | bool:
    """Return the context that the client would make, once for all loops.

    It takes 20 ms, nearly all of a client's making, and each `run` and `resume` of a
    synchronous program has a loop of its own.
    """
    try:
        from httpx2 import create_ssl_context  # noqa: PLC0415 - comes with openai
    except ModuleNotFoundError:
        return True  # another transport: it makes its own
    return create_ssl_context()


def _close_clients(clients_by_loop: ClientsByLoop) -> None:
    for loop, (_, keeper) in clients_by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(partial(_close_on_loop, loop, keeper))


def _close_on_loop(
    loop: asyncio.AbstractEventLoop, client_generator: AsyncGenerator[AsyncOpenAI, None]
) -> None:
    # asyncio holds its tasks weakly.
    closing = asyncio.ensure_future(client_generator.aclose(), loop=loop)
    _pending_closes.add(closing)
    closing.add_done_callback(_pending_closes.discard)


async def _client_until_shutdown(
    client: AsyncOpenAI,
) -> AsyncGenerator[AsyncOpenAI, None]:
    """Yield a client and close it when the loop shuts its generators down.

    `asyncio.run` and `asyncio.Runner` call `loop.shutdown_asyncgens()` before they
    close a loop: the last moment at which its connections can be closed properly.
    """
    try:
        yield client
    finally:
        await client.close()
