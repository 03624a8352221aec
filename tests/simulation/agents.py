"""Small trees of agents, with scripted models and tools that record their effects.

A model keeps no position: the number of assistant messages selects its next line. A
tool takes virtual time, and records its effect in the environment, which no simulated
crash reaches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    ModelError,
    ToolContext,
    tool,
)
from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.models.interface import ModelReply
from tests.simulation.processes import ProcessKilled, current_process
from tests.simulation.sim_environment import Effect, ModelTurn

if TYPE_CHECKING:
    from continuations.authoring.tool import Tool
    from continuations.models.interface import ModelRequest

# A final text, or calls: the name of the tool and its argument `what`.
Line: TypeAlias = "str | Sequence[tuple[str, str]]"
# The lines of each frame, by its task.
Script: TypeAlias = Mapping[str, Sequence[Line]]


# Tools ------------------------------------------------------------------------------


async def perform_effect(name: str, what: str, ctx: ToolContext, seconds: float) -> str:
    """Record an effect, take some virtual seconds, and return the tool's result."""
    process = current_process()
    environment = process.environment
    if environment.closed:
        raise ProcessKilled
    await process.freeze_before_call()
    effect = Effect(
        process=process.name,
        tool=name,
        run_id=ctx.run_id,
        call_id=ctx.call_id,
        idempotency_key=ctx.idempotency_key,
        arguments=jsontext.canonical({"what": what}),
        fence=ctx.fence,
        attempt=ctx.attempt,
        clock_sample=process.clock_sample,
        began_at=environment.next_timestamp,
    )
    environment.effects.append(effect)
    environment.log_event(
        process.name, "effect", name, what, ctx.call_id, f"fence {ctx.fence}"
    )
    if process.draw_fault("die_in_call") is not None:
        await process.die_here()
    await asyncio.sleep(seconds)
    if process.draw_fault("die_in_call") is not None:
        await process.die_here()
    return result_of(name, what)


def result_of(name: str, what: str) -> str:
    """Return the result of a tool."""
    return f"{name} {what} done"


def _make_tool(name: str, seconds: float, **options: Any) -> Tool[Any, Any]:
    async def work(what: str, ctx: ToolContext) -> str:
        return await perform_effect(name, what, ctx, seconds)

    return tool(work, name=name, description="Work.", **options)


async def verify(what: str, ctx: ToolContext) -> Answer | Approve | None:
    """Look the call up among the effects; for a `what` of odd length, find nothing."""
    process = current_process()
    await asyncio.sleep(0.3)
    if len(what) % 2:
        return None
    for effect in process.environment.effects:
        if effect.idempotency_key == ctx.idempotency_key:
            return Answer(result_of(effect.tool, what))
    return Approve()


async def _fail(what: str, ctx: ToolContext) -> str:
    await perform_effect("fail", what, ctx, 0.5)
    raise ValueError(what)


async def _kill_worker(what: str, ctx: ToolContext) -> str:
    """Kill the worker, also after all other faults have stopped."""
    result = await perform_effect("kill_worker", what, ctx, 0.1)
    process = current_process()
    if process.environment.faults.record(f"{process.name}/0 kill_worker"):
        await process.die_here()
    return result


async def _cancel_self(what: str, ctx: ToolContext) -> str:
    await perform_effect("cancel_self", what, ctx, 0.1)
    return await cancel_own_task()


async def _poisoned_policy(what: str) -> bool:
    del what
    return bool(await cancel_own_task())


async def cancel_own_task() -> str:
    """Cancel the task that runs now, as wrong code of an application does."""
    task = asyncio.current_task()
    assert task is not None
    current_process().cancelled_itself = True
    task.cancel()
    await asyncio.sleep(0)
    return "never"


# The order is part of the random draws: append new tools at the end.
TOOLS: dict[str, Tool[Any, Any]] = {
    "act": _make_tool("act", 0.5),
    "look": _make_tool("look", 0.2, read_only=True),
    "push": _make_tool("push", 0.5, idempotent=True),
    "check": _make_tool("check", 0.7, verify=verify),
    "slow": _make_tool("slow", 42.0),
    "slow_idempotent": _make_tool("slow_idempotent", 38.0, idempotent=True),
    "kill_worker": tool(
        _kill_worker, name="kill_worker", description="Kill.", idempotent=True
    ),
    "fail": tool(_fail, name="fail", description="Fail."),
    "pay": _make_tool("pay", 0.5, approval=True),
    "slow_payment": _make_tool("slow_payment", 35.0, approval=True),
    "post": _make_tool("post", 0.5, approval=True, idempotent=True),
    "book": _make_tool("book", 0.5, approval=True, verify=verify),
    "sign": _make_tool("sign", 0.5, approval=ApprovalPolicy(expires_after=45)),
    "expiry_stops": _make_tool(
        "expiry_stops",
        0.5,
        approval=ApprovalPolicy(expires_after=60, on_expired="stop"),
    ),
    "short_approval": _make_tool(
        "short_approval", 0.5, approval=ApprovalPolicy(valid_for=15)
    ),
    "denial_stops": _make_tool(
        "denial_stops", 0.5, approval=ApprovalPolicy(on_denied="stop")
    ),
    "cancel_self": tool(
        _cancel_self, name="cancel_self", description="Work.", idempotent=True
    ),
    "poisoned": _make_tool("poisoned", 0.5, approval=_poisoned_policy),
    "short_post": _make_tool(
        "short_post", 0.5, approval=ApprovalPolicy(valid_for=15), idempotent=True
    ),
}
NEEDS_APPROVAL = frozenset(
    name for name, each in TOOLS.items() if each.approval is not None
)
REPEATABLE = frozenset(name for name, each in TOOLS.items() if each.repeatable)


# Models -----------------------------------------------------------------------------


class SimModel:
    """Replies with the line that a conversation has come to, or raises an error."""

    name = "simulated"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Record the turn, take some virtual time, and reply."""
        process = current_process()
        environment = process.environment
        if environment.closed:
            raise ProcessKilled
        await process.freeze_before_call()
        task = task_of(request.messages)
        turn = sum(message.role == "assistant" for message in request.messages)
        environment.model_turns.append(
            ModelTurn(
                process=process.name,
                run_id=request.run_id,
                frame_task=task,
                turn=turn,
                messages=tuple(message.text for message in request.messages),
                clock_sample=process.clock_sample,
                began_at=environment.next_timestamp,
            )
        )
        environment.log_event(process.name, "model turn", task, turn)
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        await asyncio.sleep(0.2 + process.rng.random() * 2)
        if process.draw_fault("die_in_call") is not None:
            await process.die_here()
        if process.draw_fault("model_error") is not None:
            raise ModelError("simulated error")
        # After a message to the run, the model says its last line once more.
        lines = self._script[task]
        line = lines[min(turn, len(lines) - 1)]
        return ModelReply(message=_assistant_message(line, turn))


def task_of(messages: Sequence[Message]) -> str:
    """Return the first user message of a frame, which identifies the frame."""
    return next(message.content for message in messages if message.role == "user")


def _assistant_message(line: Line, turn: int) -> Message:
    if isinstance(line, str):
        return Message.from_mapping({"role": "assistant", "content": line})
    calls = [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": _arguments_json(name, what)},
        }
        for number, (name, what) in enumerate(line)
    ]
    return Message.from_mapping(
        {"role": "assistant", "content": None, "tool_calls": calls}
    )


def _arguments_json(name: str, what: str) -> str:
    return jsontext.canonical({"what" if name in TOOLS else "input": what})


# Trees ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of agents; the task of its root is "go"."""

    name: str
    root: Agent


def _make_tree(name: str, script: Script, sub_agents: Mapping[str, Any]) -> Tree:
    """Return a tree of a script and the sub-agents of the root, name by name.

    A name that ends with `?` is a sub-agent that needs approval. A number after `?` is
    the validity of the approval in seconds.
    """
    model = SimModel(script)
    used = {call[0] for lines in script.values() for line in lines for call in line}
    tools = [each for tool_name, each in TOOLS.items() if tool_name in used]

    def make_agent(agent_name: str, below: Mapping[str, Any]) -> Agent:
        children = [make_child(each, inner) for each, inner in below.items()]
        return Agent(agent_name, tools=[*tools, *children], model=model)

    def make_child(child_name: str, below: Mapping[str, Any]) -> Any:
        plain_name, _, seconds = child_name.partition("?")
        child = make_agent(plain_name, below)
        if plain_name == child_name:
            return child
        policy = ApprovalPolicy(valid_for=int(seconds) if seconds else None)
        return child.as_tool(approval=policy)

    return Tree(name, make_agent(name, sub_agents))


# The order is part of the random draws: append new trees at the end.
_ALL: tuple[Tree, ...] = (
    _make_tree("plain", {"go": [[("act", "1")], "end"]}, {}),
    _make_tree(
        "turns", {"go": [[("look", "1")], [("push", "2"), ("act", "3")], "end"]}, {}
    ),
    _make_tree("one", {"go": [[("pay", "1")], "end"]}, {}),
    _make_tree(
        "mixed", {"go": [[("pay", "1"), ("act", "2"), ("push", "3")], "end"]}, {}
    ),
    _make_tree("two", {"go": [[("pay", "1")], [("post", "2")], "end"]}, {}),
    _make_tree(
        "five",
        {
            "go": [
                [(name, name) for name in ("pay", "post", "sign", "book", "pay")],
                "e",
            ]
        },
        {},
    ),
    _make_tree(
        "deep",
        {
            "go": [[("hr", "A")], "end"],
            "A": [[("clerk", "B")], "A end"],
            "B": [[("pay", "1")], "B end"],
        },
        {"hr": {"clerk": {}}},
    ),
    _make_tree(
        "wide",
        {
            "go": [[("left", "A"), ("right", "B")], "end"],
            "A": [[("pay", "1")], "A end"],
            "B": [[("act", "2")], [("post", "3")], "B end"],
        },
        {"left": {}, "right": {}},
    ),
    _make_tree(
        "approved_agent",
        {"go": [[("clerk", "A")], "end"], "A": [[("act", "1")], "A end"]},
        {"clerk?": {}},
    ),
    _make_tree("expiry", {"go": [[("sign", "1"), ("act", "2")], "end"]}, {}),
    _make_tree(
        "expiry_stops", {"go": [[("expiry_stops", "1"), ("pay", "2")], "end"]}, {}
    ),
    _make_tree("short_approval", {"go": [[("short_approval", "1")], "end"]}, {}),
    _make_tree(
        "denial_stops", {"go": [[("denial_stops", "1"), ("pay", "2")], "end"]}, {}
    ),
    _make_tree("check", {"go": [[("check", "1")], [("check", "22")], "end"]}, {}),
    _make_tree("slow", {"go": [[("slow", "1")], "end"]}, {}),
    _make_tree(
        "slow_idempotent",
        {"go": [[("slow_idempotent", "1"), ("look", "2")], "end"]},
        {},
    ),
    _make_tree(
        "slow_payment", {"go": [[("slow_payment", "1"), ("book", "22")], "end"]}, {}
    ),
    _make_tree(
        "kill_worker", {"go": [[("kill_worker", "1"), ("pay", "2")], "end"]}, {}
    ),
    _make_tree("fail", {"go": [[("fail", "1"), ("pay", "2")], "end"]}, {}),
)
TREES: dict[str, Tree] = {tree.name: tree for tree in _ALL}
# Trees whose own code stops every process that works on them; such runs never end.
POISON_TREES: dict[str, Tree] = {
    "poison_tool": _make_tree(
        "poison_tool", {"go": [[("look", "1")], [("cancel_self", "2")], "end"]}, {}
    ),
    "poison_policy": _make_tree(
        "poison_policy", {"go": [[("look", "1")], [("poisoned", "2")], "end"]}, {}
    ),
}


# Trees of calls that may not begin, or begin again, when their approval is too old.
SHORT_APPROVAL_TREES: dict[str, Tree] = {
    "short_post": _make_tree("short_post", {"go": [[("short_post", "1")], "end"]}, {}),
    "short_clerk": _make_tree(
        "short_clerk",
        {"go": [[("clerk", "A")], "end"], "A": [[("look", "1")], "A end"]},
        {"clerk?15": {}},
    ),
}


def names_of_trees() -> list[str]:
    """Return the names of the trees that a schedule may draw."""
    return list(TREES)


def find_tree(name: str) -> Tree:
    """Return a tree by its name."""
    return (TREES | POISON_TREES | SHORT_APPROVAL_TREES)[name]


def results_without_errors() -> frozenset[str]:
    """Return the JSON of every result of the tools that never raise."""
    return _RESULTS_WITHOUT_ERRORS


_RESULTS_WITHOUT_ERRORS = frozenset(
    jsontext.canonical(result_of(name, what))
    for name in TOOLS
    if name != "fail"
    for what in ("1", "2", "3", "22", *TOOLS)
)
