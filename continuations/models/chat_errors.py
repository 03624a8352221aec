"""The errors of the OpenAI adapter: from a failed request to a `ModelError`."""

from __future__ import annotations

import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from continuations.errors import ModelError
from continuations.models import chat_reply, dialect
from continuations.models.redaction import redact_provider_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import APIStatusError, AsyncOpenAI

    from continuations.core.model_protocol import ModelRequest

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

    def _error(
        self,
        text: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        unreachable: bool = False,
    ) -> ModelError:
        return model_error(
            self.model,
            self.request.run_id,
            text,
            status=status,
            retryable=retryable,
            retry_after=retry_after,
            unreachable=unreachable,
        )


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
