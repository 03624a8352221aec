"""The errors of the OpenAI adapter: from a failed request to a `ModelError`."""

from __future__ import annotations

import re
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
    429: "Check the limits and the credit of the account, then resume the run.",
}
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
) -> ModelError:
    """Return an error that names the run and the model."""
    run = f"run {run_id}, model" if run_id else "model"
    return ModelError(
        f"{run} {model}: {text}",
        run_id=run_id or None,
        status=status,
        retryable=retryable,
        retry_after=retry_after,
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

        host = self.client.base_url.host or "the base URL"
        if isinstance(error, APIStatusError):
            return self._of_status(error)
        if isinstance(error, APITimeoutError):
            text = f"{host} did not reply in time. Resume the run later."
            return self._error(text, retryable=True)
        cause = type(error.__cause__ or error).__name__
        if isinstance(error, APIConnectionError):
            text = f"no connection to {host} ({cause}). Check OPENAI_BASE_URL and"
            text += " the network, then resume the run."
            return self._error(text, retryable=True)
        text = f"the client could not send the request to {host} ({cause}). Check the"
        text += " arguments of the adapter."
        return self._error(text)

    def of_unusable_reply(self, error: chat_reply.UnusableReply) -> ModelError:
        """Return the error for a response without a usable reply."""
        quote = self.quote_provider(error.provider_text)
        status, retryable = error.error_status, error.retryable
        if status is not None:
            retryable = _may_succeed_later(status, error.provider_text)
        changed = "The same request gets the same reply: change the agent."
        remedy = "Resume the run to retry." if retryable else changed
        remedy = _ADVICE_BY_STATUS.get(status or 200, remedy)
        text = f"{self.client.base_url.host}: {error}{quote}. {remedy}"
        unusable = self._error(text, status=200, retryable=retryable)
        unusable.usage = error.usage
        return unusable

    def _of_status(self, error: APIStatusError) -> ModelError:
        status = error.status_code
        provider_text = chat_reply.error_text(error.body)
        retryable = _may_succeed_later(status, provider_text)
        later = "Resume the run later."
        changed = "The same request will be refused again: change the agent."
        advice = _ADVICE_BY_STATUS.get(status, later if retryable else changed)
        text = f"{self.client.base_url.host} returned status {status}"
        text += f"{self.quote_provider(provider_text)}. {advice}"
        if error.request_id:
            text += f" The request id is {error.request_id[:80]!r}."
        wait = _retry_after(error.response.headers) if retryable else None
        return self._error(text, status=status, retryable=retryable, retry_after=wait)

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
    ) -> ModelError:
        return model_error(
            self.model,
            self.request.run_id,
            text,
            status=status,
            retryable=retryable,
            retry_after=retry_after,
        )


def refusal_of(error: Exception) -> tuple[int, str] | None:
    """Return status and text of a response that refused the request, or `None`."""
    from openai import APIStatusError  # noqa: PLC0415 - slow to import

    if not isinstance(error, APIStatusError):
        return None
    return error.status_code, chat_reply.error_text(error.body)


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
