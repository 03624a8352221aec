"""DBOS's agent inbox: agents wait for a person, and an inbox lists and answers them.

    python examples/ported/agent_inbox.py          # all steps, in memory

    python examples/ported/agent_inbox.py FOLDER start ada "a flight"
    python examples/ported/agent_inbox.py FOLDER list

    python examples/ported/agent_inbox.py FOLDER confirm ada
    python examples/ported/agent_inbox.py FOLDER sweep

With a folder, each step is a process. `deny` may stand in place of `confirm`.
"""

import sys
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel

from continuations import Agent, Answer, Flow, Runner, RunSummary, ask, workflow
from continuations.errors import CallExpired
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel

# The ported program -------------------------------------------------------------------


class AgentStatus(BaseModel):
    """An agent as the inbox shows it."""

    agent_id: str
    task: str
    status: str
    created_at: str
    question: str = ""


def scripted_reply(request: ModelRequest) -> str:
    """Return the reply of the model, so that the example runs without an API key."""
    text = str(request.messages[-1].content)
    print(f"model: {text}")
    return f"[{text}]"


assistant = Agent("assistant", model=ScriptedModel(scripted_reply))


@workflow(agents=[assistant])
async def durable_agent(flow: Flow, task: str) -> str:
    """Work on a task, and ask a person before the important step."""
    plan = await flow.call(assistant, f"Plan: {task}")
    try:
        response: Literal["confirm", "deny"] = await ask(
            f"May I carry out {plan}?",
            Literal["confirm", "deny"],
            within=timedelta(hours=1),
        )
    except CallExpired:
        raise TimeoutError("nobody has answered in time") from None
    if response == "deny":
        raise PermissionError("a person denied the task")
    return await flow.call(assistant, f"Carry out: {task}")


def start_agent(runner: Runner, name: str, task: str) -> None:
    """Start an agent."""
    runner.start(durable_agent.bind(task), run_id=name, title=task)


def list_waiting_agents(runner: Runner) -> list[AgentStatus]:
    """Return the agents that ask a person, with their questions."""
    questions = {wait.run_id: wait.id for wait in runner.waiting()}
    return [
        _status(run, runner.wait(questions[run.run_id]).question or "")
        for run in runner.runs(agent="durable_agent", status="suspended")
        if run.run_id in questions
    ]


def list_approved_agents(runner: Runner) -> list[AgentStatus]:
    """Return the agents that have finished."""
    return [*map(_status, runner.runs(agent="durable_agent", status="finished"))]


def list_denied_agents(runner: Runner) -> list[AgentStatus]:
    """Return the agents that were denied, or had no answer in time."""
    return [*map(_status, runner.runs(agent="durable_agent", status="failed"))]


def respond_to_agent(runner: Runner, name: str, response: str) -> None:
    """Answer the question of an agent."""
    [wait] = [wait for wait in runner.waiting() if wait.run_id == name]
    runner.decide(wait.id, Answer(response, by="kim"))


def _status(run: RunSummary, question: str = "") -> AgentStatus:
    return AgentStatus(
        agent_id=run.run_id,
        task=run.title or "",
        status=run.status,
        created_at=str(run.created_at),
        question=question,
    )


# The steps ----------------------------------------------------------------------------


def print_inbox(runner: Runner) -> None:
    """Print all agents."""
    for agent in list_waiting_agents(runner):
        print(f"{agent.agent_id} asks: {agent.question}")
    for agent in (*list_approved_agents(runner), *list_denied_agents(runner)):
        print(f"{agent.agent_id} {agent.status}: {agent.task}")


def run_all_steps(runner: Runner) -> None:
    """Start three agents, and answer two of them."""
    for name, task in (("ada", "a flight"), ("bob", "a hotel"), ("cleo", "a car")):
        start_agent(runner, name, task)
    print_inbox(runner)
    respond_to_agent(runner, "ada", "confirm")
    respond_to_agent(runner, "bob", "deny")
    runner.sweep()
    print_inbox(runner)


def main() -> None:
    """Run one step in a folder, or all steps in memory."""
    match sys.argv[1:]:
        case []:
            run_all_steps(Runner(durable_agent, store="memory:"))
        case [folder, *step]:
            runner = Runner(durable_agent, store=f"sqlite:{folder}/runs.db")
            match step:
                case ["start", name, task]:
                    start_agent(runner, name, task)
                case ["list"]:
                    print_inbox(runner)
                case ["confirm" | "deny" as response, name]:
                    respond_to_agent(runner, name, response)
                case ["sweep"]:
                    runner.sweep()
                case _:
                    sys.exit(__doc__)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
