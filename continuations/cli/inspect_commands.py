"""The commands that read a store: waiting, runs, show, audit, doctor."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from continuations.cli import FAILED, formatting
from continuations.cli.application import (
    missing_code,
    runner_without_agents,
    store_name,
)
from continuations.cli.decision_input import check_run_id
from continuations.cli.options import (
    App,
    Json,
    RunId,
    StoreUrl,
    Transcript,
    UsageError,
    given_options,
)
from continuations.cli.output import (
    detail_of,
    run_form,
    with_places,
    write_json,
    write_lines,
    write_note,
)
from continuations.cli.stack_tree import Line
from continuations.core.rows.attachments import attachments_of
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.visible_text import escape_invisible, shorten
from continuations.engine.sync import portal
from continuations.errors import ContinuationsError
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.decisions.worklist import MAX_PAGE
from continuations.ledger.index.rows_only_waits import find_runs_awaiting_models
from continuations.ledger.objects import Objects, gather_all
from continuations.present.json_forms import (
    listed_wait_json,
    wait_json,
)
from continuations.present.wait_words import agent_state, awaiting_models_line
from continuations.wire.fields import readable_time
from continuations.wire.report import to_json, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from continuations import Continuation, Runner, Wait
    from continuations.core.messages import Detail
    from continuations.wire.arrivals import InboxMessage
    from continuations_storage import Store

Approver = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="List only the waits that this person may decide now. --app tells the "
        "groups of the person.",
    ),
]


Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="List only the waits of this kind: approval, question, unknown, input, "
        "output, event, timer, external, model or operator. Repeat it for more kinds. "
        "Default: the kinds that ask a person.",
    ),
]
IdsOnly = Annotated[
    bool, typer.Option("--ids", help="Print only the ids, one per line.")
]


def waiting(
    *,
    json: Json = False,
    ids: IdsOnly = False,
    kind: Kinds = None,
    approver: Approver = None,
    due: Annotated[
        bool,
        typer.Option(
            "--due",
            help="Show tool and deadline of the waits that ask a person, the next "
            "deadlines first.",
        ),
    ] = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """List the open waits of a store. Needs no agent code."""
    if due and approver is not None:
        msg = "--approver cannot be combined with --due. Leave one of them out."
        raise UsageError(msg)
    runner = runner_without_agents(app, store)
    if due:
        _write_worklist(runner, json=json)
        return
    summaries = runner.waiting(kinds=kind or None, approver=approver)
    person = ""
    if approver is not None:
        person = f" for {escape_invisible(approver)}"
        _note_unknown_groups(runner, approver)
    if ids:
        write_lines(escape_invisible(wait.id) for wait in summaries)
        return
    models = "" if kind else awaiting_models(runner)
    if json:
        _write_note(models)
        write_json(to_json(list(summaries)))
        return
    waits = list(summaries)
    if not waits:
        hint = (
            ""
            if kind or person
            else " Events, jobs, timers and pauses are listed with --kind, for example "
            "--kind event."
        )
        write_note(f"No open waits{person} in {store_name(runner.store)}.{hint}")
        _write_note(models)
        return
    write_lines(formatting.wait_table_lines(waits))
    _write_note(models)


def _write_note(text: str) -> None:
    if text:
        write_note(text)


def _note_unknown_groups(runner: Runner, approver: str) -> None:
    if runner.groups is None:
        write_note(
            f"The groups of {escape_invisible(approver)} are not known, so waits for "
            "groups are left out. Pass --app with a Runner(groups=...)."
        )


def _write_worklist(runner: Runner, *, json: bool) -> None:
    page = runner.worklist(limit=MAX_PAGE)
    _write_note(awaiting_models(runner))
    if page.next is not None:
        write_note(f"Only the first {MAX_PAGE} waits are shown.")
    if json:
        write_json([listed_wait_json(row) for row in page.waits])
    elif page.waits:
        write_lines(formatting.worklist_lines(page.waits))
    else:
        write_note(f"No open waits in {store_name(runner.store)}.")


def runs(  # noqa: PLR0913 - one parameter for each option
    *,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS",
            help="live, ended, running, suspended, resting, finished, failed or "
            "cancelled. Default: all.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only runs of this root agent.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME=VALUE", help="Only runs with this label."),
    ] = None,
    after: Annotated[
        str, typer.Option(metavar="CURSOR", help="Only runs after this cursor.")
    ] = "",
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="List at most N runs.")
    ] = 100,
    json: Json = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="Print only the ids, one per line.")
    ] = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """List the runs of a store. Needs no agent code."""
    runner = runner_without_agents(app, store)
    found = runner.runs(agent=agent, status=status, label=label, after=after)
    rows = list(islice(found, limit + 1))
    if len(rows) > limit:
        rows.pop()
        write_note(f"More runs follow. List them with --after {rows[-1].cursor}")
    if json:
        write_json(to_json(rows))
    elif ids:
        write_lines(row.run_id for row in rows)
    elif rows:
        write_lines(formatting.run_table_lines(rows))
    else:
        write_note(f"No such runs in {store_name(runner.store)}.")


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|WAIT|AGENT",
            help="The id of a run or of a wait. With --key, an agent.",
        ),
    ],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Show the conversation of the agent with this key."
        ),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="An earlier version of the run. Default: newest."
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show all levels of the tree. A terminal shows 3, and counts the "
            "calls below.",
        ),
    ] = False,
    transcript: Transcript = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Show the stack of a run as a tree, or one wait. Needs no agent code.

    A conversation is a run: name it by its agent and --key, or by its run id. On a
    terminal, a wait is shown in the order of its page in the console, with the commands
    that decide it. In a pipe, the output has no colors, and nothing is folded.
    """
    runner = runner_without_agents(app, store)
    if key is not None:
        name = conversation_id(runner, name, key)
    if "@" in name:
        if version is not None:
            msg = "--version applies to runs, and a wait has no versions. Leave it out."
            raise UsageError(msg)
        _show_wait(runner, name, given_options(app, store), json=json)
    else:
        detail = detail_of(transcript=transcript) if json else None
        lacks = partial(missing_code, app, store, name)
        _show_run(runner, name, version, detail, lacks, everything=everything)


def _agent_state(runner: Runner, wait: Wait) -> str:
    """Return the state of the agent whose call waits; empty if it cannot be read."""
    try:
        return agent_state(runner.look(wait.run_id), wait)
    except ContinuationsError:
        return ""


def _show_wait(runner: Runner, wait_id: str, options: list[str], *, json: bool) -> None:
    wait = runner.wait(wait_id)
    state = _agent_state(runner, wait)
    if json:
        write_json(wait_json(wait, now=datetime.now(UTC), agent_state=state))
        return
    if sys.stdout.isatty():
        from continuations.cli.shown_wait import page_lines  # noqa: PLC0415
        from continuations.cli.terminal import print_folded  # noqa: PLC0415 - a pipe needs no rich

        print_folded(page_lines(wait, options, datetime.now(UTC), state))
        return
    write_lines([escape_invisible(wait.id), wait.rules.explanation])
    write_lines(formatting.wait_lines(wait, agent_state=state))
    schema = ("schema", wait.schema_json)
    if wait.answer_schema_json is not None:
        schema = ("schema of the answer", wait.answer_schema_json)
    write_lines(formatting.json_field_lines(*schema))
    if wait.form_schema_json is not None:
        form = ("schema of the form", wait.form_schema_json)
        write_lines(formatting.json_field_lines(*form))
    write_lines([f"digest: {wait.digest}"])


def _show_run(
    runner: Runner,
    run_id: str,
    version: int | None,
    json_detail: Detail | None,
    lacks: Callable[[], Iterable[str]],
    *,
    everything: bool,
) -> None:
    # Imported here: only this command needs the tree and rich, deciding does not.
    from continuations.cli import stack_tree  # noqa: PLC0415
    from continuations.cli.output import recorded_decisions  # noqa: PLC0415
    from continuations.cli.terminal import print_folded  # noqa: PLC0415

    run = runner.look(run_id, version=version)
    # An earlier version does not say which messages had arrived by then.
    unread = unread_messages(runner.store, run) if version is None else ()
    if json_detail is not None:
        form = run_form(runner.store, run, with_stack=True, detail=json_detail)
        write_json(form | {"unread": unread_json(unread)} if unread else form)
        return
    decisions = recorded_decisions(runner.store, run)
    print_folded(stack_tree.header_lines(run))
    print_folded(unread_lines(run, unread))
    if version is None:
        print_folded(stack_tree.next_step_lines(run))
        if stack_tree.awaits_worker(run, decisions):
            write_lines(lacks())
    is_whole = everything or not sys.stdout.isatty()
    max_depth = None if is_whole else stack_tree.FOLDED_DEPTH
    now = datetime.now(UTC)
    print_folded(stack_tree.tree_lines(run.root, decisions, now, max_depth))


def audit(
    run: RunId, *, json: Json = False, app: App = None, store: StoreUrl = None
) -> None:
    """Print who decided what about a run, one JSON object per line.

    Needs no agent code. Each line is a decision of a person, a program or a rule, an
    expiry, a signal or the request to cancel the run, with its time, door and digest.
    """
    del json  # the lines are JSON with and without the option
    check_run_id(run, command="audit")
    for line in runner_without_agents(app, store).audit(run):
        write_json(to_json(line))


def doctor(
    run: RunId,
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Continue from the last good version. A call that may have run in a "
            "lost version is not repeated on a guess: a person is asked. Damaged "
            "objects are not changed.",
        ),
    ] = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Check every object of a run, and repair the run. Needs no agent code.

    The exit code is 1 if an object is damaged and the run was not repaired.
    """
    # Imported here: no other command needs it.
    from continuations.cli import doctor  # noqa: PLC0415

    check_run_id(run, command="doctor")
    runner = runner_without_agents(app, store)
    report = doctor.check_run(runner, run)
    new_root = doctor.repair_run(runner, report) if repair else None
    result = (report, new_root, runner.store, doctor.unreferenced_files(runner, run))
    if json:
        write_json(doctor.report_json(*result))
    else:
        write_lines(doctor.report_lines(*result))
    if report.findings and new_root is None:
        raise typer.Exit(FAILED)


def conversation_id(runner: Runner, agent: str, key: str) -> str:
    """Return the id of the newest run of a conversation; raise `UsageError`."""
    # Imported here: most commands name a run by its id.
    from continuations.ledger.arrivals.thread_keys import newest_generation  # noqa: PLC0415

    found = portal.run_until_complete(
        newest_generation(Objects(runner.store), agent, key)
    )
    if found.version:
        return found.run_id
    msg = (
        f"--key {key!r:.60} names no conversation of agent {agent!r:.60} in this "
        "store. List the conversations with `continuations runs`."
    )
    raise UsageError(msg)


_MAX_TEXT_CHARS = 200


def unread_messages(store: Store, run: Continuation) -> Sequence[InboxMessage]:
    """Return the messages after the last one that the run has read, by number."""
    return portal.run_until_complete(_read(Objects(store), run))


async def _read(objects: Objects, run: Continuation) -> list[InboxMessage]:
    last = run.run_state.run.last_inbox_number
    numbers = await MESSAGES.numbers(objects, run.run_id, last)
    # Without those of a run that was erased meanwhile.
    found = await gather_all(
        MESSAGES.read_if_there(objects, run.run_id, number) for number in numbers
    )
    return [each for each in found if each is not None]


def unread_lines(run: Continuation, unread: Iterable[InboxMessage]) -> Iterator[Line]:
    """Yield each message with its sender, its time and its files."""
    from continuations.serve.pages.run_log import message_text  # noqa: PLC0415 - rarely used

    has_ended = run.run_state.run.status in ENDED_STATUSES
    state = "never read" if has_ended else "not read yet"
    for each in unread:
        by = f" from {each.by}" if each.by else ""
        content = each.message.data.get("content")
        text = (
            "closes the conversation" if each.closes else message_text(content, "user")
        )
        about = f"{state}: message {each.number}{by}, {readable_time(each.at)}"
        text = shorten(f"{about}: {text}", _MAX_TEXT_CHARS)
        yield Line("", escape_invisible(text), "wait")
        for attachment in attachments_of([each.message]):
            label = f"attachment {attachment.label} {attachment.digest}"
            yield Line("  ", escape_invisible(label))


def unread_json(unread: Iterable[InboxMessage]) -> list[dict[str, Any]]:
    """Return messages as JSON values (`unread` of `run`)."""
    return [
        {
            "number": each.number,
            "at": utc_text(each.at),
            "by": each.by,
            "message": each.message.data,
        }
        for each in unread
    ]


def awaiting_models(runner: Runner) -> str:
    """Return how many runs of the store wait for their models; empty for none."""
    found = portal.run_until_complete(find_runs_awaiting_models(Objects(runner.store)))
    return with_places(awaiting_models_line(found))
