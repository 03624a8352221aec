"""The errors of the OpenAI adapter: from a failed request to a `ModelError`."""

from __future__ import annotations

import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.errors import ModelError
from continuations.models import chat_reply, dialect
from continuations.models.responses_items import ITEMS_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from openai import APIStatusError, AsyncOpenAI

    from continuations.core.messages import Message
    from continuations.core.model_protocol import ModelRequest


_MAX_LENGTH = 400
# The fields of a stored item that say which item is wrong.
_ITEM_NAMES = frozenset({"id", "type", "call_id", "name", "role", "status", "phase"})
# A text that looks like a key, masked or whole, or like a header with a key.
_KEYLIKE = re.compile(
    r"(?i)\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk|api|key)[-_][\w*.…-]+"
)
_PLAIN_WORD = re.compile(r"(?<![A-Za-z0-9])[a-z]{1,7}(?![A-Za-z0-9])")
# "Incorrect API key provided: x", "token 'x'".
_BEFORE_KEY = r"\b((?i:key|token|bearer|password)\b(?:\W{1,3}\w+)?\W{1,4})"
# The escapes of JSON and of Python's repr.
_ESCAPE = re.compile(
    r"\\(?:u(?P<u>[0-9a-fA-F]{4})|U(?P<U>00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
    r"|x(?P<x>[0-9a-fA-F]{2})|(?P<other>.))",
    re.DOTALL,
)
# Between the parts of a header: a scheme and a token, cookies, parameters.
_VALUE_SEPARATOR = re.compile(r"[\s;,=]+")
_WORD = re.compile(r"[\w*.…/+=-]{4,}")
# Longer than most common phrases, shorter than most secrets.
_MIN_ECHO_LENGTH = 16
# As long as a gateway's password, longer than most words of an error text.
_MIN_SECRET_LENGTH = 8


def redact_provider_text(
    text: str,
    *,
    api_key: str,
    messages: Iterable[Message],
    client_values: Iterable[str] = (),
) -> str:
    """Return a provider's text as one line, without the key and the conversation.

    Providers quote an input as JSON or as Python's `repr`. So texts are compared
    without the escapes of both.

    These parts are replaced:

    - everything that looks like a key
    - a key of less than 8 characters, but only behind a word such as "key": a server
      without keys gets "x" or "none"
    - a part of the conversation of 16 characters or more
    - a shorter message, if the provider quotes the whole message
    - a value of `client_values`, or a part of it, of 8 characters or more: such a value
      may be a secret, as in "Token 1234abcd" or "session=1234abcd"

    Args:
        text: The provider's text.
        api_key: The key of the client; may be empty.
        messages: The conversation that was sent.
        client_values: The values of headers and query parameters that the application
            set on its client.

    Returns:
        The text, at most about 400 characters.
    """
    shown = _one_line(text)
    for value in _secret_parts(client_values, api_key):
        shown = shown.replace(value, "[hidden]")
    shown = _redact_key(shown[:_MAX_LENGTH], api_key)
    for sent_text in _conversation_texts(messages):
        shown = _redact_echo(shown, sent_text)
    return shown


def _one_line(text: str) -> str:
    """Return a text as one line of printable characters, without escapes."""
    if "\\" in text:
        text = _without_escapes(text)
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return " ".join("".join(c if c.isprintable() else " " for c in line).split())


def _without_escapes(text: str) -> str:
    # More than once: the arguments of a call are JSON, and quoted in JSON.
    plain = _ESCAPE.sub(_unescaped, text)
    while plain != text:
        text, plain = plain, _ESCAPE.sub(_unescaped, plain)
    # Two escapes of JSON make one character beyond U+FFFF.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    digits = match["u"] or match["U"] or match["x"]
    if digits:
        return chr(int(digits, 16))
    return " " if match["other"] in "bfnrt" else match["other"]


def _secret_parts(client_values: Iterable[str], api_key: str) -> list[str]:
    """Return the values and their parts that may be secrets, the longest first."""
    lines = [_one_line(value) for value in client_values]
    parts = {*lines, *(part for line in lines for part in _VALUE_SEPARATOR.split(line))}
    secrets = {part for part in parts if len(part) >= _MIN_SECRET_LENGTH}
    return sorted(secrets - {api_key, f"Bearer {api_key}"}, key=len, reverse=True)


def _redact_key(text: str, api_key: str) -> str:
    if len(api_key) < _MIN_SECRET_LENGTH:
        return _KEYLIKE.sub("[key]", _redact_short_key(text, api_key))

    # The words of a key such as "test-key-1234" are words of other texts too.
    plain_words = set(_PLAIN_WORD.findall(api_key))

    def masked(match: re.Match[str]) -> str:
        word = match.group().rstrip(".")
        part = api_key.startswith(word) or api_key.endswith(word)
        part = part and word not in plain_words
        starred = word[:3] == api_key[:3] and re.search(r"[*…]|\.\.", word)
        return "[key]" if api_key in word or part or starred else match.group()

    text = text.replace(api_key, "[key]")
    return _WORD.sub(masked, _KEYLIKE.sub("[key]", text))


def _redact_short_key(text: str, api_key: str) -> str:
    if not api_key:
        return text
    return re.sub(rf"{_BEFORE_KEY}{re.escape(api_key)}(?!\w)", r"\1[key]", text)


def _redact_echo(text: str, sent_text: str) -> str:
    for quote in "'\"`":
        text = text.replace(f"{quote}{sent_text}{quote}", f"{quote}[...]{quote}")
    start = 0
    while start + _MIN_ECHO_LENGTH <= len(text):
        end = start + _MIN_ECHO_LENGTH
        if text[start] == " " or text[start:end] not in sent_text:
            start += 1
            continue
        while end < len(text) and text[start : end + 1] in sent_text:
            end += 1
        end = start + len(text[start:end].rstrip())
        text = f"{text[:start]}[...]{text[end:]}"
        start += len("[...]")
    return text


def _conversation_texts(messages: Iterable[Message]) -> Iterator[str]:
    # Names and ids are not redacted: they say which message is wrong.
    for message in messages:
        data = message.data
        yield from _content_texts(data.get("content"))
        for item in jsontext.as_array(data.get(ITEMS_FIELD)) or ():
            fields = jsontext.as_object(item) or {}
            told = [v for k, v in fields.items() if k not in _ITEM_NAMES]
            yield from _content_texts(told)
        for request in message.tool_calls if message.tool_call_ids else ():
            yield from _content_texts(request.arguments)


def _content_texts(content: Any) -> Iterator[str]:
    # The content is a text, or a list of parts with texts in their fields. A stack, not
    # recursion: deeply nested JSON must not raise a RecursionError.
    stack: list[Any] = [content]
    while stack:
        part = stack.pop()
        if isinstance(part, str) and part.strip():
            yield _one_line(part)
        elif isinstance(part, dict):
            stack.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list):
            stack.extend(cast("Sequence[Any]", part))


# And every 5xx status. The openai client repeats the same ones.
_RETRYABLE_STATUSES = frozenset({408, 409, 429})
# The other 5xx statuses are those of a proxy or of an outage.
_SERVER_ERRORS = frozenset({500, 501})
_ADVICE_BY_STATUS = {
    401: "Check OPENAI_API_KEY, or the argument api_key.",
    402: "Check the credit of the account, then resume the run.",
    403: "The key has no permission for this model. Check its permissions.",
    404: "Check the name of the model and OPENAI_BASE_URL.",
    413: "The conversation is too long for this model.",
    429: "Check the limits and the credit of the account.",
}
# The account has no credit, or has reached a limit that its owner set.
NO_CREDIT = "the account has no credit, or has reached its limit"
_ADD_CREDIT = (
    f"{NO_CREDIT.capitalize()}. Add credit or raise the limit at the provider, then"
    " resume the run."
)
# The run of such a request waits for its model by itself, so the advice must not be to
# resume the run.
_LATER = "The same request may succeed later."
_MAX_CAUSES = 10
# Headers that the client sends with every request; they hold no secret.
_PUBLIC_PARAMETERS = frozenset({"api-version"})
_CLIENT_HEADERS = re.compile(r"(?i)accept|content-type|user-agent|x-stainless-.*")


def model_error(
    model: str,
    run_id: str,
    text: str,
    *,
    status: int | None = None,
    retryable: bool = False,
    retry_after: float | None = None,
    unreachable: bool = False,
) -> ModelError:
    """Return an error that names the run and the model."""
    run = f"run {run_id}, model" if run_id else "model"
    return ModelError(
        f"{run} {model}: {text}",
        run_id=run_id or None,
        status=status,
        retryable=retryable,
        retry_after=retry_after,
        unreachable=unreachable,
    )


@dataclass(frozen=True, slots=True)
class RequestErrors:
    """Makes the errors of one request.

    Attributes:
        model: The name of the model.
        request: The request; its conversation is redacted from the provider's texts.
        client: The client that sent it; its key and headers are redacted.
    """

    model: str
    request: ModelRequest
    client: AsyncOpenAI

    def of_exception(self, error: Exception) -> ModelError:
        """Return the error for an exception of the client."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError  # noqa: PLC0415

        address = self._address
        if isinstance(error, APIStatusError):
            return self._of_status(error)
        if isinstance(error, APITimeoutError):
            text = f"{address} did not reply in time. {_LATER}"
            return self._error(text, retryable=True)
        if isinstance(error, APIConnectionError):
            reason, unreachable = _connection_failure(error)
            text = f"no connection to {address} ({reason}). Check OPENAI_BASE_URL and"
            text += " the network."
            return self._error(text, retryable=True, unreachable=unreachable)
        cause = type(error.__cause__ or error).__name__
        text = f"the client could not send the request to {address} ({cause}). Check"
        text += " the arguments of the adapter."
        return self._error(text)

    def of_unusable_reply(self, error: chat_reply.UnusableReply) -> ModelError:
        """Return the error for a response without a usable reply."""
        quote = self.quote_provider(error.provider_text)
        status, retryable = error.error_status, error.retryable
        if status is not None:
            retryable = _may_succeed_later(status, error.provider_text)
        changed = "The same request gets the same reply: change the agent."
        remedy = _LATER if retryable else changed
        remedy = _ADVICE_BY_STATUS.get(status or 200, remedy)
        status_of_error = 200
        if error.lacks_credit:
            # The same error as a status of 429 with this code.
            remedy, retryable, status_of_error = _ADD_CREDIT, False, 429
        text = f"{self._address}: {error}{quote}. {remedy}"
        unusable = self._error(text, status=status_of_error, retryable=retryable)
        unusable.usage = error.usage
        return unusable

    def of_settings(self, error: ValueError) -> ModelError:
        """Return the error for settings that cannot be part of a request."""
        return self._error(f"{error}.")

    def _of_status(self, error: APIStatusError) -> ModelError:
        status = error.status_code
        provider_text = chat_reply.error_text(error.body)
        retryable = _may_succeed_later(status, provider_text)
        changed = "The same request will be refused again: change the agent."
        advice = _ADVICE_BY_STATUS.get(status, _LATER if retryable else changed)
        if retryable and chat_reply.lacks_credit(error.body):
            retryable, advice = False, _ADD_CREDIT
        text = f"{self._address} returned status {status}"
        text += f"{self.quote_provider(provider_text)}. {advice}"
        if error.request_id:
            text += f" The request id is {error.request_id[:80]!r}."
        wait = _retry_after(error.response.headers) if retryable else None
        return self._error(text, status=status, retryable=retryable, retry_after=wait)

    @property
    def _address(self) -> str:
        """Host and port of the API, without a password and a query."""
        return self.client.base_url.netloc.decode("ascii") or "the base URL"

    def quote_provider(self, provider_text: str) -> str:
        """Return a provider's text in parentheses, redacted; `""` without a text."""
        quote = redact_provider_text(
            provider_text,
            api_key=self.client.api_key,
            messages=self.request.messages,
            client_values=_client_values(self.client),
        )
        return f" ({quote.rstrip('.')})" if quote else ""

    @property
    def _error(self) -> partial[ModelError]:
        """Makes an error of this request of its text, and options of `model_error`."""
        return partial(model_error, self.model, self.request.run_id)


def refusal_of(error: Exception) -> tuple[int, str] | None:
    """Return status and text of a response that refused the request, or `None`."""
    from openai import APIStatusError  # noqa: PLC0415 - slow to import

    if not isinstance(error, APIStatusError):
        return None
    return error.status_code, chat_reply.error_text(error.body)


def _connection_failure(error: Exception) -> tuple[str, bool]:
    """Return why a request has no response, and whether no server was reached."""
    causes = _causes_of(error)
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "its name is not known", True
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused", True
        if isinstance(cause, ssl.SSLError):
            return f"no TLS connection, {type(cause).__name__}", True
    name = type(causes[0]).__name__
    # The class of httpx for every other failure before the connection is there.
    return name, name == "ConnectError"


def _causes_of(error: BaseException) -> list[BaseException]:
    """Return the causes of an exception, or the exception itself without a cause."""
    causes: list[BaseException] = []
    cause = error.__cause__
    while cause is not None and len(causes) < _MAX_CAUSES:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes or [error]


def _may_succeed_later(status: int, text: str) -> bool:
    if status in _SERVER_ERRORS:
        # Some servers report an invalid request as a failure of their own.
        return not dialect.is_invalid_request(text)
    return status in _RETRYABLE_STATUSES or status >= 500  # noqa: PLR2004 - RFC 9110


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a provider asks to wait, or `None`."""
    with suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value))
    # A date (RFC 9110, section 10.2.3); of some offsets it raises OverflowError.
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _client_values(client: AsyncOpenAI) -> list[str]:
    """Return the values that the application set on a client.

    They are the values of headers and query parameters, and the URL's password.
    """
    url = client.base_url
    headers = client.default_headers.items()
    query = (*client.default_query.items(), *url.params.items())
    values = [
        *(value for name, value in headers if not _CLIENT_HEADERS.fullmatch(name)),
        *(value for name, value in query if name not in _PUBLIC_PARAMETERS),
    ]
    return [each for each in (*values, url.password) if isinstance(each, str)]
