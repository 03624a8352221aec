"""An adapter that asks with the openai package, and its clients for each event loop.

If the provider refuses a form of a request, such as a strict schema, the adapter leaves
that form out and sends the request again.

The import of openai takes half a second, and most processes of a run never call a
model: so the first request imports it.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from continuations.models import chat_errors
from continuations.models.chat_reply import UnusableReply
from continuations.models.chat_request import InvalidModelSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from ssl import SSLContext

    from openai import AsyncOpenAI, AsyncStream, RequestOptions

    from continuations.core.model_protocol import ModelRequest

    ClientsByLoop = dict[
        asyncio.AbstractEventLoop,
        tuple[AsyncOpenAI, AsyncGenerator[AsyncOpenAI, None]],
    ]

Form = TypeVar("Form")
Answer = TypeVar("Answer")

AUTHORIZED: RequestOptions = {"security": {"bearer_auth": True}}
_pending_closes: set[asyncio.Future[None]] = set()


class OpenAIClients:
    """The clients of one adapter: its own ones, or one of the application.

    Each event loop gets its own client, which is closed when the loop shuts down.

    Args:
        adapter: The name of the adapter's class, for errors.
        model: The name of the model, for errors.
        client: A client of the application. It is used as it is.
        settings: The arguments of the clients that are made; `None` is left out.
    """

    def __init__(
        self,
        adapter: str,
        model: str,
        client: AsyncOpenAI | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._adapter = adapter
        self._model = model
        self._own_client = client
        self._settings = {k: v for k, v in settings.items() if v is not None}
        # A connection belongs to the loop that opened it. Each loop touches its own
        # entry in single operations, so loops in several threads need no lock.
        self._clients_by_loop: ClientsByLoop = {}
        # The finalizer holds the clients, so that it can close them properly: collected
        # together with this object, they would emit warnings instead.
        weakref.finalize(self, _close_clients, self._clients_by_loop).atexit = False

    async def of_running_loop(self, run_id: str) -> AsyncOpenAI:
        """Return the client of the running loop; raises `ModelError`."""
        if self._own_client is not None:
            return self._own_client
        loop = asyncio.get_running_loop()
        existing = self._clients_by_loop.get(loop)
        if existing is not None and not existing[0].is_closed():
            return existing[0]
        self._forget_closed_loops()
        client = self._make_client(run_id)
        generator = _client_until_shutdown(client)
        await anext(generator)
        self._clients_by_loop[loop] = (client, generator)
        return client

    def _forget_closed_loops(self) -> None:
        # Not a weak dictionary: a client refers to its loop, so no key would ever go.
        for loop in list(self._clients_by_loop):
            if loop.is_closed():
                self._clients_by_loop.pop(loop, None)

    def _make_client(self, run_id: str) -> AsyncOpenAI:
        model = self._model
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415
        except ModuleNotFoundError:
            text = "the package openai is not installed. Run: pip install 'openai>=3'"
            raise chat_errors.model_error(model, run_id, text) from None
        if not (self._settings.get("api_key") or os.getenv("OPENAI_API_KEY")):
            text = "there is no API key. Set OPENAI_API_KEY, or pass api_key=. For a"
            text += " server without keys, use any text."
            raise chat_errors.model_error(model, run_id, text)
        try:
            http = DefaultAsyncHttpxClient(verify=_ssl_context())
            return AsyncOpenAI(**self._settings, http_client=http)
        except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
            text = f"the client cannot be made ({type(error).__name__}). Check"
            text += f" OPENAI_BASE_URL and the arguments of {self._adapter}."
            raise chat_errors.model_error(model, run_id, text) from None


class OpenAIModel:
    """The name and the clients of an adapter, and how it sends a request."""

    provider = "openai"  # the name that traces have

    def __init__(
        self,
        model: str,
        client: AsyncOpenAI | None,
        **settings: str | float | None,
    ) -> None:
        self._name = model
        self._clients = OpenAIClients(type(self).__name__, model, client, settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        """The name of the model, as the provider knows it."""
        return self._name

    async def _errors_of(self, request: ModelRequest) -> chat_errors.RequestErrors:
        """Return the client of the running loop, and what makes its errors."""
        client = await self._clients.of_running_loop(request.run_id)
        return chat_errors.RequestErrors(self._name, request, client)

    async def _answered(
        self,
        errors: chat_errors.RequestErrors,
        form: Form,
        build: Callable[[Form], bytes],
        send: Callable[[bytes, Form], Awaitable[Answer]],
        form_after: Callable[[Form, int, str], Form | None],
    ) -> tuple[Answer, Form]:
        """Send a request, and again in another form if the provider refuses one.

        Args:
            errors: Makes the errors of the request.
            form: The form in which it is sent first.
            build: Returns the body in a form.
            send: Sends a body, and returns the answer.
            form_after: Returns the next form for a form and the status and text of its
                refusal; `None` if the refusal is about something else.

        Returns:
            The answer, and the form that the provider accepted.

        Raises:
            ModelError: There is no usable answer.
        """
        while True:
            try:
                body = build(form)
            except InvalidModelSettings as invalid:
                raise errors.of_settings(invalid) from None
            try:
                return await send(body, form), form
            except UnusableReply as unusable:
                raise errors.of_unusable_reply(unusable) from None
            except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
                caught = error
            # Outside of `except`: the original error holds the request with its
            # headers. It must not become the context of another error.
            refusal = chat_errors.refusal_of(caught)
            following = None if refusal is None else form_after(form, *refusal)
            if following is None:
                raise errors.of_exception(caught)
            form = following


async def post(client: AsyncOpenAI, path: str, body: bytes) -> bytes:
    """Return the body of the response to a request."""
    # The public `post` and the raw response, because the types of the client would
    # convert the whole request and drop unknown fields of the response.
    from openai import AsyncAPIResponse  # noqa: PLC0415 - slow to import

    response = await client.post(
        path, content=body, options=AUTHORIZED, cast_to=AsyncAPIResponse[object]
    )
    return await response.read()


async def post_for_stream(
    client: AsyncOpenAI, path: str, body: bytes
) -> AsyncStream[object]:
    """Return the stream of events of the response to a request."""
    from openai import AsyncStream  # noqa: PLC0415 - slow to import

    return await client.post(
        path,
        content=body,
        options=AUTHORIZED,
        cast_to=object,
        stream=True,
        stream_cls=AsyncStream[object],
    )


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
