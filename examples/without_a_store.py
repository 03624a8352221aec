"""No store: the continuation is a value in a table of your own database.

    python examples/without_a_store.py             # all steps, in a temporary folder

    python examples/without_a_store.py start       # or step by step, in this folder
    python examples/without_a_store.py approve 1

A store guarantees that one process at a time resumes a run, and that a run survives a
crash during a call. Without a store, your database must do this. Here one UPDATE
claims the row; a process that does not get the row does nothing.

With OPENAI_API_KEY set, the agent uses the real model, otherwise a scripted one.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from continuations import (
    Agent,
    Approve,
    Continuation,
    Finished,
    Outcome,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

SENT = Path("sent.txt")  # in place of a mail server
TABLE = """CREATE TABLE IF NOT EXISTS task (
    id INTEGER PRIMARY KEY, state TEXT NOT NULL, continuation BLOB NOT NULL)"""


@tool(approval=True)
def send_mail(to: str, text: str) -> str:
    """Send an e-mail."""
    with SENT.open("a") as file:
        file.write(f"{to}: {text}\n")
    return f"Sent to {to}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the model's next message, so that the example runs without an API key."""
    last = request.messages[-1]
    if last.role == "user":
        return ToolCall("send_mail", {"to": "Jane", "text": "Welcome!"})
    return f"Done. {last.content}"


writer = Agent(
    "writer",
    instructions="You write one short e-mail and send it.",
    tools=[send_mail],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)


def start(database: sqlite3.Connection) -> None:
    """Run until a person must decide, and store the continuation in a row."""
    outcome = run(writer, "Welcome Jane to the team.")
    row = (task_state(outcome), outcome.continuation.to_bytes())
    with database:
        cursor = database.execute(
            "INSERT INTO task (state, continuation) VALUES (?, ?)", row
        )
    print(f"{type(outcome).__name__}: task {cursor.lastrowid}, {len(row[1])} bytes")


def approve(database: sqlite3.Connection, task_id: int) -> None:
    """Approve every wait of a task and resume it."""
    # Claim the row before the resume, and only if the task waits: of two simultaneous
    # processes, one updates the row. If that process dies, the row stays 'claimed' and
    # a person must find out which calls ran.
    with database:
        claim = database.execute(
            "UPDATE task SET state = 'claimed' WHERE id = ? AND state = 'waiting'",
            (task_id,),
        )
    if claim.rowcount != 1:
        print(f"Task {task_id} is not waiting; nothing was done.")
        return
    select = "SELECT continuation FROM task WHERE id = ?"
    (data,) = database.execute(select, (task_id,)).fetchone()
    waits = Continuation.from_bytes(data).waits
    answers = {wait.id: Approve(by="kim@example.com") for wait in waits}
    outcome = resume(data, writer, answers=answers)
    row = (task_state(outcome), outcome.continuation.to_bytes(), task_id)
    with database:
        database.execute(
            "UPDATE task SET state = ?, continuation = ? WHERE id = ?", row
        )
    output = outcome.output if isinstance(outcome, Finished) else ""
    print(f"{type(outcome).__name__}: task {task_id}. {output}")


def task_state(outcome: Outcome) -> str:
    """Return the value of the column `state` for an outcome."""
    return "waiting" if isinstance(outcome, Suspended) else "done"


def run_all_steps() -> None:
    """Start a task, approve it in two simultaneous processes, and check one e-mail."""
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, __file__]
        subprocess.run([*python, "start"], cwd=folder, check=True)
        approve = [*python, "approve", "1"]
        both = [subprocess.Popen(approve, cwd=folder) for _ in range(2)]
        exit_codes = [process.wait() for process in both]
        sent = (Path(folder) / SENT).read_text()
    print(f"Sent: {sent.rstrip()}")
    if exit_codes != [0, 0] or len(sent.splitlines()) != 1:
        sys.exit("Expected one e-mail.")


def main() -> None:
    """Run one step, or all of them."""
    if not sys.argv[1:]:
        run_all_steps()
        return
    database = sqlite3.connect("tasks.db")
    database.execute(TABLE)
    match sys.argv[1:]:
        case ["start"]:
            start(database)
        case ["approve", task_id]:
            approve(database, int(task_id))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
