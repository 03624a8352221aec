"""A conversation with a person at a terminal: a prompt, replies, and open waits."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import continuations
from continuations import errors
from continuations.cli import INTERRUPTED, chat_session, formatting
from continuations.cli.event_lines import EventLines, history_lines, progress_line
from continuations.cli.output import write_lines, write_note
from continuations.cli.stack_tree import Line
from continuations.cli.terminal import print_lines, print_part
from continuations.core import jsontext
from continuations.core.reading import live_events
from continuations.core.rows.decisions import Decision, Verdict, VerdictKind
from continuations.core.visible_text import escape_invisible
from continuations.engine.outcomes import Failed, Replied
from continuations.present.wait_words import question, schema_fields, votes_text
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from continuations import Runner, Wait
    from continuations.cli.options import Actor
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.core.rows.run import WhenBusy
    from continuations.present.wait_words import FormField

    # Shows the prompt and a text to edit; returns the line that the person typed.
    Ask = Callable[[str, str], str]


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
        session: chat_session.ChatSession,
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
        self._files = chat_session.ChatFiles()

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
        self._obey_safely("")

    def _turn(self) -> bool:
        """Read one line and do what it says; return whether to go on."""
        if self._session.stop_signal is signal.SIGTERM:
            return False
        return self._obey_safely(self._read(_PROMPT, "").strip())

    def _obey_safely(self, text: str) -> bool:
        """Do what a line says; write an error, and go on."""
        try:
            return self._obey(text)
        except errors.ContinuationsError as error:
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
            case chat_session.FILE_COMMAND:
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
        self._events.own_texts.append(chat_session.shown_text(message))
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

    def _progress(self) -> None:
        """Work on all messages without a reply, and ask about what they wait for."""
        self._show_news()
        while (ticket := self._session.next_ticket()) is not None:
            try:
                result = self._session.work(ticket, self._hear)
            except errors.ThreadClosed:
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

    async def _hear(self, event: live_events.RunEvent) -> None:
        """Show an event at once: a stored one, or a part of a reply."""
        match event:
            case live_events.TextDelta():
                for part in self._events.parts(event):
                    print_part(part)
            case live_events.CallProgress():
                print_lines([progress_line(event)])
            case live_events.ReasoningDelta():
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
        chat_session.complete_paths()


_LATER = "l"
_EDIT = "e"
_DECLINE = "/no"
_LATER_COMMAND = "/later"


class Choice(NamedTuple):
    """The letter that a person chose for a wait, and the reason after it."""

    key: str
    reason: str | None


class Deferred(Exception):
    """The person leaves the wait open."""


class ChatDecisions:
    """Shows waits and records the decisions of the person at the terminal."""

    def __init__(self, runner: Runner, actor: Actor, ask: Ask) -> None:
        self._runner = runner
        self._actor = actor
        self._ask = ask
        # Waits that were shown and left open, and waits that are decided here.
        self.left_open: set[str] = set()
        self.decided: set[str] = set()

    def ask_all(self, waits: Iterable[Wait]) -> bool:
        """Ask about the waits that were not left open; return whether one ended."""
        new = [wait for wait in waits if wait.id not in self.left_open]
        ended = [self._ask_about(wait.id, wait) for wait in new]
        return any(ended)

    def _ask_about(self, wait_id: str, known: Wait) -> bool:
        if not known.rules.asks_person:
            write_lines([_awaited(known)])
            self.left_open.add(wait_id)
            return False
        while True:
            try:
                # It has the votes and the deadline of now.
                wait = self._runner.wait(wait_id)
            except (errors.AlreadyDecided, errors.WaitNotFound):
                return True
            _show(wait)
            try:
                return self._decide(wait)
            except Deferred:
                self.left_open.add(wait_id)
                return False
            except (
                errors.AlreadyDecided,
                errors.Cancelled,
                errors.WaitExpired,
            ) as error:
                write_note(f"{type(error).__name__}: {error}")
                return True
            except errors.ContinuationsError as error:
                write_note(f"{type(error).__name__}: {error}")

    def _decide(self, wait: Wait) -> bool:
        verdict = self._verdict(wait)
        result = self._runner.decide(
            wait.id, verdict, shown=wait.digest, door=self._actor.door
        )
        if isinstance(result, Decision):
            self.decided.add(wait.id)
            return True
        write_lines([f"  recorded: {votes_text(result)}"])
        self.left_open.add(wait.id)
        return False

    def _verdict(self, wait: Wait) -> Verdict:
        if next(iter(wait.rules.verdicts)) == "answer" and not wait.rules.may_have_run:
            return self._answer_to_question(wait)
        keys = _keys(wait)
        choice = self._choose(wait, keys)
        by, reason = self._actor.name, choice.reason
        if choice.key == _EDIT:
            prefilled = "" if wait.secrets else wait.arguments_json
            edited = ask_json("arguments (JSON): ", prefilled, self._ask)
            return continuations.Approve(
                by=by, reason=reason, arguments=edited, form=self._form(wait)
            )
        match keys[choice.key]:
            case "approve":
                return continuations.Approve(
                    by=by, reason=reason, form=self._form(wait)
                )
            case "answer":
                label = wait.rules.verdicts["answer"].value_label
                value = ask_value(wait.answer_schema, label, self._ask)
                return continuations.Answer(value, by=by, reason=reason)
            case _:
                return continuations.Deny(by=by, reason=reason or self._ask_reason())

    def _choose(self, wait: Wait, keys: Mapping[str, VerdictKind]) -> Choice:
        verdicts = wait.rules.verdicts
        offered = {key: verdicts[kind].label for key, kind in keys.items()}
        if _may_edit(wait):
            offered[_EDIT] = "Edit"
        offered[_LATER] = "Later"
        menu = "  ".join(f"[{key}] {label}" for key, label in offered.items())
        while True:
            word, _, rest = self._ask(f"{menu}: ", "").strip().partition(" ")
            key = word[:1].lower()
            if key == _LATER:
                raise Deferred
            if key in offered:
                return Choice(key, rest.strip() or None)
            write_note("Type one of the letters. A reason may follow it.")

    def _answer_to_question(self, wait: Wait) -> Verdict:
        words = wait.rules.verdicts["answer"]
        hint = f"{_DECLINE}: decline, {_LATER_COMMAND}: leave it open"
        write_lines([f"  {hint}"])

        def ask(prompt: str, prefilled: str) -> str:
            line = self._ask(prompt, prefilled)
            if line.strip() == _LATER_COMMAND:
                raise Deferred
            if line.partition(" ")[0] == _DECLINE:
                raise _Declined(line.partition(" ")[2].strip())
            return line

        by = self._actor.name
        try:
            value = ask_value(wait.answer_schema, words.value_label, ask)
        except _Declined as declined:
            return continuations.Deny(by=by, reason=str(declined) or None)
        return continuations.Answer(value, by=by)

    def _form(self, wait: Wait) -> dict[str, object] | None:
        schema = wait.form_schema
        return None if schema is None else ask_fields(schema, self._ask)

    def _ask_reason(self) -> str | None:
        return self._ask("reason, for the agent (Enter: none): ", "").strip() or None


class _Declined(Exception):
    """The person declines a question; the text is the reason."""


def _show(wait: Wait) -> None:
    print_lines(_heading(wait))
    write_lines(formatting.wait_lines(wait, "  "))


def _heading(wait: Wait) -> Iterator[Line]:
    yield Line("", escape_invisible(question(wait)), "wait")
    yield Line("  ", escape_invisible(wait.id))


def _awaited(wait: Wait) -> str:
    since = readable_time(wait.created_at)
    text = f"The reply waits for {wait.rules.awaited} since {since}"
    if wait.deadline is not None:
        label = wait.rules.deadline_label.lower()
        text += f", {label} {readable_time(wait.deadline)}"
    if wait.rules.ended_by_unpause:
        text += f"; end it with: continuations unpause {wait.run_id}"
    return escape_invisible(f"{text} ({wait.tool}).")


def _keys(wait: Wait) -> dict[str, VerdictKind]:
    """Return what each letter stands for, in the order of the menu."""
    # No habit of typing "y" repeats a call that may have happened.
    letters: dict[VerdictKind, str] = {"approve": "y", "deny": "n", "answer": "a"}
    if wait.rules.may_have_run:
        letters = {"approve": "r", "deny": "n", "answer": "h"}
    return {letters[kind]: kind for kind in wait.rules.verdicts}


def _may_edit(wait: Wait) -> bool:
    return wait.rules.allows_edits and wait.editable != ()


_TEXT_TYPES = ("string", "any value")


def ask_value(schema: dict[str, Any] | None, label: str, ask: Ask) -> Any:
    """Return a value for a JSON Schema: text as typed, everything else as JSON.

    An object with named fields has a line for each field. Whether the value fits the
    schema, the decision checks.
    """
    if schema is None or schema.get("type", "string") == "string":
        return ask(f"{label}: ", "")
    if jsontext.as_object(schema.get("properties")):
        return ask_fields(schema, ask)
    return ask_json(f"{label} ({schema.get('type', 'JSON')}): ", "", ask)


def ask_fields(schema: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """Return an object, one line for each field; an empty line leaves a field out."""
    value: dict[str, Any] = {}
    for field in schema_fields(schema):
        typed = _ask_field(field, ask)
        if typed is not None:
            value[field.name] = typed
    return value


def _ask_field(field: FormField, ask: Ask) -> Any:
    prompt = f"{escape_invisible(field.text)}: "
    is_text = field.type.partition(" (")[0] in _TEXT_TYPES
    while True:
        line = ask(prompt, "")
        if not line and not field.required:
            return None
        if is_text:
            return line
        try:
            return jsontext.parse(line, lossless=True)
        except jsontext.NotJson:
            # A choice of texts is typed without quotes.
            if f'"{line}"' in field.type:
                return line
            write_note(f"{field.name} must be {field.type}, as JSON. Type it again.")


def ask_json(prompt: str, prefilled: str, ask: Ask) -> Any:
    """Return the JSON value that the person typed; ask again until it is JSON."""
    while True:
        line = prefilled = ask(prompt, prefilled)
        try:
            return jsontext.parse(line, lossless=True)
        except jsontext.NotJson as error:
            write_note(f"This is not JSON: {error}. Type it again.")
