"""Sizes that the design measures by: compressed messages, standard JSON."""

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
    """Return a frame and all below it, without recursion."""
    found: list[Frame] = []
    todo = [root]
    while todo:
        frame = todo.pop()
        found.append(frame)
        todo += [call.frame for call in frame.calls if call.frame is not None]
    return found


def transcript_json(continuation: Continuation) -> bytes:
    """Return the messages of every frame as one JSON text."""
    said: list[Any] = [list(frame.messages) for frame in frames(continuation.root)]
    return json.dumps(said).encode()


def compressed_size(data: bytes) -> int:
    """Return the size of bytes under zstd at level 3."""
    return len(zstd.compress(data, 3))
