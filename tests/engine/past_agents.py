"""Agents three deep whose tools pay, send mail, read and ask; for forks and rewinds."""

from __future__ import annotations

from typing import Any

from continuations import Agent, ApprovalPolicy, Runner, ToolContext, Wait, ask, tool
from tests import scripts
from tests.effect_log import Effect, record
from tests.engine.agent_builders import text_tool
from tests.scripts import Script, call

RUN_ID = "r"
# The clerk sends mail, reads, then pays after an approval, then sends mail.
SCRIPT: Script = {
    "go": [[call("office", input="O")], "all done"],
    "O": [[call("clerk", input="C")], "office done"],
    "C": [
        [call("mail", what="first"), call("read", what="file")],
        [call("pay", what="rent")],
        [call("mail", what="second")],
        "clerk done",
    ],
}

pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)


@tool(approval=ApprovalPolicy(votes=2, not_requester=True))
def wire(what: str, ctx: ToolContext) -> str:
    """Send money."""
    record(Effect.of("wire", what, ctx))
    return f"sent {what}"


mail = text_tool("mail", "mailed {what}", {"what": str}, logs=True)
book = text_tool("book", "booked {what}", {"what": str}, logs=True, idempotent=True)
read = text_tool("read", "read {what}", {"what": str}, logs=True, read_only=True)


@tool
def choose(what: str, ctx: ToolContext) -> Any:
    """Ask a person."""
    record(Effect.of("choose", what, ctx))
    return ask(f"Which {what}?")


def three_deep(script: Script = SCRIPT) -> Agent:
    """Return boss > office > clerk."""
    model = scripts.scripted_model(script)
    tools = [pay, wire, mail, book, read, choose]
    clerk = Agent("clerk", tools=tools, model=model)
    office = Agent("office", tools=[clerk], model=model)
    return Agent("boss", tools=[office], model=model)


def agents() -> list[Agent]:
    return [three_deep(scripts.of_environment())]


def version_with(runner: Runner, tool_name: str, state: str, run: str = RUN_ID) -> int:
    """Return the first version in which a call of a tool is in a state."""
    for version in runner.history(run):
        shown = runner.look(run, version=version.number)
        frames = [shown.root]
        for frame in frames:
            for each in frame.calls:
                if (each.tool, each.state) == (tool_name, state):
                    return version.number
                if each.frame is not None:
                    frames.append(each.frame)
    msg = f"no version has a call of {tool_name} that is {state}"
    raise AssertionError(msg)


def only_wait(runner: Runner, run: str = RUN_ID) -> Wait:
    (wait,) = runner.look(run).waits
    return wait
