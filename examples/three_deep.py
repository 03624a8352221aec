"""Three agents deep: an orchestrator calls HR, HR calls accounts, a person decides.

Accounts wants to transfer money (level three), HR wants to grant access (level two).
Both calls wait in one suspended run.

    python examples/three_deep.py        the whole demonstration (three_deep_demo.py)

Or run the commands by hand. Each one is a separate process; the state is in `.demo`:

    start                  start the run; the process exits when people must decide
    waiting                list the open waits
    show onboard-jane      print the stack of agents and calls
    approve WAIT           approve one call, or: deny WAIT
    resume onboard-jane    continue the run with the recorded decisions

You can kill any of these processes (SIGKILL) at any time. Repeat its command with
--wait-if-busy, which waits until the claim of the dead process ends. If the process
died during a transfer, the outcome of the transfer is unknown, and the run waits for a
person. Look into .demo/effects.txt and settle the wait:

    answer WAIT RESULT     the transfer happened, with this result
    approve WAIT           it did not happen: run it now
    deny WAIT              it did not happen: do not run it

With OPENAI_API_KEY set, the agents use the real API, otherwise scripted_api.py.
"""

import argparse
import os
import runpy
import subprocess
import sys
import textwrap
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
    Runner,
    ToolContext,
    tool,
)
from continuations.errors import RunBusy, StaleRun

HERE = Path(__file__).parent
RUN_ID = "onboard-jane"
TASK = (
    "Jane Doe starts on Monday. Pay her the welcome bonus of 500.00 EUR and give her "
    "access to the payroll system."
)
APPROVER = "kim@example.com"

# The agents ---------------------------------------------------------------------


def record_effect(ctx: ToolContext, effect: str) -> str:
    """Append an effect to the file in the run's context, in place of a real system."""
    with ctx.context.open("a") as file:
        file.write(f"{ctx.call_id} {effect}\n")
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
    "make the transfer that you are asked for. Report the result of the tool.",
    tools=[balance, transfer],
    model=MODEL,
)
hr = Agent(
    "hr",
    instructions="You are HR. In your first turn call both tools in parallel: "
    "accounts, to pay the bonus, and grant_access. Do not repeat a call that was "
    "denied. Report what was done and what was not.",
    tools=[accounts, grant_access],
    model=MODEL,
)
orchestrator = Agent(
    "orchestrator",
    instructions="You are the orchestrator. Pass the whole task to hr in one call, "
    "with every name, amount and system in it. Report what was done and what was not.",
    tools=[hr],
    model=MODEL,
)

# The commands -------------------------------------------------------------------


def start_or_resume(options: argparse.Namespace) -> None:
    """Start or resume the run and print its outcome."""
    if options.offline:
        start_scripted_api()
    # A short lease, so that a killed process blocks the run for a few seconds only.
    runner = Runner(orchestrator, store=options.store, lease=options.lease)
    while True:
        try:
            if options.command == ["start"]:
                outcome = runner.start(TASK, run_id=RUN_ID, context=options.effects)
            else:
                outcome = runner.resume(options.command[1], context=options.effects)
            break
        except (RunBusy, StaleRun):
            if not options.wait_if_busy:
                raise
            time.sleep(0.2)
    print_outcome(outcome)


def print_outcome(outcome: Outcome) -> None:
    """Print the output of a finished run, or the waits of a suspended one."""
    match outcome:
        case Finished():
            print("Finished")
            print(textwrap.indent(textwrap.fill(outcome.output, 88), "  "))
        case Failed():
            sys.exit(f"Failed: {outcome.error.message}")
        case _:
            print(f"Suspended: {outcome.run_id} waits for")
            for wait in outcome.waits:
                print(f"  {' > '.join(wait.path)} ({wait.kind})")
                print(f"    {wait.arguments}")


def print_waits(runner: Runner) -> None:
    """Print every open wait of the store."""
    for summary in runner.waiting():
        wait = runner.wait(summary.id)
        print(f"{wait.id}  {wait.kind}: {' > '.join(wait.path)} {wait.arguments}")


def print_frame(frame: Frame, indent: str = "") -> None:
    """Print a frame, its calls, and the frames of the sub-agents below them."""
    print(f"{indent}{frame.agent} ({len(frame.messages)} messages)")
    for call in frame.calls:
        print(f"{indent}  calls {call.tool} {call.arguments}: {call.state}")
        if call.wait is not None:
            print(f"{indent}    wait {call.wait.id}")
        if call.frame is not None:
            print_frame(call.frame, indent + "    ")


def start_scripted_api() -> None:
    """Start the scripted API in a process that exits together with this one."""
    server = subprocess.Popen(
        [sys.executable, HERE / "scripted_api.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.environ["OPENAI_BASE_URL"] = next(iter(server.stdout or ())).strip()
    os.environ["OPENAI_API_KEY"] = "offline"


def run_command(options: argparse.Namespace) -> None:
    """Run one command."""
    # Listing, showing and deciding need no agents and no model.
    runner = Runner([], store=options.store)
    match options.command:
        case ["start"] | ["resume", _]:
            start_or_resume(options)
        case ["waiting"]:
            print_waits(runner)
        case ["show", run_id]:
            print_frame(runner.look(run_id).root)
        case ["approve", wait_id]:
            runner.decide(wait_id, Approve(by=APPROVER))
            print("Approval recorded")
        case ["deny", wait_id]:
            reason = "Access to payroll needs a training first."
            runner.decide(wait_id, Deny(by=APPROVER, reason=reason))
            print("Denial recorded")
        case ["answer", wait_id, result]:
            runner.decide(wait_id, Answer(result, by=APPROVER))
            print("Answer recorded")
        case _:
            sys.exit(__doc__)


def main() -> None:
    """Read the command line; without a command, run the whole demonstration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND")
    parser.add_argument("--store", default="sqlite:.demo/runs.db", metavar="URL")
    parser.add_argument(
        "--effects", type=Path, default=Path(".demo/effects.txt"), metavar="FILE"
    )
    parser.add_argument("--lease", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument(
        "--wait-if-busy",
        action="store_true",
        help="wait while another process holds the claim on the run",
    )
    parser.add_argument(
        "--offline",
        action="store_true",
        default="OPENAI_API_KEY" not in os.environ,
        help="use scripted_api.py also if OPENAI_API_KEY is set",
    )
    options = parser.parse_intermixed_args()
    if not options.command:
        runpy.run_path(str(HERE / "three_deep_demo.py"), run_name="__main__")
        return
    try:
        run_command(options)
    except ContinuationsError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
