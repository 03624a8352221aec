"""Requests to the Responses API with an openai client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from continuations.core import jsontext
from continuations.models.responses_batch import BATCH_PREFIX, response_of_batch
from continuations.models.responses_reply import parse_response
from continuations.models.responses_request import ENCRYPTED_REASONING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import AsyncOpenAI, AsyncStream, RequestOptions

_PATH = "/responses"
_OPTIONS: RequestOptions = {"security": {"bearer_auth": True}}


async def post(client: AsyncOpenAI, body: bytes) -> bytes:
    """Return the body of the response to a request."""
    # The public `post` and the raw response, because the types of the client would
    # convert the whole request and drop unknown fields of the response.
    from openai import AsyncAPIResponse  # noqa: PLC0415 - slow to import

    response = await client.post(
        _PATH, content=body, options=_OPTIONS, cast_to=AsyncAPIResponse[object]
    )
    return await response.read()


async def post_for_stream(client: AsyncOpenAI, body: bytes) -> AsyncStream[object]:
    """Return the stream of events of the response to a request."""
    from openai import AsyncStream  # noqa: PLC0415 - slow to import

    return await client.post(
        _PATH,
        content=body,
        options=_OPTIONS,
        cast_to=object,
        stream=True,
        stream_cls=AsyncStream[object],
    )


async def fetch(client: AsyncOpenAI, reply_id: str) -> Mapping[str, Any] | None:
    """Return a pending response, or `None` for a batch that is not ready."""
    from openai import AsyncAPIResponse  # noqa: PLC0415 - slow to import

    if reply_id.startswith(BATCH_PREFIX):
        return await response_of_batch(client, reply_id.removeprefix(BATCH_PREFIX))
    include = {"include": [ENCRYPTED_REASONING]}
    response = await client.get(
        f"{_PATH}/{quote(reply_id, safe='')}",
        options={"security": {"bearer_auth": True}, "params": include},
        cast_to=AsyncAPIResponse[object],
    )
    return parse_response(await response.read())


async def fetch_metadata(client: AsyncOpenAI, reply_id: str) -> Mapping[str, Any]:
    """Return the metadata of a response or batch."""
    if reply_id.startswith(BATCH_PREFIX):
        batch = await client.batches.retrieve(reply_id.removeprefix(BATCH_PREFIX))
        return batch.metadata or {}
    response = await fetch(client, reply_id) or {}
    return jsontext.as_object(response.get("metadata")) or {}
