"""The owners of encrypted reasoning: a model gets only items that it can read.

Encrypted reasoning belongs to the model that wrote it, and to the account. A run that
is forked or resumed with another model still has the items. The model then gets text
and calls of those replies, and its own reply has metadata that says so. The items of
all replies before such a reply stay left out, so no request is refused twice.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from continuations.core import jsontext
from continuations.models.responses_items import ITEMS_FIELD, stored_items
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message
    from continuations.core.model_protocol import ModelReply, ModelRequest

# Keys of the metadata of a reply: the model whose reasoning it has, and how many
# replies before it were sent without their items.
REASONING_MODEL = "reasoning_model"
ITEMS_LEFT_OUT = "items_left_out"
_ENCRYPTED = '"encrypted_content"'

_log = logging.getLogger("continuations")


class LeftOut(NamedTuple):
    """The replies of a conversation that are sent without their items.

    Attributes:
        positions: The positions of their messages.
        new: How many of them had their items sent in the turn before.
    """

    positions: frozenset[int] = frozenset()
    new: int = 0


def left_out(
    messages: Sequence[Message], model: str, *, as_stored: bool = True
) -> LeftOut:
    """Return the replies whose items a model does not get.

    Args:
        messages: The conversation.
        model: The name of the model.
        as_stored: Whether the provider takes items. If not, all are left out.
    """
    positions: set[int] = set()
    new, is_before = 0, False
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        has_items = message.role == "assistant" and ITEMS_FIELD in message.text
        if has_items and (is_before or not as_stored or _is_foreign(message, model)):
            positions.add(position)
            new += not is_before and stored_items(message.data) is not None
        is_before = is_before or ITEMS_LEFT_OUT in (message.metadata_json or "")
    return LeftOut(frozenset(positions), new)


def owned(reply: ModelReply, model: str, request: ModelRequest, new: int) -> ModelReply:
    """Return a reply with its owner, and with the number of items left out before it.

    Items that were left out for the first time are logged.
    """
    facts: dict[str, object] = {}
    if _ENCRYPTED in reply.message.text:
        facts[REASONING_MODEL] = model
    if new:
        facts[ITEMS_LEFT_OUT] = new
        _log.warning(
            "run %s: model %s got text and calls only of %s earlier replies: their "
            "encrypted reasoning belongs to another model or account",
            *(request.run_id or "-", model, new),
        )
    if not facts:
        return reply
    known = reply.message.metadata or {}
    message = reply.message.with_metadata(jsontext.canonical({**known, **facts}))
    return replace(reply, message=message)


def _is_foreign(message: Message, model: str) -> bool:
    if REASONING_MODEL not in (message.metadata_json or ""):
        return False
    owner = (message.metadata or {}).get(REASONING_MODEL)
    return owner is not None and owner != model
