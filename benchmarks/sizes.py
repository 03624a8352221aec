"""Sizes for comparison: messages as JSON, and compressed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from continuations import Continuation, Frame


def frames(root: Frame) -> list[Frame]:
    """Return a frame and all frames below it, without recursion."""
    collected: list[Frame] = []
    pending = [root]
    while pending:
        frame = pending.pop()
        collected.append(frame)
        pending += [call.frame for call in frame.calls if call.frame is not None]
    return collected


def transcript_json(continuation: Continuation) -> bytes:
    """Return the messages of every frame as one JSON text."""
    messages: list[Any] = [list(frame.messages) for frame in frames(continuation.root)]
    return json.dumps(messages).encode()


def compressed_size(data: bytes) -> int:
    """Return the size after zstd compression at level 3."""
    return len(zstd.compress(data, 3))
