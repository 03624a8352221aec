"""boss > hr > clerk, each of which a condition suspends; the clerk's payment waits."""

from __future__ import annotations

from continuations import Agent, after, every
from continuations.tools import AgentProgress
from tests import scripts
from tests.engine.agent_builders import text_tool
from tests.scripts import Script

# Turns: boss 3, hr 3, clerk 4.
SCRIPT: Script = {
    "go": [[scripts.call("act", what="1")], [scripts.call("hr", input="A")], "all"],
    "A": [[scripts.call("act", what="2")], [scripts.call("clerk", input="B")], "hr"],
    "B": [
        [scripts.call("act", what="3"), scripts.call("pay", what="4")],
        [scripts.call("act", what="5")],
        [scripts.call("act", what="6")],
        "clerk",
    ],
}
EFFECTS = ["act 1", "act 2", "act 3", "act 5", "act 6", "pay 4"]

act = text_tool("act", "acted {what}", {"what": str}, logs=True)
pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)


def last_turn(progress: AgentProgress) -> str | None:
    """Suspend before the third turn of all."""
    return "two turns" if progress.all_turns == 2 else None


def agents() -> list[Agent]:
    model = scripts.scripted_model(scripts.of_environment())
    clerk = Agent("clerk", tools=[act, pay], model=model, suspend_when=[every(turns=2)])
    hr = Agent("hr", tools=[clerk, act], model=model, suspend_when=[last_turn])
    return [
        Agent("boss", tools=[hr, act], model=model, suspend_when=[after(minutes=2)])
    ]
