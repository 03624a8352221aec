"""One conversation: post messages, work on replies, read what is new.

`ChatPipe` does so for each line of the input; `chat_terminal` asks a person.

A message may have files, which a person attaches before it is sent.
"""

from __future__ import annotations

import glob
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.cli import FAILED, formatting
from continuations.cli.event_lines import EventLines, failed_lines, said_lines
from continuations.cli.interruption import advance_until_stopped, stopped_by_signals
from continuations.cli.options import Actor, UsageError, read_file
from continuations.cli.output import (
    recorded_decisions,
    write_json,
    write_lines,
    write_note,
)
from continuations.cli.terminal import print_lines
from continuations.core.rows.attachments import Content, check_total
from continuations.core.rows.run import ENDED_STATUSES, WhenBusy
from continuations.core.visible_text import escape_invisible
from continuations.engine.event_reading import MAX_ORDINAL, Cursor
from continuations.engine.outcomes import Failed, Queued, Replied, SendResult, Suspended
from continuations.engine.sync import portal
from continuations.errors import InvalidInput, RunErased
from continuations.serve.operation_calls import TextsViewer, reply_response

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable

    from continuations import Continuation, Runner, Wait
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.engine.ports import OnEvent
    from continuations.engine.start.new_run import UserText
    from continuations.engine.threads.async_ticket import AsyncTicket
    from continuations.threads import Thread


class ChatSession:
    """The place of one terminal in a thread.

    Attributes:
        run_id: Id of the thread's run; `None` before the first message.
        next_number: Number of the first message whose reply was not shown.
        stop_signal: The signal that stopped the last work, or `None`.
    """

    def __init__(
        self, runner: Runner, thread: Thread[Any], actor: Actor, context: object
    ) -> None:
        self._runner = runner
        self._thread = thread
        self._actor = actor
        self._context = context
        self._cursor = ""
        self.agent, self.key = thread.agent, thread.key
        self.run_id: str | None = None
        self.next_number = 1
        self.stop_signal: signal.Signals | None = None

    def open(self) -> Continuation | None:
        """Go to the end of the conversation; return its state, or `None` if it is new.

        A conversation that is closed or erased counts as new: a message opens it again.
        """
        state = self.look()
        if state is None:
            return None
        self.run_id = state.run_id
        self.next_number = state.run_state.run.answered + 1
        self._cursor = f"{state.version}.{MAX_ORDINAL}"
        return state

    def look(self) -> Continuation | None:
        """Return the newest state of the open conversation."""
        try:
            state = self._thread.look()
        except RunErased:
            return None
        is_over = state is None or state.status in ENDED_STATUSES
        return None if is_over else state

    def post(
        self,
        text: UserText,
        *,
        own_id: str | None = None,
        when_busy: WhenBusy = "queue",
    ) -> AsyncTicket[Any]:
        """Store a message; nothing works on it yet."""
        posted = self._thread.async_thread.post(
            text,
            by=self._actor.name,
            id=own_id,
            when_busy=when_busy,
            context=self._context,
            door=self._actor.door,
        )
        ticket = portal.run_until_complete(posted)
        if ticket.run_id != self.run_id:
            self.run_id, self.next_number, self._cursor = ticket.run_id, 1, ""
        return ticket

    def begin_at(self, ticket: AsyncTicket[Any]) -> None:
        """Count all events from before a message was posted as shown."""
        self._cursor = f"{ticket.posted_after}.{MAX_ORDINAL}"

    def next_ticket(self) -> AsyncTicket[Any] | None:
        """Return the ticket of the first message whose reply was not shown, if any."""
        run_id = self._find_run()
        if run_id is None:
            return None
        found = self._thread.async_thread.ticket(self.next_number, run_id=run_id)
        ticket = portal.run_until_complete(found)
        if ticket is None or portal.run_until_complete(ticket.look()) is None:
            return None
        return ticket

    def _find_run(self) -> str | None:
        """Return the id of the run; another process may have begun the conversation."""
        if self.run_id is None:
            state = self.look()
            self.run_id = None if state is None else state.run_id
        return self.run_id

    def work(
        self, ticket: AsyncTicket[Any], on_event: OnEvent | None = None
    ) -> SendResult[Any] | None:
        """Work until a message has its reply or something waits.

        The first Ctrl-C or SIGTERM lets calls in progress return; nothing else begins.
        The second one raises `KeyboardInterrupt`.

        Args:
            ticket: The ticket of the message.
            on_event: Gets the events while this process works.

        Returns:
            The result; `None` if a model call was given up after a signal.
        """
        with stopped_by_signals() as switch:
            try:
                return portal.run_until_complete(
                    advance_until_stopped(
                        self._runner.async_runner,
                        ticket.run_id,
                        lambda pause: ticket.reply(
                            context=self._context,
                            should_pause=pause,
                            on_event=on_event,
                        ),
                        switch,
                    )
                )
            finally:
                self.stop_signal = switch.signal

    def new_events(self) -> list[StreamEvent]:
        """Return the events since the last call, in their order."""
        run_id = self._find_run()
        if run_id is None:
            return []
        return portal.run_until_complete(self._read_events(run_id))

    async def events_until(self, event: StreamEvent) -> list[StreamEvent]:
        """Return the events since the last call, if a new one is not among them."""
        if Cursor.parse(event.cursor) <= Cursor.parse(self._cursor):
            return []
        return await self._read_events(event.run_id)

    async def _read_events(self, run_id: str) -> list[StreamEvent]:
        found = self._runner.async_runner.events(run_id, after=self._cursor)
        events = [event async for event in found]
        if events:
            self._cursor = events[-1].cursor
        return events

    def open_waits(self) -> tuple[Wait, ...]:
        """Return the waits of the conversation without a decision."""
        state = self.look()
        if state is None or not state.waits:
            return ()
        decided = recorded_decisions(self._runner.store, state)
        return tuple(wait for wait in state.waits if wait.id not in decided)

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation in the chat completions format."""
        state = self.look()
        return [] if state is None else state.root.messages

    def stop(self, reason: str | None) -> None:
        """Ask that the present turn ends."""
        self._thread.stop_turn(
            by=self._actor.name, reason=reason, door=self._actor.door
        )

    def close(self) -> None:
        """Close the conversation after the messages before."""
        self._thread.close(by=self._actor.name, context=self._context)


def next_command(session: ChatSession, options: list[str]) -> str:
    """Return the command that continues a conversation, with `--app` and `--store`."""
    words = ["continuations", "chat", session.agent, "--key", session.key]
    return shlex.join([*words, *options])


FILE_COMMAND = "/file"
_BEGIN = f"{FILE_COMMAND} "


class ChatFiles:
    """The attachments of the message that is written next."""

    def __init__(self) -> None:
        self._contents: list[Content] = []

    def attach(self, path: str) -> None:
        """Attach a file and say what is attached; without a path, only say it."""
        if path:
            try:
                content = read_file(FILE_COMMAND, path)
                check_total([*self._contents, content], {})
            except (UsageError, InvalidInput) as error:
                write_note(escape_invisible(str(error)))
            else:
                self._contents.append(content)
        self._write_attached()

    def remove_all(self) -> None:
        """Attach nothing."""
        self._contents.clear()
        self._write_attached()

    def with_text(self, text: str) -> UserText:
        """Return a message with the attachments."""
        return [text, *self._contents] if self._contents else text

    def sent(self) -> None:
        """Forget the files: a message with them is stored."""
        self._contents.clear()

    def _write_attached(self) -> None:
        labels = [escape_invisible(each.attachment.label) for each in self._contents]
        if labels:
            write_note(f"The next message has {' '.join(labels)}. /nofile removes all.")
        else:
            write_note(f"Nothing is attached. {FILE_COMMAND} PATH attaches a file.")


def shown_text(message: UserText) -> str:
    """Return the text by which a terminal shows a message."""
    if isinstance(message, str):
        return message
    parts = (
        each if isinstance(each, str) else each.attachment.label for each in message
    )
    return "\n".join(parts)


def complete_paths() -> None:
    """Let the Tab key complete paths after `/file`, if the terminal library can."""
    with suppress(ModuleNotFoundError):
        import readline  # noqa: PLC0415 - Windows does not have it

        def complete(line: str, number: int) -> str | None:
            found = completed_lines(line)
            return found[number] if number < len(found) else None

        readline.set_completer(complete)
        # The whole line is one word: a path may have spaces.
        readline.set_completer_delims("")
        readline.parse_and_bind("tab: complete")


def completed_lines(line: str) -> list[str]:
    """Return the lines that name a path which begins as the line does."""
    if not line.startswith(_BEGIN):
        return []
    begun = line.removeprefix(_BEGIN)
    if begun.startswith("~/"):
        begun = f"{Path.home()}{begun[1:]}"
    found = sorted(glob.glob(f"{glob.escape(begun)}*"))  # noqa: PTH207 - keeps "./"
    paths = (f"{each}/" if Path(each).is_dir() else each for each in found)
    return [_BEGIN + path for path in paths]


# Without a person ----------------------------------------------------------


class ChatPipe:
    """Sends each line as a message, and prints each reply."""

    def __init__(
        self, runner: Runner, session: ChatSession, back: str, *, as_json: bool
    ) -> None:
        self._runner = runner
        self._session = session
        self._back = back
        self._as_json = as_json
        self._events = EventLines(session.agent)

    def run(
        self,
        lines: Iterable[UserText],
        message_id: str | None,
        when_busy: WhenBusy,
    ) -> int:
        """Send the lines; return the exit code of the command."""
        code = 0
        for index, text in enumerate(lines):
            self._events.own_texts.append(shown_text(text))
            ticket = self._session.post(text, own_id=message_id, when_busy=when_busy)
            if index == 0:
                self._session.begin_at(ticket)
            try:
                result = self._session.work(ticket)
            except KeyboardInterrupt:
                result = None
            if result is not None:
                self._write(ticket, result)
            number = self._session.stop_signal
            if number is not None:
                write_note(
                    f"stopped: message {ticket.number} of run {ticket.run_id} is "
                    f"stored. Its reply continues with: {self._back}"
                )
                return 128 + number
            if isinstance(result, Failed):
                code = FAILED
        return code

    def _write(self, ticket: AsyncTicket[Any], result: SendResult[Any]) -> None:
        if self._as_json:
            viewer = TextsViewer(self._runner.async_runner)
            shown = reply_response(viewer, result, ticket.number)
            write_json(portal.run_until_complete(shown))
            sys.stdout.flush()  # a program that reads the lines waits for each
            return
        # A repeated command asks for a reply that was given before.
        if not ticket.was_answered:
            for event in self._session.new_events():
                print_lines(self._events.lines(event))
        is_old = self._events.replied < ticket.number
        match result:
            case Replied() if is_old:
                output = result.continuation.output or ""
                print_lines(said_lines(self._session.agent, output))
            case Failed() if is_old:
                print_lines(failed_lines(result.error))
            case Suspended():
                write_lines(formatting.outcome_lines(result))
            case Queued():
                write_lines([f"Queued: message {ticket.number} of {ticket.run_id}"])
            case _:
                pass
        sys.stdout.flush()
