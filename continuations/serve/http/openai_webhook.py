"""The webhook of OpenAI: a response or batch is ready, so its run polls it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.serve.http.webhook_receiver import Wake, WebhookReceiver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["openai_webhook"]

_ENDS = frozenset({"completed", "failed", "cancelled", "incomplete", "expired"})


class _FindsRuns(Protocol):
    async def find_run(self, reply_id: str) -> str | None: ...


def openai_webhook(secret: str | Sequence[str], model: _FindsRuns) -> WebhookReceiver:
    """Return a receiver of OpenAI's webhooks; pass it to `HttpApi(webhooks=...)`.

    The events `response.*` and `batch.*` wake the run that waits for the reply. An
    event names the reply only, so the receiver asks the provider for the run. An event
    decides nothing, and its content is not used: the run polls the provider.

    Args:
        secret: The signing secret of the webhook, `whsec_` and base64. During a
            rotation, a list of secrets.
        model: The `OpenAIResponses` whose account sends the events.

    Returns:
        The receiver.

    Raises:
        InvalidInput: `secret` is invalid, or `model` is not an `OpenAIResponses`.
    """
    if not callable(getattr(model, "find_run", None)):
        msg = f"model must be an OpenAIResponses, got {type(model).__name__}."
        raise InvalidInput(msg)

    async def meaning(payload: Any, _headers: Mapping[str, str]) -> Wake | None:
        reply_id = _reply_id(payload)
        run_id = None if reply_id is None else await model.find_run(reply_id)
        return None if run_id is None else Wake(run_id)

    return WebhookReceiver(secret, meaning)


def _reply_id(payload: object) -> str | None:
    """Return the id of the reply that an event is about, as a run stores it."""
    event = jsontext.as_object(payload) or {}
    data = jsontext.as_object(event.get("data")) or {}
    kind, identifier = event.get("type"), data.get("id")
    if not isinstance(kind, str) or not isinstance(identifier, str) or not identifier:
        return None
    source, _, end = kind.partition(".")
    if end not in _ENDS or source not in ("response", "batch"):
        return None
    return identifier if source == "response" else f"batch:{identifier}"
