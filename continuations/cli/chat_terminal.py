"""A conversation with a person at a terminal: a prompt, replies, and open waits."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.cli import INTERRUPTED, chat_files
from continuations.cli.chat_decisions import ChatDecisions
from continuations.cli.chat_lines import EventLines, history_lines, progress_line
from continuations.cli.output import write_lines, write_note
from continuations.cli.stack_tree import Line
from continuations.cli.terminal import print_lines, print_part
from continuations.core.live_events import CallProgress, ReasoningDelta, TextDelta
from continuations.engine.outcomes import Failed, Replied
from continuations.errors import ContinuationsError, ThreadClosed
from continuations.present.escaping import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations import Runner
    from continuations.cli.chat_session import ChatSession
    from continuations.cli.decision_input import Actor
    from continuations.core.live_events import RunEvent
    from continuations.core.run import WhenBusy
    from continuations.core.run_stream import StreamEvent

_PROMPT = "> "
_MORE_HISTORY = 50
_HELP = """\
  /file PATH     attach an image, a sound or a file to the next message
  /nofile        attach nothing
  /history [N]   show the last N messages
  /stop [WHY]    end the reply that is in progress or waits
  /close         close the conversation; the next message begins a new one
  /quit          leave; also Ctrl-D or Ctrl-C
  //TEXT         send a text that begins with a slash
  Enter          continue, or ask again about what the reply waits for
While the agent works, Ctrl-C interrupts it: the message stays, and Enter continues."""


class ChatTerminal:
    """Asks for messages and decisions until the person leaves."""

    def __init__(
        self,
        runner: Runner,
        session: ChatSession,
        actor: Actor,
        back: str,
        when_busy: WhenBusy,
    ) -> None:
        self._session = session
        self._actor = actor
        self._back = back
        self._when_busy: WhenBusy = when_busy
        self._is_closed = False
        self._decisions = ChatDecisions(runner, actor, self._read)
        self._events = EventLines(session.agent, self._decisions.decided)
        self._files = chat_files.ChatFiles()

    def run(self, history: int) -> int:
        """Talk until the person leaves; return the exit code."""
        self._set_up_editing()
        code = 0
        try:
            self._begin(history)
            while self._turn():
                pass
        except EOFError:
            write_lines([""])
        except KeyboardInterrupt:
            write_lines([""])
            code = INTERRUPTED
        number = self._session.stop_signal
        if number is signal.SIGTERM:
            code = 128 + number
        what = "Begin a new one" if self._is_closed else "Continue at any time"
        write_note(f"{what}: {self._back}")
        return code

    def _begin(self, history: int) -> None:
        state = self._session.open()
        name = f"{self._session.agent}, conversation {self._session.key}"
        who = f"You are {self._actor.name}. /help lists the commands."
        print_lines([Line("", escape_invisible(name), "head")])
        write_lines([escape_invisible(who)])
        if state is None:
            return
        messages = state.root.messages
        print_lines(history_lines(messages, self._session.agent, history))
        self._progress_safely()

    def _turn(self) -> bool:
        """Read one line and do what it says; return whether to go on."""
        if self._session.stop_signal is signal.SIGTERM:
            return False
        text = self._read(_PROMPT, "").strip()
        try:
            return self._obey(text)
        except ContinuationsError as error:
            write_note(f"{type(error).__name__}: {error}")
            return True

    def _obey(self, text: str) -> bool:
        word, _, rest = text.partition(" ")
        match word:
            case "/quit" | "/exit":
                return False
            case "/help":
                write_lines([_HELP])
            case "/history":
                limit = int(rest) if rest.strip().isdecimal() else _MORE_HISTORY
                messages = self._session.messages()
                print_lines(history_lines(messages, self._session.agent, limit))
            case "/stop":
                self._session.stop(rest.strip() or None)
                self._progress()
            case "/close":
                return self._close()
            case chat_files.COMMAND:
                self._files.attach(rest.strip())
            case "/nofile":
                self._files.remove_all()
            case "":
                self._decisions.left_open.clear()
                self._progress()
            case _ if word.startswith("/") and not word.startswith("//"):
                shown = escape_invisible(word)
                write_note(f"{shown} is no command. /help lists the commands.")
            case _:
                self._say(text.removeprefix("/") if word.startswith("//") else text)
        return True

    def _say(self, text: str) -> None:
        message = self._files.with_text(text)
        self._events.own_texts.append(chat_files.shown_text(message))
        self._session.post(message, when_busy=self._when_busy)
        self._files.sent()
        self._progress()

    def _close(self) -> bool:
        """Close the conversation; return whether to go on."""
        self._session.close()
        self._show_news()
        self._is_closed = self._session.look() is None
        if not self._is_closed:
            write_note("The conversation is closed after the replies that wait.")
            self._progress()
        return not self._is_closed

    def _progress_safely(self) -> None:
        try:
            self._progress()
        except ContinuationsError as error:
            write_note(f"{type(error).__name__}: {error}")

    def _progress(self) -> None:
        """Work on all messages without a reply, and ask about what they wait for."""
        self._show_news()
        while (ticket := self._session.next_ticket()) is not None:
            try:
                result = self._session.work(ticket, self._hear)
            except ThreadClosed:
                self._show_news()
                return
            self._show_news()
            if isinstance(result, Replied | Failed):
                self._session.next_number = ticket.number + 1
                continue
            if self._session.stop_signal is not None:
                write_note(
                    "The message is stored and has no reply yet. Enter continues, "
                    "/stop gives the reply up."
                )
                return
            waits = self._session.open_waits()
            if not self._decisions.ask_all(waits):
                write_note(
                    f"Message {ticket.number} has no reply yet. Enter: look again, "
                    "/stop: give the reply up."
                )
                return

    async def _hear(self, event: RunEvent) -> None:
        """Show an event at once: a stored one, or a part of a reply."""
        match event:
            case TextDelta():
                for part in self._events.parts(event):
                    print_part(part)
            case CallProgress():
                print_lines([progress_line(event)])
            case ReasoningDelta():
                pass  # the reply follows
            case _:
                self._show(await self._session.events_until(event))

    def _show_news(self) -> None:
        self._show(self._session.new_events())
        print_lines(self._events.end_of_parts())

    def _show(self, events: Iterable[StreamEvent]) -> None:
        for event in events:
            print_lines(self._events.lines(event))

    def _read(self, prompt: str, prefilled: str) -> str:
        """Return a line that the person typed, with a text to edit."""
        sys.stdout.flush()
        with suppress(ModuleNotFoundError):
            import readline  # noqa: PLC0415 - Windows does not have it

            readline.set_startup_hook(lambda: readline.insert_text(prefilled))
        return input(prompt)

    def _set_up_editing(self) -> None:
        # Importing it is what gives `input` its line editing.
        with suppress(ModuleNotFoundError):
            import readline  # noqa: PLC0415 - Windows does not have it

            # A pasted text of several lines is one message.
            readline.parse_and_bind("set enable-bracketed-paste on")
        chat_files.complete_paths()
