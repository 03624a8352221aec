"""Ask the person at the terminal to decide the open waits of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import continuations
from continuations.cli import formatting
from continuations.cli.output import write_lines, write_note
from continuations.cli.stack_tree import Line
from continuations.cli.terminal import print_lines
from continuations.cli.typed_input import ask_fields, ask_json, ask_value
from continuations.core.decisions import Decision
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    WaitExpired,
    WaitNotFound,
)
from continuations.present.escaping import escape_invisible
from continuations.present.wait_words import votes_text
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from continuations import Runner, Wait
    from continuations.cli.decision_input import Actor
    from continuations.cli.typed_input import Ask
    from continuations.core.decisions import Verdict, VerdictKind

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
            except (AlreadyDecided, WaitNotFound):
                return True
            _show(wait)
            try:
                return self._decide(wait)
            except Deferred:
                self.left_open.add(wait_id)
                return False
            except (AlreadyDecided, Cancelled, WaitExpired) as error:
                write_note(f"{type(error).__name__}: {error}")
                return True
            except ContinuationsError as error:
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
    question = wait.rules.question.format(tool=wait.tool)
    yield Line("", escape_invisible(question), "wait")
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
