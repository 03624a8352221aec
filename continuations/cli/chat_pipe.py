"""A conversation without a person: each line is a message, each reply is printed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from continuations.cli import FAILED, formatting
from continuations.cli.chat_lines import EventLines, failed_lines, said_lines
from continuations.cli.chat_session import shown_text
from continuations.cli.output import (
    recorded_decisions,
    write_json,
    write_lines,
    write_note,
)
from continuations.cli.terminal import print_lines
from continuations.engine.outcomes import Failed, Queued, Replied, Suspended
from continuations.present.json_forms import reply_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations import Continuation, Runner
    from continuations.cli.chat_session import ChatSession
    from continuations.core.rows.run import WhenBusy
    from continuations.engine.outcomes import SendResult
    from continuations.engine.start.new_run import UserText
    from continuations.engine.threads.async_ticket import AsyncTicket


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
        state: Continuation | None = getattr(result, "continuation", None)
        if self._as_json:
            decided = state and recorded_decisions(self._runner.store, state)
            write_json(
                reply_json(
                    result,
                    run_id=ticket.run_id,
                    number=ticket.number,
                    now=datetime.now(UTC),
                    decided=decided or (),
                    detail="texts",
                )
            )
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
