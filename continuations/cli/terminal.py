"""Print lines with colors, in rich.

No line is cut. `print_folded` folds lines at the width of a terminal; elsewhere a
narrow terminal wraps them by itself.

`page_lines` is the page of a wait: the facts of the console's page, in its order.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from continuations.cli.stack_tree import Line
from continuations.core.rows.waits import TEXT_SCHEMA
from continuations.core.visible_text import escape_invisible
from continuations.present.json_forms import indented_json
from continuations.present.times import plain_text, time_left
from continuations.present.wait_view import FactView, InboxRow, WaitView, wait_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from rich.console import Console
    from rich.text import Text

    from continuations import Wait
    from continuations.core.rows.decisions import VerdictKind


_STYLES = {
    "head": "bold",
    "agent": "bold cyan",
    "wait": "yellow",
    "busy": "magenta",
    "done": "green",
    "bad": "red",
    "thought": "dim",
    "copy": "cyan",
}
# rich folds lines at the width of the console, so the console gets a huge one.
_UNLIMITED_WIDTH = 1_000_000_000
# Nothing is readable in less.
_MIN_WIDTH = 20
_FAR_INDENT = "    "
# The branch characters of a line, for the lines below it.
_BELOW = str.maketrans("├└─", "│  ")
_ASCII_BRANCHES = str.maketrans("├└│─", "|`|-")


# A pipe that gets JSON or plain text needs no rich, and it takes 40 ms to load.


def _text(text: str = "", style: str = "") -> Text:
    # A Text, because rich would interpret markup in a str that a model wrote.
    from rich.text import Text  # noqa: PLC0415

    return Text(text, style)


def _console(width: int) -> Console:
    from rich.console import Console  # noqa: PLC0415

    # Without a height, rich takes 80 columns for TERM=dumb.
    height = shutil.get_terminal_size().lines
    return Console(
        width=width, height=height, markup=False, highlight=False, emoji=False
    )


def _style(line: Line) -> str:
    return _STYLES.get(line.style, "")


def print_part(line: Line) -> None:
    """Print the beginning of a line, or more of it, at once."""
    text = _text(line.prefix + line.text, _style(line))
    _console(_UNLIMITED_WIDTH).print(text, end="")
    sys.stdout.flush()


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines; with colors only if standard output is a terminal."""
    console = _console(_UNLIMITED_WIDTH)
    for line in lines:
        text = _text().append(_branches(console, line.prefix), "dim")
        console.print(text.append(line.text, _style(line)))


def print_folded(lines: Iterable[Line]) -> None:
    """Print lines; on a terminal, folded between words at its width.

    The second line of a text is indented, so that it cannot pass for another line. Text
    to copy, as an id or a command, is never folded: the terminal breaks it by itself.
    """
    if not sys.stdout.isatty():
        print_lines(lines)
        return
    console = _folding_console()
    for line in lines:
        _print_folded(console, line)


def _folding_console() -> Console:
    return _console(max(shutil.get_terminal_size().columns, _MIN_WIDTH))


def _print_folded(console: Console, line: Line) -> None:
    style = _style(line)
    for text in line.text.split("\n"):
        if line.style == "copy":
            copied = _text().append(_branches(console, line.prefix), "dim")
            console.print(copied.append(text, style), soft_wrap=True)
            continue
        words = text.lstrip(" ")
        lead = line.prefix + " " * (len(text) - len(words))
        below = _below(lead)
        if len(lead) > console.width // 2:
            console.print(_text(_branches(console, lead.rstrip()), "dim"))
            lead = below = _FAR_INDENT
        width = console.width - len(below)
        for row in _text(words, style).wrap(console, width) or [_text()]:
            row.rstrip()
            start = _text(_branches(console, lead), "dim")
            console.print(start.append_text(row), soft_wrap=True)
            lead = below


def _below(lead: str) -> str:
    """Return the beginning of the second line of a text."""
    found = "".join(sign if sign == "│" else " " for sign in lead.translate(_BELOW))
    return f"{found}  "


def _branches(console: Console, prefix: str) -> str:
    is_utf = console.encoding.startswith("utf")
    return prefix if is_utf else prefix.translate(_ASCII_BRANCHES)


_TONES = {"is-wait": "yellow", "is-odd": "bold red"}
_URGENCIES = {"soon": "bold red", "today": "yellow"}
_INDENT = "  "


def print_inbox(title: str, rows: Iterable[InboxRow], others: Sequence[str]) -> None:
    """Print the title, each wait, and the waits that need no person.

    Texts of models and people are escaped, and never read as markup. The second line of
    a text is indented, so that it cannot pass for a row. An id is never folded.
    """
    console = _folding_console()
    console.print(_escaped(title, "bold"))
    for row in rows:
        console.print()
        tone = _TONES.get(row.kind.tone, "cyan")
        console.print(_text(row.kind.word, tone))
        _print_indented(console, _escaped(row.title, "bold"))
        due = _text(plain_text(row.due), _URGENCIES.get(row.urgency, ""))
        if row.then:
            due.append(f", {escape_invisible(row.then)}", "dim")
        _print_indented(console, due)
        for fact in row.facts:
            _print_indented(console, _escaped(fact, "dim"))
        # The terminal breaks an id by itself, so that it can be copied whole.
        console.print(_escaped(f"{_INDENT}{row.wait_id}", "cyan"), soft_wrap=True)
    if others:
        console.print()
        for line in others:
            console.print(_escaped(line, "dim"))


def _print_indented(console: Console, text: Text) -> None:
    for line in text.wrap(console, console.width - len(_INDENT)):
        line.rstrip()
        console.print(_text(_INDENT).append_text(line))


def _escaped(text: str, style: str) -> Text:
    return _text(escape_invisible(text), style)


_TONES_OF_WAITS = {"is-wait": "wait", "is-odd": "bad"}
# Texts of models, tools and people have a bar, so that they cannot pass for commands.
_BAR = "  │ "
_MORE = (
    "Options of approve: --arguments JSON runs the call with other arguments, "
    "--remember JSON also allows later calls."
)


def page_lines(
    wait: Wait, options: Sequence[str], now: datetime, agent_state: str = ""
) -> Iterator[Line]:
    """Yield everything that a person needs to decide a wait; nothing is cut.

    Args:
        wait: The open wait.
        options: Options of the commands, for example `--store URL`.
        now: The time of the page.
        agent_state: The stored state of the agent whose call waits, as JSON.
    """
    # A command line has no page: its people are those who reach the store.
    people = "all who can write to the store"
    view = wait_view(wait, agent_state=agent_state, everybody=people)
    yield from _effect(view)
    yield from _arguments(view)
    yield from _reasons(view)
    yield from _deadline(view, time_left(wait.deadline, now))
    yield from _commands(wait, options)
    yield from _origin(view)
    yield from _details(wait, view)


def _effect(view: WaitView) -> Iterator[Line]:
    by = f", asked for by {view.requester}" if view.requester else ""
    yield Line("", view.kind.word, _TONES_OF_WAITS.get(view.kind.tone, "agent"))
    many = "\n" in view.title
    yield from (_quoted if many else _texts)(view.title, "head")
    yield from _quoted(view.lead)
    yield from _texts(f"{view.truth} {view.reversal}".strip())
    yield from _texts(f"opened {view.opened.text}{by}", "thought")


def _arguments(view: WaitView) -> Iterator[Line]:
    if not view.tool:
        return
    yield from _heading(f"{view.kind.arguments} {view.tool} ({view.count})")
    for argument in view.arguments:
        marks = "".join(f" [{mark}]" for mark in argument.marks)
        about = f": {argument.description}" if argument.description else ""
        yield from _texts(f"{argument.name}{marks}{about}", "agent")
        for reading in argument.readings:
            yield from _quoted(reading, "head")
        yield from _quoted(argument.value)


def _reasons(view: WaitView) -> Iterator[Line]:
    rule = ": ".join(filter(None, (view.rule, view.rule_text)))
    words = view.agent_words
    texts = (words, view.agent_state, rule, view.note)
    if not (view.tool_facts or view.agent_facts or any(texts)):
        return
    yield from _heading("Why")
    yield from _facts("Found by tools in this run", view.tool_facts)
    yield from _facts("Results of other agents, not checked", view.agent_facts)
    if words:
        yield from _texts("In the agent's words, not checked", "thought")
        yield from _quoted(words)
    if view.agent_state:
        yield from _texts("State of the agent that calls", "thought")
        yield from _quoted(view.agent_state)
    if rule:
        yield from _texts("Rule that asks you", "thought")
        yield from _texts(rule, "", _INDENT * 2)
    yield from _quoted(view.note)


def _facts(label: str, facts: Sequence[FactView]) -> Iterator[Line]:
    if facts:
        yield from _texts(label, "thought")
    for fact in facts:
        yield from _quoted(f"{fact.source}: {fact.text}")


def _deadline(view: WaitView, left: str) -> Iterator[Line]:
    if view.deadline is None:
        yield from _heading("No deadline")
        yield from _texts("The run waits until someone decides.")
    else:
        yield from _heading(f"{view.deadline_label} {view.deadline.text}")
        due = f"in {left}" if left else "the time is over"
        yield from _texts(f"{due}; then: {view.at_deadline}")
    for vote in view.votes:
        yield from _texts(f"{vote.by} {vote.word}, {vote.at.text}", "done")
        yield from _quoted(vote.reason)
        yield from _quoted(vote.title, "head")
        for label, value in vote.values.items():
            yield from _texts(f"{label}:", "thought")
            yield from _quoted(value)
    yield from _texts(view.votes_missing)


def _commands(wait: Wait, options: Sequence[str]) -> Iterator[Line]:
    """Yield one command for each verdict, to copy, with its consequence."""
    if wait.rules.ended_by_unpause:
        yield from _heading("How to end it")
        yield _command("unpause", wait.run_id, *options)
    if not wait.rules.verdicts:
        return
    yield from _heading("How to decide")
    for verdict, words in wait.rules.verdicts.items():
        meaning = f"{words.meaning.rstrip(':.')}."
        if verdict == "answer" and wait.answer_schema_json != TEXT_SCHEMA:
            meaning += " VALUE is JSON; after --text it is plain text."
        yield from _texts(meaning, "thought")
        values = _values(wait, verdict)
        shown = ("--shown", wait.digest)
        yield _command(verdict, wait.id, *values, *shown, *options)
    if wait.rules.allows_edits:
        yield from _texts(_MORE, "thought")
    for label, schema in _schemas(wait).items():
        yield from _texts(f"{label} fits this JSON Schema:", "thought")
        yield from _quoted(indented_json(schema))


def _values(wait: Wait, verdict: VerdictKind) -> tuple[str, ...]:
    """Return the values that a person puts into a command."""
    if verdict == "answer":
        is_text = wait.answer_schema_json == TEXT_SCHEMA
        return ("--text", "VALUE") if is_text else ("VALUE",)
    if verdict == "fail":
        return ("ERROR",)
    if verdict != "approve":
        return ()
    form = () if wait.form_schema_json is None else ("--form", "JSON")
    return (*form, "--run-again") if wait.rules.may_have_run else form


def _schemas(wait: Wait) -> dict[str, str]:
    schemas = {"VALUE": wait.answer_schema_json, "JSON": wait.form_schema_json}
    return {
        label: schema
        for label, schema in schemas.items()
        if schema is not None and schema != TEXT_SCHEMA
    }


def _command(*words: str) -> Line:
    text = shlex.join(("continuations", *words))
    return Line(_INDENT * 2, escape_invisible(text), "copy")


def _origin(view: WaitView) -> Iterator[Line]:
    yield from _heading("Where it comes from")
    yield from _texts(f"Path: {' > '.join(view.path)}")
    for label, text in (*view.origin.items(), *filter(None, (view.denial,))):
        yield from _texts(f"{label}: {text}")


def _details(wait: Wait, view: WaitView) -> Iterator[Line]:
    yield from _heading("Details for developers")
    yield from _texts("Schema of the arguments", "thought")
    yield from _quoted(indented_json(wait.schema_json))
    for label, name in view.details.items():
        yield from _texts(label, "thought")
        yield Line(_INDENT * 2, escape_invisible(name), "copy")


def _heading(text: str) -> Iterator[Line]:
    yield Line("", "")
    yield Line("", escape_invisible(text), "head")


def _texts(text: str, style: str = "", indent: str = _INDENT) -> Iterator[Line]:
    """Yield a text as one line, indented; nothing for an empty text."""
    if text:
        yield Line(indent, escape_invisible(text), style)


def _quoted(text: str, style: str = "") -> Iterator[Line]:
    """Yield each line of a text of a model, a tool or a person, behind a bar."""
    for line in text.split("\n") if text else ():
        yield Line(_BAR, escape_invisible(line), style)
