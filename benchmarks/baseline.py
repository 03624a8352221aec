"""The baseline: a plain loop on the documented client, without a library.

It keeps one JSON file, which it flushes to the disk, and stops before a tool runs. It
has no claims, no sub-agents, and no protection against a crash or a second process.
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
_FUNCTION = {"name": "note", "description": "Save a note.", "parameters": _PARAMETERS}
TOOLS: Any = [{"type": "function", "function": _FUNCTION}]


def save(path: str, messages: list[Any]) -> None:
    """Replace the file with the whole conversation and flush it."""
    new = f"{path}.new"
    with Path(new).open("w") as file:
        json.dump(messages, file)
        file.flush()
        os.fsync(file.fileno())
    Path(new).replace(path)


def load(path: str) -> list[Any]:
    """Return the saved conversation."""
    messages: list[Any] = json.loads(Path(path).read_text())
    return messages


def ask_model(client: OpenAI, messages: list[Any]) -> bool:
    """Append the model's next message; return whether it calls a tool."""
    reply = client.chat.completions.create(
        model="gpt-5-mini", messages=messages, tools=TOOLS
    )
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    return bool(message.tool_calls)


def run_calls(messages: list[Any], tool: Callable[..., str]) -> None:
    """Run the calls of the last message and append their results."""
    for call in messages[-1]["tool_calls"]:
        content = tool(**json.loads(call["function"]["arguments"]))
        messages.append(
            {"role": "tool", "tool_call_id": call["id"], "content": content}
        )


def run_loop(messages: list[Any], tool: Callable[..., str]) -> None:
    """Continue without saving until the model calls no tool."""
    client = OpenAI()
    while ask_model(client, messages):
        run_calls(messages, tool)


def resume(path: str, tool: Callable[..., str]) -> None:
    """Run the approved call of a saved conversation, continue, and save every turn."""
    messages = load(path)
    run_calls(messages, tool)
    client = OpenAI()
    while ask_model(client, messages):
        save(path, messages)
        run_calls(messages, tool)
    save(path, messages)
