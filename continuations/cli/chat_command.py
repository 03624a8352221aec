"""chat: talk to an agent at a terminal, or from a pipe."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from continuations.cli.application import load_context, runner_with_agents
from continuations.cli.decision_input import resolve_actor
from continuations.cli.options import (
    App,
    Context,
    Files,
    Json,
    StoreUrl,
    UsageError,
    input_with_files,
)

ChatAgent = Annotated[
    str | None,
    typer.Argument(metavar="AGENT", help="The agent, if the runner has more than one."),
]
ChatKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="Names the conversation. The same agent and key are the same "
        "conversation, in every process.",
    ),
]
OneMessage = Annotated[
    str | None,
    typer.Option("--message", "-m", metavar="TEXT", help="Send one message and exit."),
]
MessageId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        help="Your id of the --message: a repeated command sends one message, and "
        "prints its reply.",
    ),
]
BusyRule = Annotated[
    Literal["queue", "merge", "interrupt"],
    typer.Option(
        help="What happens to a message while an earlier one is answered: it waits its "
        "turn, the agent reads it in the same reply, or the earlier reply is stopped."
    ),
]
HistoryLength = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Show the last N messages at the start."),
]
Person = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME",
        envvar="CONTINUATIONS_BY",
        help="The person who writes and decides. Default: the user of this process.",
    ),
]


def chat(  # noqa: PLR0913 - one parameter for each option
    agent: ChatAgent = None,
    *,
    key: ChatKey,
    message: OneMessage = None,
    message_id: MessageId = None,
    file: Files = None,
    when_busy: BusyRule = "queue",
    history: HistoryLength = 10,
    by: Person = None,
    context: Context = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Talk to an agent, also days later and from another machine.

    At a terminal, the command shows the last messages and asks for the next one. An
    approval or a question of the agent is asked in line. `/help` lists the commands.

    If the input is no terminal, each line is one message. With --json, each reply is
    one line of JSON.
    """
    if message_id is not None and message is None:
        msg = "--id is the id of the --message. Add --message TEXT, or leave --id out."
        raise UsageError(msg)
    if file and message is None:
        msg = (
            "--file belongs to the --message. Add --message TEXT, or attach the file "
            "in the chat with /file PATH."
        )
        raise UsageError(msg)
    # Imported here: no other command needs the modules of a conversation.
    from continuations.cli.chat_pipe import ChatPipe  # noqa: PLC0415
    from continuations.cli.chat_session import ChatSession, next_command  # noqa: PLC0415
    from continuations.cli.chat_terminal import ChatTerminal  # noqa: PLC0415

    runner = runner_with_agents(app, store, command="chat", may_be_first=True)
    thread = runner.thread(agent, key=key)
    actor = resolve_actor(by)
    session = ChatSession(runner, thread, actor, load_context(context))
    back = next_command(session, app=app, store=store)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if message is None and is_terminal and not json:
        terminal = ChatTerminal(runner, session, actor, back, when_busy)
        code = terminal.run(history)
    else:
        typed = (line for line in map(str.strip, sys.stdin) if line)
        lines = typed if message is None else [input_with_files(message, file or [])]
        pipe = ChatPipe(runner, session, back, as_json=json)
        code = pipe.run(lines, message_id, when_busy)
    if code:
        raise typer.Exit(code)
