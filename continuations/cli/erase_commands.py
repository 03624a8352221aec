"""The commands that delete runs: erase, prune."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from typing import Annotated

import typer

from continuations.cli import FAILED
from continuations.cli.application import runner_without_agents, store_name
from continuations.cli.decision_input import check_run_id
from continuations.cli.options import App, Json, RunId, StoreUrl, UsageError
from continuations.cli.output import confirm, write_json, write_lines, write_note
from continuations.core.visible_text import escape_invisible
from continuations.present.json_forms import prune_result_json
from continuations.present.times import counted
from continuations.wire.report import to_json

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for a confirmation.")]
_DURATION = re.compile(r"([1-9][0-9]{0,5})([dh])\Z")


def erase(
    run: RunId,
    *,
    yes: Yes = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Delete everything that the store holds of a run. Needs no agent code.

    A tombstone without personal data stays. The run's id is not used again.
    """
    check_run_id(run, command="erase")
    runner = runner_without_agents(app, store)
    _confirm(f"Erase run {run} in {store_name(runner.store)}?", yes=yes)
    receipt = runner.erase(run)
    if json:
        write_json(to_json(receipt))
        return
    parts = [counted(receipt.versions, "version"), counted(receipt.arrivals, "arrival")]
    parts += [counted(receipt.files, "file")] if receipt.files else []
    counts = f"{', '.join(parts)} and {counted(receipt.keys, 'other key')}"
    write_lines([f"{escape_invisible(run)} is erased: {counts}"])


def prune(
    *,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Erase runs that ended at least so many days or hours ago, for "
            "example 90d or 12h.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the ids of the runs, and stop.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Erase all runs that ended a long time ago. Needs no agent code.

    The exit code is 1 if a run could not be erased.
    """
    age = _parse_duration(older_than)
    runner = runner_without_agents(app, store)
    if not yes and not dry_run:
        count = len(runner.prune(older_than=age, dry_run=True).run_ids)
        question = (
            f"Erase {counted(count, 'run')} that ended {older_than} ago or earlier in "
        )
        _confirm(f"{question}{store_name(runner.store)}?", yes=count == 0)
    result = runner.prune(older_than=age, dry_run=dry_run)
    if json:
        write_json(prune_result_json(result))
    elif dry_run:
        write_lines(map(escape_invisible, result.run_ids))
    else:
        verb = "is" if len(result.erased) == 1 else "are"
        write_lines([f"{counted(len(result.erased), 'run')} {verb} erased"])
    for run_id, error in result.errors.items():
        write_note(f"Error: run {run_id} was not erased: {error}")
    if result.errors:
        raise typer.Exit(FAILED)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        msg = (
            f'nothing was erased: the question "{question}" needs a terminal. Pass '
            "--yes to answer it."
        )
        raise UsageError(msg)
    confirm(question, "Nothing was erased.")


def _parse_duration(text: str) -> timedelta:
    match = _DURATION.match(text)
    if match is None:
        msg = (
            f"--older-than {text!r} is not valid: it must be a number of days or "
            "hours. Pass for example --older-than 90d or --older-than 12h."
        )
        raise UsageError(msg)
    number, unit = int(match[1]), match[2]
    return timedelta(days=number) if unit == "d" else timedelta(hours=number)
