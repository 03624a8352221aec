"""inbox: what waits for a person, due first, in the words of the console's inbox."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import resolve_actor
from continuations.cli.inspect_commands import awaiting_models
from continuations.cli.options import App, By, Json, StoreUrl, UsageError
from continuations.cli.output import write_json, write_lines, write_note
from continuations.core.rows.wait_rules import COUNTED_KINDS
from continuations.core.visible_text import escape_invisible
from continuations.ledger.decisions.worklist import MAX_PAGE
from continuations.present.json_forms import listed_wait_json
from continuations.present.times import counted
from continuations.serve.pages import inbox_view
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Runner
    from continuations.ledger.decisions.worklist import ListedWait

_PAGE_ROWS = 50
_MAX_COUNTED = 100

Whose = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="me|all",
        help="me: the waits that --by may decide now. all: all waits that ask a "
        "person.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Only waits of this kind, for example question."),
]
Words = Annotated[
    str,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Only waits that show each of these words: in the title, the path, the "
        "run or a fact.",
    ),
]


def inbox(
    *,
    whose: Whose = "me",
    kind: Kind = None,
    words: Words = "",
    limit: Annotated[
        int,
        typer.Option(min=1, max=MAX_PAGE, metavar="N", help="Show at most N waits."),
    ] = _PAGE_ROWS,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Show what waits for a decision, due first. Needs no agent code.

    Each wait shows its kind, its effect, the time that is left, a few facts and its
    id. `show WAIT` has everything that you need to decide. In a pipe, deadlines are
    times, and the output has no colors.
    """
    if whose not in ("me", "all"):
        msg = f"--for must be me or all, got {whose!r}. Pass --for me --by NAME."
        raise UsageError(msg)
    runner = runner_without_agents(app, store)
    person = resolve_actor(by).name if whose == "me" else None
    if person is not None and runner.groups is None:
        write_note(
            f"The groups of {escape_invisible(person)} are not known, so waits for "
            "groups are left out. Pass --app with a Runner(groups=...)."
        )
    rows, has_more = _find(runner, person, kind, words.split(), limit)
    if has_more:
        write_note(f"More waits follow. Show them with --limit, up to {MAX_PAGE}.")
    models = awaiting_models(runner)
    if json:
        if models:
            write_note(models)
        write_json([listed_wait_json(row) for row in rows])
        return
    others = [*filter(None, (_others(runner), models))]
    if not sys.stdout.isatty():
        write_lines(_plain_lines(rows, person, others))
        return
    from continuations.cli import terminal  # noqa: PLC0415 - a pipe needs no rich

    now = datetime.now(UTC)
    views = [inbox_view.inbox_row(row, now) for row in rows]
    terminal.print_inbox(title(len(rows), person), views, others)


def title(count: int, person: str | None) -> str:
    """Return how many decisions wait, and for whom."""
    name = "everybody" if person is None else person
    if not count:
        return "Nothing waits" if person is None else f"Nothing waits for {name}"
    return (
        f"{counted(count, 'decision')} {'waits' if count == 1 else 'wait'} for {name}"
    )


def _find(
    runner: Runner, person: str | None, kind: str | None, words: list[str], limit: int
) -> tuple[list[ListedWait], bool]:
    """Return the first rows that a filter leaves, and whether more may follow."""
    rows: list[ListedWait] = []
    after: str | None = ""
    while after is not None and len(rows) < limit:
        page = runner.worklist(
            after=after,
            limit=_PAGE_ROWS,
            kinds=[kind] if kind else None,
            approver=person,
        )
        rows += [row for row in page.waits if inbox_view.matches(row.wait, words)]
        after = page.next
    return rows[:limit], after is not None or len(rows) > limit


def _others(runner: Runner) -> str:
    """Return how many waits need no person, in words; empty for none."""
    parts: list[str] = []
    for kind, noun in COUNTED_KINDS.items():
        count = 0
        for _ in runner.waiting(kinds=[kind]):
            count += 1
            if count > _MAX_COUNTED:
                break
        if count:
            more = "more than " if count > _MAX_COUNTED else ""
            parts.append(more + counted(min(count, _MAX_COUNTED), noun))
    return f"Waits that need no person: {', '.join(parts)}" if parts else ""


def _plain_lines(
    rows: list[ListedWait], person: str | None, others: list[str]
) -> Iterator[str]:
    """Yield the rows without anything that depends on the clock or the terminal."""
    yield escape_invisible(title(len(rows), person))
    for row in rows:
        view = inbox_view.inbox_row(row, row.wait.created_at)
        yield f"{view.kind.word}: {escape_invisible(view.title)}"
        due = view.due
        if row.wait.deadline is not None:
            due = f"by {readable_time(row.wait.deadline)}"
        due = f"{due} (expired)" if row.expired else due
        yield f"  {', '.join(filter(None, (due, escape_invisible(view.then))))}"
        for fact in view.facts:
            yield f"  {escape_invisible(fact)}"
        yield f"  {escape_invisible(view.wait_id)}"
    yield from others
