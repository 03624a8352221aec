"""Three agents deep: an orchestrator asks HR, HR asks accounts, and two people decide.

Accounts wants to transfer money (the third level), HR wants to grant access (the
second). Both calls wait in one paused run.

    python examples/three_deep.py        the whole demonstration (see three_deep_demo.py)

By hand, each command being a process of its own (the state is in the folder .demo):

    start                  begin the run; the process ends where people are needed
    waiting                list what waits
    show onboard-jane      draw the paused stack of agents
    approve WAIT           or: deny WAIT
    resume onboard-jane    go on with what was decided

Kill any of them (SIGKILL) at any moment and repeat its command with --wait-if-busy, which waits
for the claim of the dead process to end. If it died in the middle of a transfer, then
nobody can know whether that happened: the run comes back with a wait that says so.
Look into the ledger and settle it:

    answer WAIT RESULT     it did happen, and this was its result
    approve WAIT           it did not, run it
    deny WAIT              it did not, leave it

With OPENAI_API_KEY the agents run on the real API, otherwise on scripted_api.py.
"""

import argparse
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

from continuations import (
    Agent,
    Answer,
    Approve,
    ContinuationsError,
    Deny,
    Failed,
    Finished,
    Frame,
    Outcome,
    RunBusy,
    Runner,
    StaleRun,
    ToolContext,
    tool,
)

HERE = Path(__file__).parent
RUN = "onboard-jane"
TASK = (
    "Jane Doe starts on Monday. Pay her the welcome bonus of 500.00 EUR and give her "
    "access to the payroll system."
)

# The agents ---------------------------------------------------------------------


def record_effect(ctx: ToolContext, effect: str) -> str:
    """Write an effect into the ledger, which stands for the world outside."""
    with ctx.context.open("a") as ledger:
        ledger.write(f"{ctx.call_id} {effect}\n")
    return effect


@tool(read_only=True)
def balance(account: str) -> str:
    """Return the balance of an account."""
    return f"Account {account} holds 8000.00 EUR."


@tool(approval=True)
def transfer(recipient: str, cents: int, ctx: ToolContext) -> str:
    """Transfer money from the account "bonuses" to a person."""
    return record_effect(ctx, f"Transferred {cents / 100:.2f} EUR to {recipient}.")


@tool(approval=True)
def grant_access(person: str, system: str, ctx: ToolContext) -> str:
    """Give a person access to a system."""
    return record_effect(ctx, f"Granted {person} access to {system}.")


MODEL = "gpt-5-mini"
accounts = Agent(
    "accounts",
    instructions="You are accounts. Look up the balance of the account 'bonuses', then "
    "transfer what you are asked to. Report what the tool said.",
    tools=[balance, transfer],
    model=MODEL,
)
hr = Agent(
    "hr",
    instructions="You are HR. In your first turn call both tools, side by side: "
    "accounts, to have the bonus paid, and grant_access. What is refused stays "
    "refused: do not ask for it again. Report what was done and what was not.",
    tools=[accounts, grant_access],
    model=MODEL,
)
orchestrator = Agent(
    "orchestrator",
    instructions="You are the orchestrator. Hand the whole task to hr in one call, "
    "with every name, amount and system in it. Report what was done and what was not.",
    tools=[hr],
    model=MODEL,
)

# The commands -------------------------------------------------------------------


def start_or_resume(options: argparse.Namespace) -> None:
    """Start or resume the run, and say how it stands."""
    if options.offline:
        start_scripted_api()
    # A short lease, so that little time is lost if a process is killed.
    runner = Runner(orchestrator, store=options.store, lease=options.lease)
    while True:
        try:
            if options.words == ["start"]:
                outcome = runner.start(TASK, run_id=RUN, context=options.ledger)
            else:
                outcome = runner.resume(options.words[1], context=options.ledger)
            break
        except (RunBusy, StaleRun):
            if not options.wait_if_busy:
                raise
            time.sleep(0.2)
    print_outcome(outcome)


def print_outcome(outcome: Outcome) -> None:
    """Print the outcome's name and what it brings."""
    match outcome:
        case Finished():
            print(f"Finished: {outcome.output}")
        case Failed():
            sys.exit(f"Failed: {outcome.error.message}")
        case _:
            print(f"Suspended: {outcome.run_id} waits for")
            for wait in outcome.waits:
                print(f"  {' > '.join(wait.path)} {wait.arguments} ({wait.kind})")


def print_waits(runner: Runner) -> None:
    """Print what waits in the whole store."""
    for summary in runner.waiting():
        wait = runner.wait(summary.id)
        print(f"{wait.id}  {wait.kind}: {' > '.join(wait.path)} {wait.arguments}")


def print_frame(frame: Frame, indent: str = "") -> None:
    """Print a paused agent, its calls, and the agents that these are in."""
    print(f"{indent}{frame.agent} ({len(frame.messages)} messages)")
    for call in frame.calls:
        print(f"{indent}  calls {call.tool} {call.arguments}: {call.state}")
        if call.wait is not None:
            print(f"{indent}    for {call.wait.id}")
        if call.frame is not None:
            print_frame(call.frame, indent + "    ")


def start_scripted_api() -> None:
    """Start the scripted API in a process that ends with this one."""
    server = subprocess.Popen(
        [sys.executable, HERE / "scripted_api.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.environ["OPENAI_BASE_URL"] = next(iter(server.stdout or ())).strip()
    os.environ["OPENAI_API_KEY"] = "offline"


def run_command(options: argparse.Namespace) -> None:
    """Do what the command line says."""
    # To list, look and decide takes no agents and no model.
    desk = Runner([], store=options.store)
    match options.words:
        case ["start"] | ["resume", _]:
            start_or_resume(options)
        case ["waiting"]:
            print_waits(desk)
        case ["show", run]:
            print_frame(desk.look(run).root)
        case ["approve", wait]:
            desk.decide(wait, Approve(by="kim@example.com"))
            print("Approve: recorded")
        case ["deny", wait]:
            why = "Access to payroll needs a training first."
            desk.decide(wait, Deny(by="kim@example.com", reason=why))
            print("Deny: recorded")
        case ["answer", wait, result]:
            desk.decide(wait, Answer(result, by="kim@example.com"))
            print("Answer: recorded")
        case _:
            sys.exit(__doc__)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND")
    parser.add_argument("--store", default="file:.demo/runs")
    parser.add_argument("--ledger", type=Path, default=Path(".demo/ledger.txt"))
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument(
        "--wait-if-busy", action="store_true", help="while the run is busy"
    )
    parser.add_argument(
        "--offline", action="store_true", default="OPENAI_API_KEY" not in os.environ
    )
    options = parser.parse_intermixed_args()
    if not options.words:
        runpy.run_path(str(HERE / "three_deep_demo.py"), run_name="__main__")
        return
    try:
        run_command(options)
    except ContinuationsError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
