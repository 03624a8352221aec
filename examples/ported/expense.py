"""Temporal's expense sample: create a report, wait for a decision, pay.

    python examples/ported/expense.py              # all steps, in memory

    python examples/ported/expense.py FOLDER start E-7
    python examples/ported/expense.py FOLDER approve E-7

    python examples/ported/expense.py FOLDER resume E-7

With a folder, each step is a process. `reject` may stand in place of `approve`.
"""

import sys
from datetime import timedelta

from continuations import Flow, Outcome, Runner, Suspended, tool, wait_for, workflow
from continuations_storage import Store

# The ported program -------------------------------------------------------------------


@tool(idempotent=True, timeout=timedelta(seconds=10), retries=2)
def create_expense(expense_id: str) -> None:
    """Create an expense report in the expense system."""
    if not expense_id:
        raise ValueError("the id of the expense is empty")
    print(f"created {expense_id}")


@tool(timeout=timedelta(seconds=10))
def register_for_decision(expense_id: str) -> None:
    """Have the expense system send a signal once a person has decided."""
    print(f"registered {expense_id}")


@tool(idempotent=True, timeout=timedelta(seconds=10), retries=2)
def pay_expense(expense_id: str) -> None:
    """Pay an expense."""
    print(f"paid {expense_id}")


@workflow(tools=[create_expense, register_for_decision, pay_expense])
async def expense(flow: Flow, expense_id: str) -> str:
    """Create an expense report, wait for a decision, and pay."""
    await flow.call(create_expense, expense_id)
    await flow.call(register_for_decision, expense_id)
    status: str = await wait_for("decision", str, within=timedelta(minutes=10))
    if status != "APPROVED":
        return ""
    await flow.call(pay_expense, expense_id)
    return "COMPLETED"


# The steps ----------------------------------------------------------------------------


def make_runner(store: str | Store) -> Runner:
    """Return the runner of a new process."""
    return Runner(expense, store=store)


def print_outcome(outcome: Outcome) -> None:
    """Print the result, or the events that the run waits for."""
    if isinstance(outcome, Suspended):
        print(f"{outcome.run_id} waits for: {outcome.waits[0].event}")
    else:
        print(f"{outcome.run_id}: {outcome.result()!r}")


def run_step(runner: Runner, step: str, expense_id: str) -> None:
    """Run one step of one expense."""
    match step:
        case "start":
            bound = expense.bind(expense_id)
            print_outcome(runner.start(bound, run_id=expense_id))
        case "approve":
            runner.signal(expense_id, "decision", "APPROVED", by="kim")
        case "reject":
            runner.signal(expense_id, "decision", "REJECTED", by="kim")
        case "resume":
            print_outcome(runner.resume(expense_id))
        case _:
            sys.exit(__doc__)


def main() -> None:
    """Run one step in a folder, or all steps in memory."""
    match sys.argv[1:]:
        case []:
            runner = make_runner("memory:")
            for step in ("start", "approve", "resume"):
                run_step(runner, step, "E-7")
        case [folder, step, expense_id]:
            run_step(make_runner(f"sqlite:{folder}/runs.db"), step, expense_id)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
