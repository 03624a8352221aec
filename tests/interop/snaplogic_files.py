"""Small files of SnapLogic's prototype, and the agents that fit them.

A file is the JSON text of a dict that `request()` of the prototype returned. Here an
agent `desk` has an agent `clerk`, which has an agent `booker`, which books flights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from continuations import Agent, ApprovalPolicy, tool
from continuations.models.scripted import ScriptedModel
from tests import effect_log


def asked(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """Return a tool call as the prototype writes it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def node(
    task: str, *calls: dict[str, Any], results: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a continuation whose calls without a result are pending.

    A call with the key `continuation` is an agent that is paused.
    """
    results = results or {}
    plain = [{k: call[k] for k in ("id", "type", "function")} for call in calls]
    pending = [call for call in calls if call["id"] not in results]
    reply: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    reply |= {"audio": None, "function_call": None, "tool_calls": plain}
    return {
        "messages": [
            {"role": "developer", "content": f"You do: {task}"},
            {"role": "user", "content": task},
            reply,
            *(
                {"role": "tool", "tool_call_id": call_id, "content": content}
                for call_id, content in results.items()
            ),
        ],
        "resume_request": pending,
        "processed": [{"id": call["id"], "approved": False} for call in pending],
    }


def info(*calls: dict[str, Any], approved: bool = False) -> dict[str, Any]:
    """Return the entry of `approval_info` for the last of some nested calls."""
    return {
        "paths": [call["function"]["name"] for call in calls],
        "path_ids": [call["id"] for call in calls],
        "tool_call": calls[-1],
        "approved": approved,
    }


def pause(top: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    """Return the whole file of a pause for approvals."""
    file = {
        "continuation": top,
        "approval_info": entries,
        "end_reason": "approval_required",
    }
    copied: dict[str, Any] = json.loads(json.dumps(file))
    return copied


def flat() -> dict[str, Any]:
    """Return a file in which one agent waits for one approval."""
    book = asked("call_b", "book", flight="LX 8")
    search = asked("call_s", "search", flight="LX 8")
    top = node("fly", search, book, results={"call_s": "LX 8 has seats"})
    return pause(top, info(book))


def nested(*, approved: tuple[bool, bool] = (False, False)) -> dict[str, Any]:
    """Return a file three levels deep, with two approvals in the deepest agent."""
    first = asked("call_1", "book", flight="LX 8")
    second = asked("call_2", "book", flight="LX 9")
    deep = asked("call_c", "booker", prompt="two flights")
    deep["continuation"] = node("two flights", first, second)
    middle = asked("call_d", "clerk", prompt="travel")
    middle["continuation"] = node("travel", deep)
    search = asked("call_s", "search", flight="LX 8")
    top = node("fly", search, middle, results={"call_s": {"seats": 3}})
    return pause(
        top,
        info(middle, deep, first, approved=approved[0]),
        info(middle, deep, second, approved=approved[1]),
    )


def rejected() -> dict[str, Any]:
    """Return a file of an agent whose call was rejected."""
    file = flat()
    return {
        "messages": file["continuation"]["messages"],
        "rejected_tool_calls": file["continuation"]["resume_request"],
        "end_reason": "rejected_tool_calls",
    }


def suspended() -> dict[str, Any]:
    """Return a file of an agent that a suspension function stopped."""
    search = asked("call_s", "search", flight="LX 8")
    top = node("fly", search, results={"call_s": "LX 8 has seats"})
    return {
        "continuation": {"messages": top["messages"]},
        "suspend_list": ["every_second_turn"],
        "end_reason": "suspended",
    }


def completed() -> dict[str, Any]:
    """Return a file of an agent that has ended."""
    messages = flat()["continuation"]["messages"][:2]
    end = {"role": "assistant", "content": "You fly."}
    reason = "completed"
    return {"result": "You fly.", "messages": [*messages, end], "end_reason": reason}


FORMS = (flat, nested, rejected, suspended, completed)


@tool
def search(flight: str) -> str:
    """Search a flight."""
    effect_log.append_effect("search", flight)
    return f"{flight} has seats"


def make_desk(*, approval: bool | ApprovalPolicy = True) -> Agent:
    """Return the agents of `nested`; each says that it is done."""

    @tool(approval=approval)
    def book(flight: str) -> str:
        """Book a flight."""
        effect_log.append_effect("book", flight)
        return f"booked {flight}"

    def done(name: str) -> ScriptedModel:
        return ScriptedModel(lambda _request: f"{name} done")

    booker = Agent("booker", tools=[book], model=done("booker"))
    clerk = Agent("clerk", tools=[booker], model=done("clerk"))
    return Agent("desk", tools=[clerk, search, book], model=done("desk"))


desk = make_desk()
