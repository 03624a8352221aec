"""Read a stream of a chat completion, and hand on its parts while it arrives.

The bytes are kept: `chat_stream` joins them at the end, as it joins a stream that was
not requested. So the reply does not depend on how the bytes were cut.
"""

from __future__ import annotations

import codecs
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.model_protocol import ModelDelta
from continuations.models import chat_stream
from continuations.models.chat_reply import UnusableReply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from openai import AsyncOpenAI

    from continuations.core.model_protocol import DeltaListener

_LINE_END = re.compile(r"\r\n|\r|\n")
# Some servers send both names with the same text.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


async def post_for_stream(
    client: AsyncOpenAI, body: bytes, on_delta: DeltaListener
) -> bytes:
    """Return the whole body of a response, and hand its parts on before.

    Each part is handed on before the next bytes are read. A server that does not stream
    sends one completion, which has no parts. Raises `UnusableReply` if the connection
    broke, and the errors of the client.
    """
    from openai import AsyncStream  # noqa: PLC0415 - slow to import

    stream = await client.post(
        "/chat/completions",
        content=body,
        options={"security": {"bearer_auth": True}},
        cast_to=object,
        stream=True,
        stream_cls=AsyncStream[object],
    )
    parts = _PartReader()
    received: list[bytes] = []
    async with stream, aclosing(_chunks(stream.response.aiter_bytes())) as chunks:
        async for chunk in chunks:
            received.append(chunk)
            for delta in parts.read(chunk):
                await on_delta(delta)
    return b"".join(received)


async def _chunks(source: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    try:
        async for chunk in source:
            yield chunk
    except Exception as error:  # noqa: BLE001 - the errors of several HTTP packages
        is_late = "timeout" in type(error).__name__.lower()
        ending = "did not go on in time" if is_late else "was cut"
        reason = f"the stream {ending} before the reply was complete"
    else:
        return
    # Outside of `except`: the error holds the request with its headers.
    raise UnusableReply(reason)


class _PartReader:
    """Finds the parts of a reply in the bytes of a stream, wherever they are cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._data: list[str] = []

    def read(self, chunk: bytes) -> Iterator[ModelDelta]:
        """Return the parts that are complete with these bytes."""
        text = self._rest + self._decoder.decode(chunk)
        # The next bytes may continue a line end.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._rest = rest + held
        for line in lines:
            if line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
            elif not line and self._data:
                data, self._data = "\n".join(self._data), []
                yield from _parts_of(data)


def _parts_of(data: str) -> Iterator[ModelDelta]:
    """Return the parts in the data of an event; the end decides what is not valid."""
    try:
        chunk = jsontext.as_object(jsontext.parse(data)) or {}
    except jsontext.NotJson:
        return
    choice = chat_stream.first_choice(chunk) or {}
    delta: Any = jsontext.as_object(choice.get("delta")) or {}
    thoughts = (delta.get(name) for name in _REASONING_FIELDS)
    reasoning = next((each for each in thoughts if isinstance(each, str)), "")
    if reasoning:
        yield ModelDelta(kind="reasoning", text=reasoning)
    for name in ("content", "refusal"):
        text = delta.get(name)
        if isinstance(text, str) and text:
            yield ModelDelta(kind="text", text=text)
