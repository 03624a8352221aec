"""One script for every frame of a tree: the first user message says which part.

    {"go": [[["left", {"input": "L"}]], "all done"], "L": ["left done"]}

A line is a text, or a list of calls `[tool, arguments]` or `[tool, arguments, id]`.
The k-th line is said while the conversation has k assistant messages, so a model of
any process says the right one. Every turn adds a line to the ledger of turns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.models.interface import ModelReply
from continuations.models.scripted import ScriptedModel
from tests import effect_log

if TYPE_CHECKING:
    from continuations.models.interface import ModelRequest
    from tests.model_server import Rule

Line: TypeAlias = (
    "str | Sequence[Sequence[Any]] | Mapping[str, Any] | BaseException | ModelReply"
)
Script: TypeAlias = Mapping[str, Sequence[Line]]


def first_user_message(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the first user message of a conversation."""
    return next(str(each["content"]) for each in messages if each["role"] == "user")


def turn_count(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many turns a conversation has had."""
    return [each["role"] for each in messages].count("assistant")


def assistant_message(line: Line, turn: int) -> dict[str, Any]:
    """Return a line as an assistant's message."""
    if isinstance(line, Mapping):
        return dict(line)
    if isinstance(line, str):
        return {"role": "assistant", "content": line}
    assert not isinstance(line, BaseException | ModelReply)
    calls = [
        _tool_call(call, f"call_{turn}_{place}") for place, call in enumerate(line)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _tool_call(call: Sequence[Any], default_id: str) -> dict[str, Any]:
    name, arguments, *rest = call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": rest[0] if rest else default_id,
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def scripted_model(script: Script) -> ScriptedModel:
    """Return a model of this process that says its lines, and notes each turn."""

    def rule(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        task, turn = first_user_message(messages), turn_count(messages)
        effect_log.append_line(effect_log.TURNS_VARIABLE, task=task, turn=turn)
        line = script[task][turn]
        return (
            line
            if isinstance(line, BaseException | ModelReply)
            else assistant_message(line, turn)
        )

    return ScriptedModel(rule)


def server_rule(script: Script) -> Rule:
    """Return the same for the model server."""

    def answer(messages: list[dict[str, Any]], _model: str) -> Mapping[str, Any]:
        line = script[first_user_message(messages)][turn_count(messages)]
        if isinstance(line, str):
            return {"content": line}
        if isinstance(line, Mapping):
            return line
        assert not isinstance(line, BaseException | ModelReply)
        calls = [_server_tool_call(call) for call in line]
        return {"content": None, "tool_calls": calls}

    return answer


def _server_tool_call(call: Sequence[Any]) -> dict[str, Any]:
    names = ("name", "arguments", "id")
    return dict(zip(names, call, strict=False))
