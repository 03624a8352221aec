"""The type of an agent's output reaches `Finished.output`; without one, it is `Any`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_type

from continuations import (
    Agent,
    AsyncRunner,
    Failed,
    Finished,
    Outcome,
    Runner,
    Suspended,
    resume,
    run,
)
from continuations.aio import run as run_async


@dataclass
class Claim:
    """A typed output."""

    cents: int


def instructions(task: str, context: object) -> str:
    return f"{task} {context}"


clerk = Agent("clerk", output_type=Claim, context_type=str, output_retries=2)
talker = Agent("talker", instructions=instructions, settings={"temperature": 0})
assert_type(clerk, Agent[Claim])
assert_type(talker, Agent[Any])
assert_type(Agent("numbers", output_type=list[int]), Agent[list[int]])
assert_type(Agent("maybe", output_type=int | None), Agent[Any])
assert_type(Agent("one", output_type=Literal["a", "b"]), Agent[Any])
assert_type(Agent("positive", output_type=Annotated[int, 1]), Agent[Any])

# Without a parameter, a type has any output.
agents: list[Agent] = [clerk, talker]
boss: Agent = Agent("boss", tools=lambda: [boss, clerk, talker])


def of(agent: Agent) -> Runner:
    return Runner(agent, store="memory:")


def total(outcome: Finished) -> int:
    return int(outcome.output)


def with_a_store() -> None:
    runner = Runner(clerk, store="memory:")
    for outcome in (runner.start("go"), runner.resume("r1")):
        assert_type(outcome, Finished[Claim] | Suspended | Failed)
        if isinstance(outcome, Finished):
            assert_type(outcome.output, Claim)
    several = Runner(agents, store="memory:").start("go")
    if isinstance(several, Finished):
        assert_type(several.output, Any)
    nobody = Runner([], store="memory:")
    assert_type(nobody, Runner[Any])
    listed = Runner([clerk, talker], store="memory:")
    assert_type(listed, Runner[Any])


def without_a_store(data: bytes) -> None:
    outcome = run(clerk, "go")
    if isinstance(outcome, Finished):
        assert_type(outcome.output, Claim)
    again = resume(data, clerk)
    match again:
        case Finished():
            assert_type(again.output, Claim)
        case Suspended() | Failed():
            print(again.run_id)
    text: Outcome = run(talker, "go")
    if isinstance(text, Finished):
        assert_type(text.output, Any)


async def asynchronously() -> None:
    outcome = await AsyncRunner(clerk, store="memory:").start("go")
    if isinstance(outcome, Finished):
        assert_type(outcome.output, Claim)
    outcome = await run_async(clerk, "go")
    if isinstance(outcome, Finished):
        assert_type(outcome.output, Claim)
