"""No store: the continuation is a value, kept in a table of your own database.

    python examples/without_a_store.py             # all of it, in a temporary folder

    python examples/without_a_store.py start       # or step by step, in this folder
    python examples/without_a_store.py approve 1

A store would see to it that a run is resumed by one process at a time and survives a
crash in the middle of a call. Without one that is the work of your database: here the
row is taken by one UPDATE, and whoever does not get it does nothing.
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

SENT = Path("sent.txt")  # stands for the post
TABLE = """CREATE TABLE IF NOT EXISTS task (
    id INTEGER PRIMARY KEY, state TEXT NOT NULL, continuation BLOB NOT NULL)"""


@tool(approval=True)
def send_letter(to: str, text: str) -> str:
    """Send a letter."""
    with SENT.open("a") as post:
        post.write(f"{to}: {text}\n")
    return f"Sent to {to}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Answer in the model's place, so that the example runs without a key."""
    last = request.messages[-1]
    if last.role == "user":
        return ToolCall("send_letter", {"to": "Jane", "text": "Welcome!"})
    return f"Done. {last.content}"


writer = Agent(
    "writer",
    instructions="You write one short letter and send it.",
    tools=[send_letter],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)


def start(database: sqlite3.Connection) -> None:
    """Run until a person is needed, and keep what there is in a row."""
    outcome = run(writer, "Welcome Jane to the team.")
    row = (task_state(outcome), outcome.continuation.to_bytes())
    with database:
        new = database.execute(
            "INSERT INTO task (state, continuation) VALUES (?, ?)", row
        )
    print(f"{type(outcome).__name__}: task {new.lastrowid}, {len(row[1])} bytes")


def approve(database: sqlite3.Connection, task: int) -> None:
    """Say yes to all that the task waits for, and go on with it."""
    # Taken before it is resumed, and only if it waits: of two processes that come at
    # once, one changes a row. If that one dies before it is done, the row says
    # 'taken', and a person has to find out how far it came.
    with database:
        took = database.execute(
            "UPDATE task SET state = 'taken' WHERE id = ? AND state = 'waiting'",
            (task,),
        )
    if took.rowcount != 1:
        print(f"Task {task} does not wait (any more); nothing was done.")
        return
    select = "SELECT continuation FROM task WHERE id = ?"
    (data,) = database.execute(select, (task,)).fetchone()
    waits = Continuation.from_bytes(data).waits
    answers = {wait.id: Approve(by="kim@example.com") for wait in waits}
    outcome = resume(data, writer, answers=answers)
    row = (task_state(outcome), outcome.continuation.to_bytes(), task)
    with database:
        database.execute(
            "UPDATE task SET state = ?, continuation = ? WHERE id = ?", row
        )
    said = outcome.output if isinstance(outcome, Finished) else ""
    print(f"{type(outcome).__name__}: task {task}. {said}")


def task_state(outcome: Outcome) -> str:
    """Return what the table calls an outcome."""
    return "waiting" if isinstance(outcome, Suspended) else "done"


def run_all_steps() -> None:
    """Start a task, then approve it in two processes at once."""
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, __file__]
        subprocess.run([*python, "start"], cwd=folder, check=True)
        approve = [*python, "approve", "1"]
        both = [subprocess.Popen(approve, cwd=folder) for _ in range(2)]
        ends = [process.wait() for process in both]
        sent = (Path(folder) / SENT).read_text()
    print(f"The post saw: {sent.rstrip()}")
    if ends != [0, 0] or len(sent.splitlines()) != 1:
        sys.exit("One letter was to be sent.")


def main() -> None:
    """Take one step, or all."""
    if not sys.argv[1:]:
        run_all_steps()
        return
    database = sqlite3.connect("tasks.db")
    database.execute(TABLE)
    match sys.argv[1:]:
        case ["start"]:
            start(database)
        case ["approve", task]:
            approve(database, int(task))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
