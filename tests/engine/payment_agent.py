"""An agent of this process that pays under a policy."""

from __future__ import annotations

from typing import Any

from continuations import Runner, ToolContext, Wait, tool
from continuations_storage import MemoryStore
from tests import effect_log
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import single_wait
from tests.scripts import Script, call

ONE_PAY_SCRIPT: Script = {"go": [[call("pay")], "end"]}
PAY_SCRIPT: Script = {"go": [[call("pay", cents=5)], "end"]}
pay = text_tool("pay", "paid", logs=True, approval=True)


def make_pay_tool(policy: Any = True) -> Any:
    """Return the tool `pay` with a policy."""

    def pay(cents: int, ctx: ToolContext, to: str = "kim") -> str:
        """Pay."""
        effect_log.append_effect("pay", f"{cents} {to}", run=ctx.run_id)
        return f"paid {cents} to {to}"

    return tool(pay, approval=policy)


def start_and_get_wait(runner: Runner, run_id: str = "r1") -> Wait:
    return single_wait(runner.start("go", run_id=run_id))


def make_payment_runner(
    policy: object = True, script: Script = PAY_SCRIPT, **options: Any
) -> Runner:
    """Return a runner of an agent that pays under a policy."""
    options.setdefault("store", MemoryStore())
    return Runner(make_boss(script, make_pay_tool(policy)), **options)
