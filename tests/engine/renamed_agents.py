"""Three levels of agents under old or new names: boss > manager > clerk > pay.

`TEST_CODE` has `new` for the new names, and further words for other changes.
"""

from __future__ import annotations

import os
from typing import Any

from continuations import Agent, ApprovalPolicy, ToolContext, ask, tool
from tests import effect_log, scripts
from tests.effect_log import Effect
from tests.scripts import Script, call

RENAMED = {
    "boss": "chief",
    "manager": "lead",
    "clerk": "bookkeeper",
    "pay": "transfer",
    "wire": "send",
    "pick": "choose",
}


def agents() -> list[Agent]:
    code = os.environ.get("TEST_CODE", "old").split(",")

    def name(old: str) -> str:
        return RENAMED[old] if "new" in code else old

    def pay(what: str, ctx: ToolContext) -> str:
        """Pay."""
        effect_log.record(Effect.of(name("pay"), what, ctx))
        return f"paid {what}"

    def pay_in(what: str, ctx: ToolContext, currency: str = "EUR") -> str:
        """Pay in a currency."""
        return pay(f"{what} {currency}", ctx)

    def wire(what: str, ctx: ToolContext) -> str:
        effect_log.record(Effect.of(name("wire"), what, ctx))
        return f"wired {what}"

    wire.__doc__ = "Wire at once." if "description" in code else "Wire."

    @tool(name=name("pick"))
    def pick(what: str, ctx: ToolContext) -> Any:
        """Pick."""
        return ask(f"Which {what} for {ctx.run_id}?", str)

    @pick.on_answer
    def picked(answer: str, what: str, ctx: ToolContext) -> str:
        effect_log.record(Effect.of(name("pick"), f"{what} {answer}", ctx))
        return answer

    function: Any = pay_in if "schema" in code else pay
    model = scripts.scripted_model(script(name))
    tools = [
        tool(approval=True, name=name("pay"))(function),
        tool(approval=ApprovalPolicy(strict=True), name=name("wire"))(wire),
        pick,
    ]
    clerk = Agent(name("clerk"), tools=tools, model=model)
    manager = Agent(name("manager"), tools=[clerk], model=model)
    return [Agent(name("boss"), tools=[manager], model=model)]


def script(name: Any) -> Script:
    """Return the script; only the first turns of a run have the old names."""
    first = [call("pay", what="5"), call("wire", what="6"), call("pick", what="7")]
    return {
        "go": [[call("manager", input="a task")], "end"],
        "a task": [[call("clerk", input="its part")], "done"],
        "its part": [first, [call(name("pay"), what="8")], "paid"],
    }
