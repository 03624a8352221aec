"""drift: what new code would do with the waiting runs, before it is deployed."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from continuations.cli import FAILED
from continuations.cli.application import load_context, runner_with_agents
from continuations.cli.options import App, Context, Json, StoreUrl
from continuations.cli.output import write_json, write_lines, write_note
from continuations.core.visible_text import escape_invisible
from continuations.errors import ContinuationsError
from continuations.ledger.thread_ids import is_thread_id
from continuations.present.times import counted
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Runner
    from continuations.authoring.manifest import ManifestChange
    from continuations.results import DriftRow

_MAX_CHANGES = 10

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def drift(
    *,
    context: Context = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Say what new code would do with the waiting runs. Nothing is written.

    Each run that has not ended is one line: accept, reopen (an approved call waits
    again) or refuse (resume raises an error), with the reasons below it. With --json,
    each line is the whole row. The exit code is 0 only if every run is accepted.
    """
    runner = runner_with_agents(app, store, command="drift")
    options: dict[str, Any] = {}
    if context is not None:
        options["context"] = load_context(context)
    counts: Counter[str] = Counter()
    for row in runner.drift(**options):
        counts[row.verdict] += 1
        if json:
            write_json(to_json(row))
        else:
            write_lines(_row_lines(row, _thread_key(runner, row)))
        sys.stdout.flush()
    found = ", ".join(f"{counts[name]} {name}" for name in counts) or "no run"
    has = "has" if counts.total() == 1 else "have"
    write_note(f"{counted(counts.total(), 'run')} that {has} not ended: {found}.")
    if counts.keys() - {"accept"}:
        raise typer.Exit(FAILED)


def _thread_key(runner: Runner, row: DriftRow) -> str:
    """Return the key of a conversation; empty for another run.

    The id of a conversation has a digest in place of its key.
    """
    if row.status == "unreadable" or not is_thread_id(row.run_id):
        return ""
    with suppress(ContinuationsError):
        return runner.look(row.run_id).run_state.run.thread_key or ""
    return ""


def _change_text(change: ManifestChange) -> str:
    return f"{change.where}: {change.what}" if change.where else change.what


def _row_lines(row: DriftRow, key: str) -> Iterator[str]:
    about = f"  (conversation {key} with {row.agent})" if key else ""
    yield escape_invisible(f"{row.verdict}  {row.run_id}{about}")
    for reason in row.why:
        where = " > ".join(reason.path) or row.agent or "run"
        yield f"  {reason.verdict}: {escape_invisible(where)} ({reason.change})"
        yield f"    {escape_invisible(reason.text)}"
        if reason.wait_id is not None:
            yield f"    wait {escape_invisible(reason.wait_id)}"
    if row.verdict == "accept":
        changes = row.code_changes
        for change in changes[:_MAX_CHANGES]:
            yield f"  allowed: {escape_invisible(_change_text(change))}"
        if len(changes) > _MAX_CHANGES:
            more = counted(len(changes) - _MAX_CHANGES, "more change")
            yield f"  allowed: {more}, see --json"
