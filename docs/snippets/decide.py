"""Tutorial, step 2: decide without the agents and without a model client."""

from continuations import Approve, Runner

runner = Runner([], store="sqlite:runs.db")
for summary in runner.waiting():
    wait = runner.wait(summary.id)
    print(wait.tool, wait.arguments)
    runner.decide(wait.id, Approve(by="kim@example.com"))
