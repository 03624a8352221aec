"""The adapter for the Responses API of OpenAI.

It imports openai with the first request, see `openai_clients`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from continuations.core import jsontext
from continuations.core.model_protocol import LostReply, ModelRequest, PendingReply
from continuations.core.usage import Usage
from continuations.errors import InvalidInput
from continuations.models import chat_errors, responses_items, responses_request
from continuations.models.chat_reply import UnusableReply, error_text, lacks_credit
from continuations.models.dialect import schema_key
from continuations.models.openai_clients import (
    AUTHORIZED,
    OpenAIModel,
    post,
    post_for_stream,
)
from continuations.models.responses_request import (
    ENCRYPTED_REASONING,
    RUN_METADATA,
    RequestForm,
    left_out,
    with_owner,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openai import AsyncOpenAI

    from continuations.core.model_protocol import ModelReply


_BACKGROUND_POLL = timedelta(seconds=30)
_BATCH_POLL = timedelta(minutes=5)
_NOT_FOUND = 404


class OpenAIResponses(OpenAIModel):
    """A `PollableModel` that sends requests to `POST /responses`.

    Each request contains the whole conversation, and the provider stores nothing
    (`store: false`). The output items of each reply are stored with the run, also
    reasoning (encrypted) and the calls of hosted tools. They go back to the provider
    unchanged and in their order.

    With `background=True` or `batch=True`, `reply` returns a `PendingReply`. The run
    waits without a process, and `poll` returns the reply.

    `reply` and `poll` raise only `ModelError`, by the rules of `OpenAIChat`.

    Args:
        model: The name of the model, as the provider knows it.
        client: A client of your own. It is used as it is, and you close it;
            `base_url`, `api_key`, `timeout` and `max_retries` are ignored. Default: a
            client is made for each event loop.
        base_url: The URL of the API. Default: `OPENAI_BASE_URL`, else OpenAI's.
        api_key: The API key. Default: `OPENAI_API_KEY`.
        timeout: The time limit of one request in seconds. Default: the client's, 600.
        max_retries: How often the client itself repeats a failed request. Default: 0.
        hosted_tools: The tools that the provider runs, as the API wants them, for
            example `[{"type": "web_search"}]`. They run without an approval.
        background: Let the provider compute each reply in the background. It stores the
            response (`store: true`) and gets the id of the run as metadata.
        batch: Send each request as a batch of its own, for half the price and within
            24 hours. The provider gets the id of the run as metadata.
        poll_after: The time until a pending reply is polled first. Default: 30 seconds
            in the background, 5 minutes for a batch.

    Raises:
        InvalidInput: `hosted_tools` is not a list of objects with a `type`,
            `background` and `batch` are both set, or `poll_after` is not a positive
            timedelta.
    """

    def __init__(  # noqa: PLR0913 - the options are keyword-only
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int = 0,
        hosted_tools: Sequence[Mapping[str, Any]] = (),
        background: bool = False,
        batch: bool = False,
        poll_after: timedelta | None = None,
    ) -> None:
        _check_options(hosted_tools, background, batch, poll_after)
        super().__init__(
            model,
            client,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
        )
        self._form = RequestForm(
            hosted_tools=tuple(hosted_tools), is_background=background
        )
        self._is_batch = batch
        self._refuses_encrypted_reasoning = False
        self._refused_schemas: set[str] = set()
        self._poll_after = poll_after or (_BATCH_POLL if batch else _BACKGROUND_POLL)

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Return the next assistant message, or the id of a pending reply.

        If the provider refuses a form of the request, such as encrypted reasoning or a
        strict schema, the adapter leaves that form out and sends the request again.

        Args:
            request: The conversation, the tools and the options.

        Returns:
            The reply; with `background` or `batch`, a `PendingReply`.

        Raises:
            ModelError: There is no usable reply.
        """
        errors = await self._errors_of(request)
        first = self._first_form(request)
        answer, form = await self._answered(
            errors,
            first,
            partial(responses_request.build_body, self._name, request),
            partial(self._send, errors.client, request),
            partial(responses_request.form_after_refusal, self._name, request),
        )
        self._remember(first, form, request)
        return answer

    async def poll(
        self, reply_id: str, request: ModelRequest
    ) -> ModelReply | PendingReply | LostReply:
        """Return a background response or the output of a batch, if it is ready.

        Args:
            reply_id: The id of the newest `PendingReply`.
            request: The request of the turn.

        Returns:
            The reply; a `PendingReply`; or a `LostReply` if the provider reports that
            the response failed, was cancelled or expired, or does not know it any more.

        Raises:
            ModelError: The provider cannot be asked now, or the reply is not usable.
        """
        errors = await self._errors_of(request)
        try:
            response = await fetch(errors.client, reply_id)
            return self._answer(reply_id, request, response, errors)
        except UnusableReply as unusable:
            raise errors.of_unusable_reply(unusable) from None
        except LostBatch as lost:
            quoted = errors.quote_provider(str(lost))
            reason = f"the batch has no reply{quoted}"
            return _lost_reply(reason, Usage(), lacks_credit=lost.lacks_credit)
        except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
            caught = error
        if _is_unknown(caught):
            return LostReply(reason="the provider does not know the reply any more")
        raise errors.of_exception(caught)

    async def find_run(self, reply_id: str) -> str | None:
        """Return the id of the run that waits for a reply.

        The provider is asked: it got the id of the run with the request. A receiver of
        webhooks calls this function, see `openai_webhook`.

        Args:
            reply_id: The id of the response or batch, as a webhook names it.

        Returns:
            The id of the run; `None` if the provider does not know the reply, or got no
            id of a run.

        Raises:
            ModelError: The provider cannot be asked now.
        """
        errors = await self._errors_of(ModelRequest(messages=()))
        try:
            metadata = await fetch_metadata(errors.client, reply_id)
        except UnusableReply as unusable:
            raise errors.of_unusable_reply(unusable) from None
        except Exception as error:  # noqa: BLE001 - a Model raises ModelError only
            caught = error
        else:
            run_id = metadata.get(responses_request.RUN_METADATA)
            return run_id if isinstance(run_id, str) else None
        if _is_unknown(caught):
            return None
        raise errors.of_exception(caught)

    def _first_form(self, request: ModelRequest) -> RequestForm:
        is_later = self._form.is_background or self._is_batch
        return replace(
            self._form,
            is_stream=request.on_delta is not None and not is_later,
            with_encrypted_reasoning=not self._refuses_encrypted_reasoning,
            is_strict=schema_key(request.output_schema) not in self._refused_schemas,
        )

    def _remember(
        self, first: RequestForm, accepted: RequestForm, request: ModelRequest
    ) -> None:
        """Remember what the provider refused, for the requests of this process."""
        if first.with_encrypted_reasoning and not accepted.with_encrypted_reasoning:
            self._refuses_encrypted_reasoning = True
        if first.is_strict and not accepted.is_strict:
            self._refused_schemas.add(schema_key(request.output_schema))

    async def _send(
        self, client: AsyncOpenAI, request: ModelRequest, body: bytes, form: RequestForm
    ) -> ModelReply | PendingReply:
        if self._is_batch:
            batch = await submit_batch(client, body, request.run_id)
            reply_id = f"{BATCH_PREFIX}{batch}"
            return PendingReply(id=reply_id, poll_after=self._poll_after)
        if form.is_stream and request.on_delta is not None:
            stream = await post_for_stream(client, _PATH, body)
            response = await responses_items.read_stream(stream, request.on_delta)
        else:
            response = responses_items.parse_response(await post(client, _PATH, body))
        if form.is_background and responses_items.is_pending(response):
            reply_id = responses_items.id_of(response)
            return PendingReply(id=reply_id, poll_after=self._poll_after)
        return self._owned(responses_items.reply_of(response), request, form)

    def _owned(
        self, reply: ModelReply, request: ModelRequest, form: RequestForm
    ) -> ModelReply:
        found = left_out(request.messages, self._name, as_stored=form.with_stored_items)
        return with_owner(reply, self._name, request, found.new)

    def _answer(
        self,
        reply_id: str,
        request: ModelRequest,
        response: Mapping[str, Any] | None,
        errors: chat_errors.RequestErrors,
    ) -> ModelReply | PendingReply | LostReply:
        if response is None or responses_items.is_pending(response):
            return PendingReply(id=reply_id, poll_after=self._poll_after)
        if responses_items.is_lost(response):
            reason = f"the response is {response.get('status')}"
            lost = responses_items.provider_error(response, reason)
            usage = responses_items.usage_of(response)
        else:
            try:
                reply = responses_items.reply_of(response)
                return self._owned(reply, request, self._form)
            except UnusableReply as unusable:
                # The provider would return the same response to each poll.
                lost, usage = unusable, unusable.usage
        reason = f"{lost}{errors.quote_provider(lost.provider_text)}"
        return _lost_reply(reason, usage, lacks_credit=lost.lacks_credit)


def _lost_reply(reason: str, usage: Usage, *, lacks_credit: bool) -> LostReply:
    if not lacks_credit:
        return LostReply(reason=reason, usage=usage)
    reason = f"{reason}: {chat_errors.NO_CREDIT}"
    return LostReply(reason=reason, usage=usage, retryable=False)


def _is_unknown(error: Exception) -> bool:
    refusal = chat_errors.refusal_of(error)
    return refusal is not None and refusal[0] == _NOT_FOUND


def _check_options(
    hosted_tools: object, background: object, batch: object, poll_after: object
) -> None:
    tools = cast("Sequence[object]", hosted_tools)
    is_list = isinstance(hosted_tools, list | tuple)
    if not is_list or not all(_is_hosted_tool(tool) for tool in tools):
        raise InvalidInput(
            'hosted_tools must be a list of objects with a "type", for example '
            '[{"type": "web_search"}]. Pass functions as Agent(tools=...).'
        )
    if not isinstance(background, bool) or not isinstance(batch, bool):
        raise InvalidInput("background and batch must be True or False.")
    if background and batch:
        raise InvalidInput("background and batch exclude each other. Pass one of them.")
    if poll_after is None:
        return
    if not isinstance(poll_after, timedelta) or poll_after <= timedelta():
        msg = f"poll_after must be a timedelta above 0, got {poll_after!r}."
        raise InvalidInput(msg)


def _is_hosted_tool(tool: object) -> bool:
    fields = jsontext.as_object(tool) or {}
    return isinstance(fields.get("type"), str)


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
    file_id = batch.output_file_id or batch.error_file_id
    if file_id:
        content = await client.files.content(file_id)
        return _response_of_line(content.content)
    if batch.status in _LOST_STATUSES:
        errors = (batch.errors.data if batch.errors else None) or []
        credit = any(lacks_credit({"code": error.code}) for error in errors)
        texts = [error.message for error in errors if error.message]
        reason = ": ".join([f"the batch is {batch.status}", *texts[:1]])
        raise LostBatch(reason, lacks_credit=credit)
    if batch.status == "completed":
        raise LostBatch("the batch is completed, and has no output")
    return None


def _response_of_line(content: bytes) -> Mapping[str, Any]:
    """Return the response in an output file; raises `LostBatch` for a failed one."""
    try:
        line = responses_items.response_object(jsontext.parse(content.strip()))
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


_PATH = "/responses"


async def fetch(client: AsyncOpenAI, reply_id: str) -> Mapping[str, Any] | None:
    """Return a pending response, or `None` for a batch that is not ready."""
    from openai import AsyncAPIResponse  # noqa: PLC0415 - slow to import

    if reply_id.startswith(BATCH_PREFIX):
        return await response_of_batch(client, reply_id.removeprefix(BATCH_PREFIX))
    include = {"include": [ENCRYPTED_REASONING]}
    response = await client.get(
        f"{_PATH}/{quote(reply_id, safe='')}",
        options={**AUTHORIZED, "params": include},
        cast_to=AsyncAPIResponse[object],
    )
    return responses_items.parse_response(await response.read())


async def fetch_metadata(client: AsyncOpenAI, reply_id: str) -> Mapping[str, Any]:
    """Return the metadata of a response or batch."""
    if reply_id.startswith(BATCH_PREFIX):
        batch = await client.batches.retrieve(reply_id.removeprefix(BATCH_PREFIX))
        return batch.metadata or {}
    response = await fetch(client, reply_id) or {}
    return jsontext.as_object(response.get("metadata")) or {}
