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
from continuations.models.contract import Reply
from tests.simulation.processes import Crash, myself
from tests.simulation.world import Asked, Effect

if TYPE_CHECKING:
    from continuations.models.contract import ModelRequest

# A final text, or calls: the tool and what it is about.
Line: TypeAlias = "str | Sequence[tuple[str, str]]"
Script: TypeAlias = Mapping[str, Sequence[Line]]


# Tools ------------------------------------------------------------------------------


async def effect(name: str, what: str, ctx: ToolContext, seconds: float) -> str:
    """Have an effect outside, which takes so long; returns what the model is told."""
    process = myself()
    world = process.world
    if world.over:
        raise Crash
    await process.gap()
    done = Effect(
        process=process.name,
        tool=name,
        run_id=ctx.run_id,
        call_id=ctx.call_id,
        key=ctx.idempotency_key,
        arguments=jsontext.canonical({"what": what}),
        fence=ctx.fence,
        attempt=ctx.attempt,
        looked=process.looked,
        began=world.moment,
    )
    world.effects.append(done)
    world.note(process.name, "does", name, what, ctx.call_id, ctx.fence)
    if process.throw("die") is not None:
        await process.die_here()
    await asyncio.sleep(seconds)
    if process.throw("die") is not None:
        await process.die_here()
    done.ended = world.loop.time()
    return result_of(name, what)


def result_of(name: str, what: str) -> str:
    """Return what a tool says that it did."""
    return f"{name} {what} done"


def _tool(name: str, seconds: float, **options: Any) -> Any:
    async def work(what: str, ctx: ToolContext) -> str:
        return await effect(name, what, ctx, seconds)

    return tool(work, name=name, description="Work.", **options)


async def verify(what: str, ctx: ToolContext) -> Answer | Approve | None:
    """Find out whether a call happened, or not find out."""
    process = myself()
    await asyncio.sleep(0.3)
    if len(what) % 2:
        return None
    for done in process.world.effects:
        if done.key == ctx.idempotency_key:
            return Answer(result_of(done.tool, what))
    return Approve()


async def _trip(what: str, ctx: ToolContext) -> str:
    await effect("trip", what, ctx, 0.5)
    raise ValueError(what)


async def _poison(what: str, ctx: ToolContext) -> str:
    """Kill the worker, also when nothing else goes wrong any more."""
    done = await effect("poison", what, ctx, 0.1)
    process = myself()
    if process.world.weather.strikes(f"{process.name}/0 poison"):
        await process.die_here()
    return done


TOOLS: dict[str, Any] = {
    "act": _tool("act", 0.5),
    "look": _tool("look", 0.2, read_only=True),
    "push": _tool("push", 0.5, idempotent=True),
    "check": _tool("check", 0.7, verify=verify),
    "slow": _tool("slow", 42.0),
    "crawl": _tool("crawl", 38.0, idempotent=True),
    "poison": tool(_poison, name="poison", description="Kill.", idempotent=True),
    "trip": tool(_trip, name="trip", description="Fail."),
    "pay": _tool("pay", 0.5, approval=True),
    "wire": _tool("wire", 35.0, approval=True),
    "post": _tool("post", 0.5, approval=True, idempotent=True),
    "book": _tool("book", 0.5, approval=True, verify=verify),
    "sign": _tool("sign", 0.5, approval=ApprovalPolicy(expires_after=45)),
    "seal": _tool(
        "seal", 0.5, approval=ApprovalPolicy(expires_after=60, on_expired="stop")
    ),
    "fresh": _tool("fresh", 0.5, approval=ApprovalPolicy(valid_for=15)),
    "fire": _tool("fire", 0.5, approval=ApprovalPolicy(on_denied="stop")),
}
GATED = frozenset(name for name, each in TOOLS.items() if each.approval is not None)
REPEATABLE = frozenset(name for name, each in TOOLS.items() if each.repeatable)


# Models -----------------------------------------------------------------------------


class SimModel:
    """Says the line that a conversation has come to; now and then it fails."""

    name = "simulated"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def reply(self, request: ModelRequest) -> Reply:
        """Note the question, take a while, answer."""
        process = myself()
        world = process.world
        if world.over:
            raise Crash
        await process.gap()
        task = task_of(request.messages)
        turn = sum(message.role == "assistant" for message in request.messages)
        asked = Asked(
            process=process.name,
            run_id=request.run_id,
            task=task,
            turn=turn,
            messages=tuple(message.text for message in request.messages),
            looked=process.looked,
            began=world.moment,
        )
        world.asked.append(asked)
        world.note(process.name, "asks", task, turn)
        if process.throw("die") is not None:
            await process.die_here()
        await asyncio.sleep(0.2 + process.dice.random() * 2)
        if process.throw("die") is not None:
            await process.die_here()
        if process.throw("model") is not None:
            raise ModelError("no answer, this once")
        return Reply(message=_spoken(self._script[task][turn], turn))


def task_of(messages: Sequence[Message]) -> str:
    """Return what a frame was asked to do: it names the frame."""
    return next(message.content for message in messages if message.role == "user")


def _spoken(line: Line, turn: int) -> Message:
    if isinstance(line, str):
        return Message.of({"role": "assistant", "content": line})
    calls = [
        {
            "id": f"call_{turn}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": _written(name, what)},
        }
        for place, (name, what) in enumerate(line)
    ]
    return Message.of({"role": "assistant", "content": None, "tool_calls": calls})


def _written(name: str, what: str) -> str:
    return jsontext.canonical({"what" if name in TOOLS else "input": what})


# Trees ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of agents; its root's task is "go"."""

    name: str
    root: Agent


def _tree(name: str, script: Script, shape: Mapping[str, Any]) -> Tree:
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

    return Tree(name, agent(name, shape))


_ALL: tuple[Tree, ...] = (
    _tree("plain", {"go": [[("act", "1")], "end"]}, {}),
    _tree("turns", {"go": [[("look", "1")], [("push", "2"), ("act", "3")], "end"]}, {}),
    _tree("one", {"go": [[("pay", "1")], "end"]}, {}),
    _tree("mixed", {"go": [[("pay", "1"), ("act", "2"), ("push", "3")], "end"]}, {}),
    _tree("two", {"go": [[("pay", "1")], [("post", "2")], "end"]}, {}),
    _tree(
        "five",
        {
            "go": [
                [(name, name) for name in ("pay", "post", "sign", "book", "pay")],
                "e",
            ]
        },
        {},
    ),
    _tree(
        "deep",
        {
            "go": [[("hr", "A")], "end"],
            "A": [[("desk", "B")], "A end"],
            "B": [[("pay", "1")], "B end"],
        },
        {"hr": {"desk": {}}},
    ),
    _tree(
        "wide",
        {
            "go": [[("left", "A"), ("right", "B")], "end"],
            "A": [[("pay", "1")], "A end"],
            "B": [[("act", "2")], [("post", "3")], "B end"],
        },
        {"left": {}, "right": {}},
    ),
    _tree(
        "gate",
        {"go": [[("clerk", "A")], "end"], "A": [[("act", "1")], "A end"]},
        {"clerk?": {}},
    ),
    _tree("expiry", {"go": [[("sign", "1"), ("act", "2")], "end"]}, {}),
    _tree("seal", {"go": [[("seal", "1"), ("pay", "2")], "end"]}, {}),
    _tree("fresh", {"go": [[("fresh", "1")], "end"]}, {}),
    _tree("fire", {"go": [[("fire", "1"), ("pay", "2")], "end"]}, {}),
    _tree("check", {"go": [[("check", "1")], [("check", "22")], "end"]}, {}),
    _tree("slow", {"go": [[("slow", "1")], "end"]}, {}),
    _tree("crawl", {"go": [[("crawl", "1"), ("look", "2")], "end"]}, {}),
    _tree("wire", {"go": [[("wire", "1"), ("book", "22")], "end"]}, {}),
    _tree("poison", {"go": [[("poison", "1"), ("pay", "2")], "end"]}, {}),
    _tree("trip", {"go": [[("trip", "1"), ("pay", "2")], "end"]}, {}),
)
TREES: dict[str, Tree] = {tree.name: tree for tree in _ALL}


def natural_results() -> frozenset[str]:
    """Return, as JSON, what tools that raise nothing say that they did."""
    return _NATURAL


_NATURAL = frozenset(
    jsontext.canonical(result_of(name, what))
    for name in TOOLS
    if name != "trip"
    for what in ("1", "2", "3", "22", *TOOLS)
)
