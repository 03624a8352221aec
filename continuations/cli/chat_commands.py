"""The commands of conversations: chat, post."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from continuations.cli.chat_session import ChatPipe, ChatSession, next_command
from continuations.cli.chat_terminal import ChatTerminal
from continuations.cli.command import Command, as_command, load_context
from continuations.cli.options import (
    Natural,
    UsageError,
    input_with_files,
    resolve_actor,
    write_actor_note,
)
from continuations.core.visible_text import escape_invisible


@as_command
def chat(  # noqa: PLR0913 - one parameter for each option
    command: Command,
    agent: str | None = None,
    *,
    key: str,
    message: Annotated[str | None, "--message", "-m"] = None,
    message_id: Annotated[str | None, "--id"] = None,
    file: list[str] | None = None,
    when_busy: Literal["queue", "merge", "interrupt"] = "queue",
    history: Natural = 10,
    by: str | None = None,
    context: str | None = None,
) -> None:
    """Talk to an agent, also days later and from another machine.

    At a terminal, the command shows the last messages and asks for the next one. An
    approval or a question of the agent is asked in line. `/help` lists the commands.

    If the input is no terminal, each line is one message. With --json, each reply is
    one line of JSON.

    Arguments and options:
        agent (AGENT): The agent, if the runner has more than one.
        key (KEY): Names the conversation. The same agent and key are the same
            conversation, in every process.
        message (TEXT): Send one message and exit.
        message_id (ID): Your id of the --message: a repeated command sends one
            message, and prints its reply.
        when_busy: What happens to a message while an earlier one is answered: it waits
            its turn, the agent reads it in the same reply, or the earlier reply is
            stopped.
        history (N): Show the last N messages at the start.
        by (NAME): The person who writes and decides. Default: the user of this process.
    """
    if message_id is not None and message is None:
        raise UsageError(
            "--id is the id of the --message. Add --message TEXT, or leave --id out."
        )
    if file and message is None:
        raise UsageError(
            "--file belongs to the --message. Add --message TEXT, or attach the file "
            "in the chat with /file PATH."
        )
    runner = command.runner("needed", may_be_first=True)
    thread = runner.thread(agent, key=key)
    actor = resolve_actor(by)
    session = ChatSession(runner, thread, actor, load_context(context))
    back = next_command(session, command.given_options)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if message is None and is_terminal and not command.as_json:
        terminal = ChatTerminal(runner, session, actor, back, when_busy)
        code = terminal.run(history)
    else:
        typed = (line for line in map(str.strip, sys.stdin) if line)
        lines = typed if message is None else [input_with_files(message, file or [])]
        pipe = ChatPipe(runner, session, back, as_json=command.as_json)
        code = pipe.run(lines, message_id, when_busy)
    if code:
        raise typer.Exit(code)


@as_command
def post(
    command: Command,
    agent: str,
    text: str,
    *,
    key: str,
    file: list[str] | None = None,
    message_id: Annotated[str | None, "--id"] = None,
    by: str | None = None,
) -> None:
    """Post a message to a conversation, and do not wait. Needs no agent code.

    The first message begins the conversation. A worker that has the agent replies.

    Arguments and options:
        agent (AGENT): The agent of the conversation.
        key (KEY): Names the conversation, as for `chat`.
        message_id (ID): Your id of the message: a repeated command sends one
            message.
    """
    actor = resolve_actor(by)
    message = input_with_files(text, file or [])
    thread = command.runner(may_be_first=True).thread(agent, key=key)
    ticket = thread.post(message, by=actor.name, id=message_id, door=actor.door)
    write_actor_note(actor)
    name, number = escape_invisible(ticket.run_id), ticket.number
    command.write(
        lambda: {"run_id": ticket.run_id, "number": number},
        [
            f"{name}: message {number} is recorded",
            f"next: continuations resume {name}",
        ],
    )
