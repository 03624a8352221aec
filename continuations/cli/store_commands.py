"""The commands that care for a store: migrate, erase, prune, copy, doctor."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

import continuations
from continuations.cli import BUSY, FAILED
from continuations.cli.command import Command, as_command, store_name
from continuations.cli.options import UsageError
from continuations.cli.output import confirm, write_note
from continuations.core.visible_text import escape_invisible
from continuations.engine.ports import Ports
from continuations.engine.sync import portal
from continuations.errors import RunBusy, StaleRun
from continuations.ledger.layout import role_rights
from continuations.ledger.objects import Objects, open_store
from continuations.present.json_forms import COPY_RESULT, PRUNE_RESULT
from continuations.present.times import counted
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from continuations.ledger.copying.store_copy import CopyResult
    from continuations.ledger.repair.integrity import IntegrityReport
    from continuations.ledger.repair.retention import PruneResult
    from continuations.ledger.repair.run_files import UnreferencedFile
    from continuations_storage import Store
    from continuations_storage.postgres_sql import RoleRights

_DURATION = re.compile(r"([1-9][0-9]{0,5})([dh])\Z")


@as_command
def migrate(
    command: Command,
    *,
    print_sql: Annotated[bool, "--print"] = False,
    decider_role: str | None = None,
    worker_role: str | None = None,
) -> None:
    """Make the table of a Postgres store, and give rights to roles.

    It changes nothing that exists, except the rights of the roles that are named. Other
    stores need no migration.

    Arguments and options:
        print_sql: Print the SQL, and do nothing else.
        decider_role (ROLE): A role of the server that may show waits, decide, send
            messages and cancel. It cannot advance a run.
        worker_role (ROLE): A role of the server that may start, resume and sweep runs.
            Neither role can delete the history of a run.
    """
    if command.store is None and command.app is None:
        raise UsageError(
            "--store is missing: `migrate` needs the URL of a database. Pass --store "
            "postgresql://HOST/DATABASE or set CONTINUATIONS_STORE."
        )
    if decider_role is not None and decider_role == worker_role:
        raise UsageError(
            f"--decider-role and --worker-role are both {decider_role!r:.60}: the "
            "rights of one would replace those of the other. Name two roles."
        )
    store = command.runner(may_be_first=True).store
    rights = role_rights(decider_role, worker_role)
    name = store_name(store)
    sql: Callable[[Sequence[RoleRights]], str] | None = getattr(
        store, "migration", None
    )
    if sql is not None and print_sql:
        text = sql(rights)
        command.write(lambda: {"store": name, "sql": text}, text.splitlines())
        return
    made = portal.run_until_complete(Objects(store).migrate(rights))
    line = {
        True: f"{name} has its table now",
        False: f"{name} had its table already",
        None: f"{name} needs no migration",
    }[made]
    if made is not None and rights:
        line += f"; rights were given to {' and '.join(each.role for each in rights)}"
    command.write(lambda: {"store": name, "made": bool(made)}, [escape_invisible(line)])


@as_command
def erase(command: Command, run: str, *, yes: bool = False) -> None:
    """Delete everything that the store holds of a run. Needs no agent code.

    A tombstone without personal data stays. The run's id is not used again.
    """
    runner = command.runner()
    _confirm(f"Erase run {run} in {store_name(runner.store)}?", yes=yes)
    receipt = runner.erase(run)
    parts = [counted(receipt.versions, "version"), counted(receipt.arrivals, "arrival")]
    parts += [counted(receipt.files, "file")] if receipt.files else []
    counts = f"{', '.join(parts)} and {counted(receipt.keys, 'other key')}"
    text = f"{escape_invisible(run)} is erased: {counts}"
    command.write(partial(to_json, receipt), [text])


@as_command
def prune(
    command: Command,
    *,
    older_than: str | None = None,
    finished: str | None = None,
    failed: str | None = None,
    cancelled: str | None = None,
    audit: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
) -> None:
    """Erase all runs that ended a long time ago. Needs no agent code.

    Without a time, the retention of the runner of --app counts. The exit code is 1 if a
    run could not be erased.

    Arguments and options:
        older_than (TIME): Erase runs that ended at least so many days or hours ago, for
            example 90d or 12h.
        finished (TIME): The same for finished runs alone.
        failed (TIME): The same for failed runs alone.
        cancelled (TIME): The same for cancelled runs alone.
        audit (TIME): Keep the decisions of the erased runs for this time after their
            ends.
        dry_run: Print the ids of the runs, and stop.
    """
    times = {
        "finished": finished,
        "failed": failed,
        "cancelled": cancelled,
        "audit": audit,
    }
    options = _prune_options(command, older_than, times)
    runner = command.runner("if given" if not options else "unused")
    if not yes and not dry_run:
        count = len(runner.prune(**options, dry_run=True).run_ids)
        when = "long ago" if older_than is None else f"{older_than} ago or earlier"
        question = f"Erase {counted(count, 'run')} that ended {when} in "
        _confirm(f"{question}{store_name(runner.store)}?", yes=count == 0)
    result = runner.prune(**options, dry_run=dry_run)
    if dry_run:
        place, count = store_name(runner.store), len(result.run_ids)
        write_note(f"{counted(count, 'run')} would be erased in {place}.")
    _write_pruned(command, result, dry_run=dry_run)


def _prune_options(
    command: Command, older_than: str | None, times: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the arguments of `Runner.prune`; raises `UsageError`."""
    given: dict[str, Any] = {
        name: _parse_duration(name, text)
        for name, text in times.items()
        if text is not None
    }
    if older_than is not None:
        if given:
            raise UsageError("--older-than needs no other time. Leave the others out.")
        return {"older_than": _parse_duration("older-than", older_than)}
    if given:
        # No other command needs it.
        from continuations.retention import Retention  # noqa: PLC0415

        return {"retention": Retention(**given)}
    if command.app is None:
        raise UsageError(
            "prune needs a time. Pass for example --older-than 90d or --finished 90d, "
            "or --app with a Runner(retention=...)."
        )
    return {}


def _write_pruned(command: Command, result: PruneResult, *, dry_run: bool) -> None:
    verb = "is" if len(result.erased) == 1 else "are"
    lines = [f"{counted(len(result.erased), 'run')} {verb} erased"]
    if dry_run:
        lines = [*map(escape_invisible, result.run_ids)]
    command.write(partial(PRUNE_RESULT.of, result), lines)
    for run_id, error in result.errors.items():
        write_note(f"Error: run {run_id} was not erased: {error}")
    if result.errors:
        raise typer.Exit(FAILED)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f'nothing was erased: the question "{question}" needs a terminal. Pass '
            "--yes to answer it."
        )
    confirm(question, "Nothing was erased.")


def _parse_duration(option: str, text: str) -> timedelta:
    match = _DURATION.match(text)
    if match is None:
        raise UsageError(
            f"--{option} {text!r} is not valid: it must be a number of days or hours. "
            f"Pass for example --{option} 90d or --{option} 12h."
        )
    number, unit = int(match[1]), match[2]
    return timedelta(days=number) if unit == "d" else timedelta(hours=number)


@partial(as_command, common=("json",))
def copy(
    command: Command, source: str, target: str, *, run: list[str] | None = None
) -> None:
    """Copy runs with all their objects to another store. Needs no agent code.

    The target shows a run when all of it is copied. Nothing is overwritten. Repeat the
    command after a crash, and for runs that went on meanwhile. Let only one of the two
    stores go on with a run.

    The exit code is 4 if a run went on or a worker holds it, and 1 if a run could not
    be copied.

    Arguments and options:
        source (SOURCE): The store to copy from, for example file:.runs.
        target (TARGET): The store to copy to, for example sqlite:runs.db.
        run (RUN): A run to copy. Repeat it for more runs. Default: the whole store.
    """
    for name in (source, target):
        if name.startswith("memory:"):
            raise UsageError(
                f"{name} is the memory of this command and ends with it. Name a store "
                "that stays, such as sqlite:PATH."
            )
    runner = continuations.Runner([], store=source)
    place = open_store(target)
    try:
        result = runner.copy_to(place, run_ids=run or None)
    except KeyboardInterrupt:
        write_note("interrupted; repeat this command, and it goes on")
        raise
    needs_person = bool(result.unknown_keys) or not all(
        isinstance(error, RunBusy | StaleRun) for error in result.errors.values()
    )
    names = store_name(runner.store), store_name(place)
    if needs_person:
        following = "correct the errors below, and repeat this command"
    elif result.errors or result.moved_on:
        following = f"stop the processes that use {names[0]}, and repeat this command"
    else:
        rest = "resume none of them in" if run else "remove"
        following = f"let only {names[1]} go on with these runs, and {rest} {names[0]}"
    command.write(partial(COPY_RESULT.of, result), _copy_lines(result, following))
    for name, error in result.errors.items():
        write_note(f"{name}: {type(error).__name__}: {error}")
    for key in result.unknown_keys:
        write_note(f"{key} was not copied: this release does not know such keys")
    if needs_person:
        raise typer.Exit(FAILED)
    if result.errors or result.moved_on:
        raise typer.Exit(BUSY)


def _copy_lines(result: CopyResult, following: str) -> Iterator[str]:
    objects = counted(result.objects, "object")
    yield f"copied: {counted(len(result.copied), 'run')}, {objects}"
    if result.unchanged:
        yield f"unchanged: {counted(len(result.unchanged), 'run')}"
    if result.errors:
        yield f"not copied: {counted(len(result.errors), 'run')}"
    for run_id in result.moved_on:
        yield f"moved on: {escape_invisible(run_id)}"
    yield f"next: {escape_invisible(following)}"


@as_command
def doctor(command: Command, run: str, *, repair: bool = False) -> None:
    """Check every object of a run, and repair the run. Needs no agent code.

    The exit code is 1 if an object is damaged and the run was not repaired.

    Arguments and options:
        repair: Continue from the last good version. A call that may have run in a lost
            version is not repeated on a guess: a person is asked. Damaged objects are
            not changed.
    """
    # Imported here: no other command needs them.
    from continuations.ledger.repair.doctor import check_integrity  # noqa: PLC0415
    from continuations.ledger.repair.run_files import find_unreferenced  # noqa: PLC0415

    store = command.runner().store
    objects = Objects(store)
    report = portal.run_until_complete(check_integrity(objects, run))
    new_root = _repair(objects, report) if repair else None
    files = portal.run_until_complete(find_unreferenced(objects, run))
    found = (report, new_root, store, files)
    command.write(partial(_report_json, *found), _report_lines(*found))
    if report.findings and new_root is None:
        raise typer.Exit(FAILED)


def _repair(objects: Objects, report: IntegrityReport) -> int | None:
    """Repair a run; return the number of the new root, `None` if none was needed."""
    from continuations.ledger.repair.doctor import repair  # noqa: PLC0415 - rarely used

    ports = Ports()
    now = ports.clock.now()
    repaired = portal.run_until_complete(
        repair(
            objects,
            report.run_id,
            now=now,
            new_ulid=lambda: ports.ids.new_ulid(now),
        )
    )
    return repaired.number if repaired.number > report.newest_number else None


def _report_lines(
    report: IntegrityReport,
    new_root: int | None,
    store: Store,
    unreferenced: Sequence[UnreferencedFile],
) -> Iterator[str]:
    """Yield the report for people: readable versions, damage and the next step."""
    yield f"store: {escape_invisible(store_name(store))}"
    yield f"run: {escape_invisible(report.run_id)}"
    yield f"newest version: {report.newest_number or 'none'}"
    yield f"last good version: {report.last_good_number or 'none'}"
    if report.versions_without_base:
        numbers = ", ".join(map(str, report.versions_without_base))
        yield f"undamaged, but based on a damaged version: {numbers}"
    yield f"findings: {len(report.findings) or 'none'}"
    for finding in report.findings:
        yield f"  {finding.kind} {escape_invisible(finding.key)}"
        yield f"    {escape_invisible(finding.problem)}"
    if unreferenced:
        total = sum(each.size for each in unreferenced)
        yield (
            f"attachments without a message: {len(unreferenced):,}, "
            f"{counted(total, 'byte')}. A process died before its message, or is about "
            "to send it. They are kept until the run is erased."
        )
    if new_root is not None:
        yield f"repaired: version {new_root} is a new root"
    yield f"next: {_next_step(report, new_root)}"
    if new_root is None and not report.is_resumable and report.last_good_number:
        run = escape_invisible(report.run_id)
        yield (
            f"  or: continuations doctor {run} --repair (gives up the lost versions; "
            f"the run continues from version {report.last_good_number})"
        )


def _next_step(report: IntegrityReport, new_root: int | None) -> str:
    run = escape_invisible(report.run_id)
    if new_root is not None:
        return (
            f"continuations resume {run} (it asks about each call that may have "
            "happened)"
        )
    if report.is_resumable:
        if report.findings:
            return "nothing to do; the run can continue, only its history is damaged"
        return "nothing to do; the run is undamaged"
    if report.last_good_number == 0:
        return "restore the objects from a backup; no version can be read"
    return "restore the objects from a backup"


def _report_json(
    report: IntegrityReport,
    new_root: int | None,
    store: Store,
    unreferenced: Sequence[UnreferencedFile],
) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "store": store_name(store),
        "run_id": report.run_id,
        "newest": report.newest_number,
        "last_good": report.last_good_number,
        "goes_on": report.is_resumable,
        "stranded": list(report.versions_without_base),
        "findings": [
            {
                "key": finding.key,
                "kind": finding.kind,
                "problem": finding.problem,
                "blocks": finding.blocks_run,
            }
            for finding in report.findings
        ],
        "unreferenced_files": [
            {"key": each.key, "bytes": each.size} for each in unreferenced
        ],
        "repaired": new_root,
    }
