"""Three levels of agents whose code changes: boss > manager > clerk.

`TEST_CODE` names the changes, separated by commas; `old` is the first code. As a
program, it takes each code and its store from TEST_STORES, and prints JSON:

- `python -m tests.engine.drift_agents start`: start every run of `SCRIPTS`.
- `... drift`: print the rows of `drift`, and the writes to the store meanwhile.
- `... resume`: resume every run, and print the verdicts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from continuations import (
    Agent,
    ApprovalPolicy,
    ContinuationsError,
    Runner,
    Suspended,
    ToolContext,
    ask,
    open_store,
    tool,
)
from continuations_storage.faults import FaultyStore
from tests import effect_log, scripts
from tests.effect_log import Effect
from tests.engine.agent_builders import should_pause_after
from tests.scripts import Script, call

PAY, PLAIN = call("pay", what="5"), call("plain", what="1")
# One run for each task of the clerk; the run has the name of the task.
CLERK: dict[str, list[Any]] = {
    "open": [[PAY], "paid"],
    "approved": [[PAY], "paid"],
    "denied": [[PAY], "not paid"],
    "edited": [[PAY], "paid"],
    "strict": [[call("wire", what="5")], "wired"],
    "accepted": [[PLAIN, PAY], "done"],
    "asked": [[call("pick", what="a")], "picked"],
    "answered": [[call("pick", what="a")], "picked"],
    "told": [[call("tell", what="a")], "told"],
    "twice": [[PAY, call("wire", what="6")], "both"],
}
SCRIPT: Script = {
    **{f"run {name}": [[call("manager", input=name)], "end"] for name in CLERK},
    **{name: [[call("clerk", input=f"{name} it")], "end"] for name in CLERK},
    **{f"{name} it": lines for name, lines in CLERK.items()},
}
CHANGES = (
    "prompt",
    "description",
    "default",
    "version",
    "fewer",
    "no pay",
    "no plain",
    "plain version",
    "plain asks",
    "no pick",
    "pick version",
    "pick stays",
    "no strictness",
    "no clerk",
    "no manager",
    "clerk is a tool",
    "no boss",
)


def record(name: str, what: str, ctx: ToolContext) -> str:
    """Record the effect of a tool."""
    effect_log.record(Effect.of(name, what, ctx))
    return f"{name} {what}"


def _pay(code: set[str]) -> Any:
    def pay(what: str, ctx: ToolContext) -> str:
        return record("pay", what, ctx)

    def pay_in(what: str, ctx: ToolContext, currency: str = "EUR") -> str:
        return record("pay", f"{what} {currency}", ctx)

    def pay_cents(cents: int, ctx: ToolContext) -> str:
        return record("pay", str(cents), ctx)

    function: Callable[..., str] = pay_in if "default" in code else pay
    function = pay_cents if "fewer" in code else function
    function.__doc__ = "Pay at once." if "description" in code else "Pay."
    version = "2" if "version" in code else None
    return tool(approval=True, name="pay", version=version)(function)


def _plain(code: set[str]) -> Any:
    def plain(what: str, ctx: ToolContext) -> str:
        """Act."""
        return record("plain", what, ctx)

    asks = "plain asks" in code
    version = "2" if "plain version" in code else None
    return tool(approval=asks, version=version)(plain)


def _wire(code: set[str]) -> Any:
    def wire(what: str, ctx: ToolContext) -> str:
        return record("wire", what, ctx)

    wire.__doc__ = "Wire at once." if "description" in code else "Wire."
    policy = ApprovalPolicy(strict="no strictness" not in code)
    return tool(approval=policy)(wire)


def _pick(code: set[str]) -> Any:
    version = "2" if "pick version" in code else None

    @tool(version=version)
    def pick(what: str, ctx: ToolContext) -> Any:
        """Pick."""
        record("pick", what, ctx)
        return ask("Which one?", str)

    if "pick stays" not in code:

        @pick.on_answer
        def picked(answer: str, what: str, ctx: ToolContext) -> str:
            return record("picked", f"{what} {answer}", ctx)

    return pick


@tool
def tell(what: str, ctx: ToolContext) -> Any:
    """Ask a person."""
    record("tell", what, ctx)
    return ask("What is it?", str)


def plain_clerk(input: str) -> str:  # noqa: A002 - the argument of an agent
    """Stand in for the agent."""
    return input


def agents() -> list[Agent]:
    """Return the root agent in the version of the code that TEST_CODE names."""
    code = set(os.environ.get("TEST_CODE", "old").split(","))
    model = scripts.scripted_model(SCRIPT)
    made = {
        "pay": _pay(code),
        "plain": _plain(code),
        "pick": _pick(code),
        "wire": _wire(code),
        "tell": tell,
    }
    tools = [each for name, each in made.items() if f"no {name}" not in code]
    prompt = "You are careful." if "prompt" in code else "You are the clerk."
    clerk: Any = Agent("clerk", instructions=prompt, tools=tools, model=model)
    if "clerk is a tool" in code:
        clerk = tool(name="clerk")(plain_clerk)
    below = [] if "no clerk" in code else [clerk]
    manager = Agent("manager", tools=below, model=model)
    root = "chief" if "no boss" in code else "boss"
    tops = [] if "no manager" in code else [manager]
    return [Agent(root, tools=tops, model=model)]


def main(commands: list[str]) -> None:
    """Run commands on all runs, and print the result."""
    verbs: list[str] = []
    store = FaultyStore(
        open_store(os.environ["TEST_STORE"]), lambda each: verbs.append(each.verb)
    )
    runner = Runner(agents(), store=store)
    result: dict[str, Any] = {}
    if "drift" in commands:
        rows = runner.drift()
        result["rows"] = {
            row.run_id: {
                "verdict": row.verdict,
                "why": [
                    [each.verdict, each.change, "/".join(each.path), each.text]
                    for each in row.why
                ],
            }
            for row in rows
        }
        result["verbs"] = sorted(set(verbs))
    for name in CLERK if "start" in commands else ():
        pause = should_pause_after(6) if name == "accepted" else None
        runner.start(f"run {name}", run_id=name, should_pause=pause)
    if "resume" in commands:
        result["resumed"] = {name: _resumed(runner, name) for name in CLERK}
    sys.stdout.write(json.dumps(result) + "\n")


def _resumed(runner: Runner, run_id: str) -> dict[str, Any]:
    before = {wait.id for wait in runner.look(run_id).waits}
    try:
        outcome = runner.resume(run_id)
    except ContinuationsError as error:
        return {"verdict": "refuse", "raised": type(error).__name__, "text": str(error)}
    if not isinstance(outcome, Suspended):
        return {"verdict": "accept", "notes": []}
    new = [wait for wait in outcome.waits if wait.id not in before]
    verdict = "reopen" if any(wait.note for wait in new) else "accept"
    return {"verdict": verdict, "notes": [wait.note for wait in new]}


if __name__ == "__main__":
    for code, url in json.loads(os.environ["TEST_STORES"]).items():
        os.environ.update(TEST_CODE=code, TEST_STORE=url)
        main(sys.argv[1].split(","))
