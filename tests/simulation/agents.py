"""Small trees of agents, whose models say their lines and whose tools keep a ledger.

Models keep no place in their script: which line is next follows from the
conversation. Tools take virtual time and write down what they did where no crash
reaches it.
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
    from continuations.models.interface import ModelRequest

# A final text, or calls: the tool and what it is about.
Line: TypeAlias = "str | Sequence[tuple[str, str]]"
Script: TypeAlias = Mapping[str, Sequence[Line]]


# Tools ------------------------------------------------------------------------------


async def perform_effect(name: str, what: str, ctx: ToolContext, seconds: float) -> str:
    """Have an effect outside, which takes so long; returns what the model is told."""
    process = current_process()
    world = process.environment
    if world.closed:
        raise ProcessKilled
    await process.freeze_before_call()
    done = Effect(
        process=process.name,
        tool=name,
        run_id=ctx.run_id,
        call_id=ctx.call_id,
        key=ctx.idempotency_key,
        arguments=jsontext.canonical({"what": what}),
        fence=ctx.fence,
        attempt=ctx.attempt,
        clock_sample=process.clock_sample,
        began=world.next_timestamp,
    )
    world.effects.append(done)
    world.log_event(process.name, "does", name, what, ctx.call_id, ctx.fence)
    if process.draw_fault("die") is not None:
        await process.die_here()
    await asyncio.sleep(seconds)
    if process.draw_fault("die") is not None:
        await process.die_here()
    done.ended = world.loop.time()
    return result_of(name, what)


def result_of(name: str, what: str) -> str:
    """Return what a tool says that it did."""
    return f"{name} {what} done"


def _make_tool(name: str, seconds: float, **options: Any) -> Any:
    async def work(what: str, ctx: ToolContext) -> str:
        return await perform_effect(name, what, ctx, seconds)

    return tool(work, name=name, description="Work.", **options)


async def verify(what: str, ctx: ToolContext) -> Answer | Approve | None:
    """Find out whether a call happened, or not find out."""
    process = current_process()
    await asyncio.sleep(0.3)
    if len(what) % 2:
        return None
    for done in process.environment.effects:
        if done.key == ctx.idempotency_key:
            return Answer(result_of(done.tool, what))
    return Approve()


async def _fail(what: str, ctx: ToolContext) -> str:
    await perform_effect("trip", what, ctx, 0.5)
    raise ValueError(what)


async def _kill_worker(what: str, ctx: ToolContext) -> str:
    """Kill the worker, also when nothing else goes wrong any more."""
    done = await perform_effect("poison", what, ctx, 0.1)
    process = current_process()
    if process.environment.faults.record(f"{process.name}/0 poison"):
        await process.die_here()
    return done


TOOLS: dict[str, Any] = {
    "act": _make_tool("act", 0.5),
    "look": _make_tool("look", 0.2, read_only=True),
    "push": _make_tool("push", 0.5, idempotent=True),
    "check": _make_tool("check", 0.7, verify=verify),
    "slow": _make_tool("slow", 42.0),
    "crawl": _make_tool("crawl", 38.0, idempotent=True),
    "poison": tool(_kill_worker, name="poison", description="Kill.", idempotent=True),
    "trip": tool(_fail, name="trip", description="Fail."),
    "pay": _make_tool("pay", 0.5, approval=True),
    "wire": _make_tool("wire", 35.0, approval=True),
    "post": _make_tool("post", 0.5, approval=True, idempotent=True),
    "book": _make_tool("book", 0.5, approval=True, verify=verify),
    "sign": _make_tool("sign", 0.5, approval=ApprovalPolicy(expires_after=45)),
    "seal": _make_tool(
        "seal", 0.5, approval=ApprovalPolicy(expires_after=60, on_expired="stop")
    ),
    "fresh": _make_tool("fresh", 0.5, approval=ApprovalPolicy(valid_for=15)),
    "fire": _make_tool("fire", 0.5, approval=ApprovalPolicy(on_denied="stop")),
}
NEEDS_APPROVAL = frozenset(
    name for name, each in TOOLS.items() if each.approval is not None
)
REPEATABLE = frozenset(name for name, each in TOOLS.items() if each.repeatable)


# Models -----------------------------------------------------------------------------


class SimModel:
    """Says the line that a conversation has come to; now and then it fails."""

    name = "simulated"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Note the question, take a while, answer."""
        process = current_process()
        world = process.environment
        if world.closed:
            raise ProcessKilled
        await process.freeze_before_call()
        task = task_of(request.messages)
        turn = sum(message.role == "assistant" for message in request.messages)
        asked = ModelTurn(
            process=process.name,
            run_id=request.run_id,
            frame_task=task,
            turn=turn,
            messages=tuple(message.text for message in request.messages),
            clock_sample=process.clock_sample,
            began=world.next_timestamp,
        )
        world.model_turns.append(asked)
        world.log_event(process.name, "asks", task, turn)
        if process.draw_fault("die") is not None:
            await process.die_here()
        await asyncio.sleep(0.2 + process.rng.random() * 2)
        if process.draw_fault("die") is not None:
            await process.die_here()
        if process.draw_fault("model") is not None:
            raise ModelError("no answer, this once")
        return ModelReply(message=_assistant_message(self._script[task][turn], turn))


def task_of(messages: Sequence[Message]) -> str:
    """Return what a frame was asked to do: it names the frame."""
    return next(message.content for message in messages if message.role == "user")


def _assistant_message(line: Line, turn: int) -> Message:
    if isinstance(line, str):
        return Message.from_mapping({"role": "assistant", "content": line})
    calls = [
        {
            "id": f"call_{turn}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": _arguments_json(name, what)},
        }
        for place, (name, what) in enumerate(line)
    ]
    return Message.from_mapping(
        {"role": "assistant", "content": None, "tool_calls": calls}
    )


def _arguments_json(name: str, what: str) -> str:
    return jsontext.canonical({"what" if name in TOOLS else "input": what})


# Trees ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of agents; its root's task is "go"."""

    name: str
    root: Agent


def _make_tree(name: str, script: Script, sub_agents: Mapping[str, Any]) -> Tree:
    """Return a tree of a script and the agents below the root, name by name."""
    model = SimModel(script)
    named = {call[0] for lines in script.values() for line in lines for call in line}
    tools = [each for called, each in TOOLS.items() if called in named]

    def agent(called: str, below: Mapping[str, Any]) -> Agent:
        children = [_child(each, inner) for each, inner in below.items()]
        return Agent(called, tools=[*tools, *children], model=model)

    def _child(called: str, inner: Mapping[str, Any]) -> Any:
        plain, _, gated = called.partition("?")
        child = agent(plain, inner)
        return child.as_tool(approval=True) if gated else child

    return Tree(name, agent(name, sub_agents))


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
            "A": [[("desk", "B")], "A end"],
            "B": [[("pay", "1")], "B end"],
        },
        {"hr": {"desk": {}}},
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
        "gate",
        {"go": [[("clerk", "A")], "end"], "A": [[("act", "1")], "A end"]},
        {"clerk?": {}},
    ),
    _make_tree("expiry", {"go": [[("sign", "1"), ("act", "2")], "end"]}, {}),
    _make_tree("seal", {"go": [[("seal", "1"), ("pay", "2")], "end"]}, {}),
    _make_tree("fresh", {"go": [[("fresh", "1")], "end"]}, {}),
    _make_tree("fire", {"go": [[("fire", "1"), ("pay", "2")], "end"]}, {}),
    _make_tree("check", {"go": [[("check", "1")], [("check", "22")], "end"]}, {}),
    _make_tree("slow", {"go": [[("slow", "1")], "end"]}, {}),
    _make_tree("crawl", {"go": [[("crawl", "1"), ("look", "2")], "end"]}, {}),
    _make_tree("wire", {"go": [[("wire", "1"), ("book", "22")], "end"]}, {}),
    _make_tree("poison", {"go": [[("poison", "1"), ("pay", "2")], "end"]}, {}),
    _make_tree("trip", {"go": [[("trip", "1"), ("pay", "2")], "end"]}, {}),
)
TREES: dict[str, Tree] = {tree.name: tree for tree in _ALL}


def undisturbed_results() -> frozenset[str]:
    """Return, as JSON, what tools that raise nothing say that they did."""
    return _UNDISTURBED_RESULTS


_UNDISTURBED_RESULTS = frozenset(
    jsontext.canonical(result_of(name, what))
    for name in TOOLS
    if name != "trip"
    for what in ("1", "2", "3", "22", *TOOLS)
)
