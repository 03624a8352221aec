"""LangGraph's essay of the functional API: write an essay, and wait for a review.

    python examples/ported/essay.py                # all steps, in memory

    python examples/ported/essay.py FOLDER start
    python examples/ported/essay.py FOLDER approve
    python examples/ported/essay.py FOLDER resume

With a folder, each step is a process. `reject` may stand in place of `approve`.
"""

import sys

from continuations import Answer, Flow, Outcome, Runner, Suspended, ask, tool, workflow

RUN_ID = "essay-1"

# The ported program -------------------------------------------------------------------


@tool
def write_essay(topic: str) -> str:
    """Write an essay about a topic."""
    print(f"wrote about {topic}")
    return f"All about {topic}."


@workflow(tools=[write_essay])
async def reviewed_essay(flow: Flow, topic: str) -> dict[str, str | bool]:
    """Write an essay, and ask a person for a review."""
    essay = await flow.call(write_essay, topic)
    is_approved = await ask(f"Is this essay good? {essay}", bool)
    return {"essay": essay, "is_approved": is_approved}


def start(runner: Runner) -> Outcome:
    """Write the essay."""
    return runner.start(reviewed_essay.bind("cats"), run_id=RUN_ID)


def review(runner: Runner, *, is_approved: bool) -> None:
    """Give the review."""
    [wait] = runner.waiting()
    runner.decide(wait.id, Answer(is_approved, by="kim"))


# The steps ----------------------------------------------------------------------------


def print_outcome(outcome: Outcome) -> None:
    """Print the result, or the question that the run asks."""
    if isinstance(outcome, Suspended):
        print(outcome.waits[0].question)
    else:
        print(outcome.result())


def run_step(runner: Runner, step: str) -> None:
    """Run one step."""
    match step:
        case "start":
            print_outcome(start(runner))
        case "approve" | "reject":
            review(runner, is_approved=step == "approve")
        case "resume":
            print_outcome(runner.resume(RUN_ID))
        case _:
            sys.exit(__doc__)


def main() -> None:
    """Run one step in a folder, or all steps in memory."""
    match sys.argv[1:]:
        case []:
            runner = Runner(reviewed_essay, store="memory:")
            for step in ("start", "approve", "resume"):
                run_step(runner, step)
        case [folder, step]:
            run_step(Runner(reviewed_essay, store=f"sqlite:{folder}/runs.db"), step)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
