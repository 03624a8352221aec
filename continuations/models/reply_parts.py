"""Hand on a reply that is complete in parts, as a model that streams does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from continuations.core.model_protocol import ModelDelta

if TYPE_CHECKING:
    from continuations.core.messages import Message
    from continuations.core.model_protocol import ModelRequest

_WORD = re.compile(r"\S+\s*|\s+")
_REASONING_FIELDS = ("reasoning_content", "reasoning")


async def hand_on_words(request: ModelRequest, message: Message) -> None:
    """Hand the words of a message to the listener of a request, if there is one.

    The reasoning comes first, then the text.
    """
    if request.on_delta is None:
        return
    data: dict[str, Any] = message.data
    reasoning = next((data[each] for each in _REASONING_FIELDS if data.get(each)), "")
    if isinstance(reasoning, str):
        for word in _WORD.findall(reasoning):
            await request.on_delta(ModelDelta(kind="reasoning", text=word))
    for word in _WORD.findall(message.content or ""):
        await request.on_delta(ModelDelta(kind="text", text=word))
