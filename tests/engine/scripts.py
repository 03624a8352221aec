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

from continuations.models.contract import Reply
from continuations.models.scripted import ScriptedModel
from tests.engine import ledgers

if TYPE_CHECKING:
    from continuations.models.contract import ModelRequest
    from tests.model_server import Rule

Line: TypeAlias = (
    "str | Sequence[Sequence[Any]] | Mapping[str, Any] | BaseException | Reply"
)
Script: TypeAlias = Mapping[str, Sequence[Line]]


def task_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the first user message of a conversation."""
    return next(str(each["content"]) for each in messages if each["role"] == "user")


def turn_of(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many turns a conversation has had."""
    return [each["role"] for each in messages].count("assistant")


def spoken(line: Line, turn: int) -> dict[str, Any]:
    """Return a line as an assistant's message."""
    if isinstance(line, Mapping):
        return dict(line)
    if isinstance(line, str):
        return {"role": "assistant", "content": line}
    assert not isinstance(line, BaseException | Reply)
    calls = [_asked(call, f"call_{turn}_{place}") for place, call in enumerate(line)]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _asked(call: Sequence[Any], default_id: str) -> dict[str, Any]:
    name, arguments, *rest = call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": rest[0] if rest else default_id,
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def model(script: Script) -> ScriptedModel:
    """Return a model of this process that says its lines, and notes each turn."""

    def rule(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        task, turn = task_of(messages), turn_of(messages)
        ledgers.add(ledgers.TURNS, task=task, turn=turn)
        line = script[task][turn]
        return line if isinstance(line, BaseException | Reply) else spoken(line, turn)

    return ScriptedModel(rule)


def rule(script: Script) -> Rule:
    """Return the same for the model server."""

    def answer(messages: list[dict[str, Any]], _model: str) -> Mapping[str, Any]:
        line = script[task_of(messages)][turn_of(messages)]
        if isinstance(line, str):
            return {"content": line}
        if isinstance(line, Mapping):
            return line
        assert not isinstance(line, BaseException | Reply)
        calls = [_served(call) for call in line]
        return {"content": None, "tool_calls": calls}

    return answer


def _served(call: Sequence[Any]) -> dict[str, Any]:
    names = ("name", "arguments", "id")
    return dict(zip(names, call, strict=False))
