"""The names that a model of your own needs: implement `Model`.

The definitions are in `core`, because an agent (`authoring`) and the adapters
(`models`) use them and do not import each other.
"""

from __future__ import annotations

from continuations.core.messages import Message
from continuations.core.model_protocol import (
    LostReply,
    Model,
    ModelDelta,
    ModelReply,
    ModelRequest,
    OutputSchema,
    PendingReply,
    PollableModel,
    ToolSpec,
)

__all__ = [
    "LostReply",
    "Message",
    "Model",
    "ModelDelta",
    "ModelReply",
    "ModelRequest",
    "OutputSchema",
    "PendingReply",
    "PollableModel",
    "ToolSpec",
]
