"""Requests to the Responses API with an openai client, alone or as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from continuations.core import jsontext
from continuations.models import responses_reply
from continuations.models.chat_reply import UnusableReply, error_text, lacks_credit
from continuations.models.responses_reply import parse_response
from continuations.models.responses_request import ENCRYPTED_REASONING, RUN_METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import AsyncOpenAI, AsyncStream, RequestOptions
    from openai.types import Batch


# The ids of batches that are stored as pending replies.
BATCH_PREFIX = "batch:"
_URL: Final = "/v1/responses"
_LOST_STATUSES = frozenset({"failed", "expired", "cancelling", "cancelled"})


class LostBatch(Exception):
    """A batch will have no output; the text says why, in the provider's words.

    Attributes:
        lacks_credit: Whether the account has no credit.
    """

    def __init__(self, text: str, *, lacks_credit: bool = False) -> None:
        super().__init__(text)
        self.lacks_credit = lacks_credit


async def submit_batch(client: AsyncOpenAI, body: bytes, run_id: str) -> str:
    """Upload a file with one request and create its batch; return the batch's id."""
    head = {"custom_id": "reply", "method": "POST", "url": _URL}
    line = f'{jsontext.dump(head)[:-1]},"body":'.encode() + body + b"}\n"
    file = await client.files.create(file=("reply.jsonl", line), purpose="batch")
    batch = await client.batches.create(
        completion_window="24h",
        endpoint=_URL,
        input_file_id=file.id,
        metadata={RUN_METADATA: run_id} if run_id else None,
    )
    return batch.id


async def response_of_batch(
    client: AsyncOpenAI, batch_id: str
) -> Mapping[str, Any] | None:
    """Return the response in a batch's output, or `None` if it is not ready.

    Raises `LostBatch`, `UnusableReply` and the exceptions of the client.
    """
    batch = await client.batches.retrieve(batch_id)
    if batch.output_file_id:
        return _response_of_line(await _read_file(client, batch.output_file_id))
    if batch.error_file_id:
        return _response_of_line(await _read_file(client, batch.error_file_id))
    if batch.status in _LOST_STATUSES:
        errors = (batch.errors.data if batch.errors else None) or []
        credit = any(lacks_credit({"code": error.code}) for error in errors)
        raise LostBatch(_reason(batch), lacks_credit=credit)
    if batch.status == "completed":
        raise LostBatch("the batch is completed, and has no output")
    return None


async def _read_file(client: AsyncOpenAI, file_id: str) -> bytes:
    content = await client.files.content(file_id)
    return content.content


def _response_of_line(content: bytes) -> Mapping[str, Any]:
    """Return the response in an output file; raises `LostBatch` for a failed one."""
    try:
        line = responses_reply.response_object(jsontext.parse(content.strip()))
    except jsontext.NotJson:
        raise UnusableReply("the output of the batch is not JSON") from None
    envelope = jsontext.as_object(line.get("response")) or {}
    body = jsontext.as_object(envelope.get("body"))
    status = envelope.get("status_code", 200)
    if line.get("error") or body is None or status != 200:  # noqa: PLR2004 - HTTP
        failed = line if line.get("error") else body or {}
        text = error_text(dict(failed)) or "the request of the batch failed"
        raise LostBatch(text, lacks_credit=lacks_credit(dict(failed)))
    return body


def _reason(batch: Batch) -> str:
    errors = (batch.errors.data if batch.errors else None) or []
    texts = [error.message for error in errors if error.message]
    return ": ".join([f"the batch is {batch.status}", *texts[:1]])


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
