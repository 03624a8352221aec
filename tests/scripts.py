"""Scripts for the models of a tree of agents: one part for each task.

    {"go": [[call("left", input="L")], "all done"], "L": ["left done"]}

The first user message of a conversation selects the part. A part is a list of replies;
a reply is a text, a list of calls, a whole message or an error. The conversation's
number of assistant messages selects the reply, so a model of any process gives the same
one. Every turn is recorded in the log of turns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel
from tests import effect_log
from tests.model_server import Rule


class ScriptedCall(NamedTuple):
    """A tool call of a script; a tuple, so that JSON can hold a script."""

    tool: str
    arguments: Mapping[str, Any] | str
    call_id: str | None = None


Line: TypeAlias = (
    "str | Sequence[Sequence[Any]] | Mapping[str, Any] | BaseException | ModelReply"
)
Script: TypeAlias = Mapping[str, Sequence[Line]]
# A function of the conversation serves as a script as well.
NextLine: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], Line]


def call(tool: str, /, **arguments: Any) -> ScriptedCall:
    """Return a call of a tool; its id is made from turn and place."""
    return ScriptedCall(tool, arguments)


def call_with_id(tool: str, call_id: str, /, **arguments: Any) -> ScriptedCall:
    """Return a call of a tool with the provider's id."""
    return ScriptedCall(tool, arguments, call_id)


def of_environment() -> Script:
    """Return the script that TEST_SCRIPT has for this process."""
    found: Script = json.loads(os.environ["TEST_SCRIPT"])
    return found


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
        _tool_call(scripted, f"call_{turn}_{place}")
        for place, scripted in enumerate(line)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _tool_call(scripted: Sequence[Any], default_id: str) -> dict[str, Any]:
    name, arguments, call_id = ScriptedCall(*scripted)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": default_id if call_id is None else call_id,
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def next_line(script: Script | NextLine, messages: Sequence[Mapping[str, Any]]) -> Line:
    """Return the line of a script that a conversation has come to."""
    if callable(script):
        return script(messages)
    return script[first_user_message(messages)][turn_count(messages)]


def scripted_model(
    script: Script | NextLine,
    record_turn: Callable[[str, int], None] = effect_log.append_turn,
) -> ScriptedModel:
    """Return a model of this process that follows a script.

    `record_turn` is called with each turn's task and number, before the reply.
    """

    def next_reply(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        task, turn = first_user_message(messages), turn_count(messages)
        record_turn(task, turn)
        line = next_line(script, messages)
        return (
            line
            if isinstance(line, BaseException | ModelReply)
            else assistant_message(line, turn)
        )

    return ScriptedModel(next_reply)


def server_rule(script: Script | NextLine) -> Rule:
    """Return a rule with which the model server follows a script."""

    def next_reply(messages: list[dict[str, Any]], _model: str) -> Mapping[str, Any]:
        line = next_line(script, messages)
        if isinstance(line, str):
            return {"content": line}
        if isinstance(line, Mapping):
            return line
        assert not isinstance(line, BaseException | ModelReply)
        calls = [_server_tool_call(scripted) for scripted in line]
        return {"content": None, "tool_calls": calls}

    return next_reply


def _server_tool_call(scripted: Sequence[Any]) -> dict[str, Any]:
    name, arguments, call_id = ScriptedCall(*scripted)
    described = {"name": name, "arguments": arguments}
    return described if call_id is None else {**described, "id": call_id}
