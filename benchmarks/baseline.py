"""The floor: what one writes without a library, on the documented client.

A loop, one JSON file that is flushed to the disk, one question before the tool runs.
No claim, no second runner, no sub-agents, no crash between the lines.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openai import OpenAI

if TYPE_CHECKING:
    from collections.abc import Callable

_PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}}
_FUNCTION = {"name": "note", "description": "Note it.", "parameters": _PARAMETERS}
TOOLS: Any = [{"type": "function", "function": _FUNCTION}]


def save(path: str, messages: list[Any]) -> None:
    """Replace the file by the whole conversation, durably."""
    new = f"{path}.new"
    with Path(new).open("w") as file:
        json.dump(messages, file)
        file.flush()
        os.fsync(file.fileno())
    Path(new).replace(path)


def load(path: str) -> list[Any]:
    """Return the conversation that was saved."""
    messages: list[Any] = json.loads(Path(path).read_text())
    return messages


def ask_model(client: OpenAI, messages: list[Any]) -> bool:
    """Add the model's next message; tell whether it calls the tool."""
    reply = client.chat.completions.create(
        model="gpt-5-mini", messages=messages, tools=TOOLS
    )
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    return bool(message.tool_calls)


def run_calls(messages: list[Any], tool: Callable[..., str]) -> None:
    """Run the calls of the last message and add their results."""
    for asked in messages[-1]["tool_calls"]:
        content = tool(**json.loads(asked["function"]["arguments"]))
        messages.append(
            {"role": "tool", "tool_call_id": asked["id"], "content": content}
        )


def run_loop(messages: list[Any], tool: Callable[..., str]) -> None:
    """Go on without keeping anything until the model calls nothing."""
    client = OpenAI()
    while ask_model(client, messages):
        run_calls(messages, tool)


def resume(path: str, tool: Callable[..., str]) -> None:
    """Run the approved call of a saved conversation and go on, one call at a time."""
    messages = load(path)
    run_calls(messages, tool)
    client = OpenAI()
    while ask_model(client, messages):
        save(path, messages)
        run_calls(messages, tool)
    save(path, messages)
