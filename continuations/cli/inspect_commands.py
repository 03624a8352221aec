"""The commands that read a store: waiting, inbox, runs, show, audit."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from continuations.cli import formatting, options, output, stack_tree
from continuations.cli.command import Command, as_command, store_name
from continuations.cli.stack_tree import Line
from continuations.cli.terminal import page_lines, print_folded, print_inbox
from continuations.core.rows.attachments import attachments_of
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.wait_rules import COUNTED_KINDS
from continuations.core.visible_text import escape_invisible, shorten
from continuations.engine.sync import portal
from continuations.errors import ContinuationsError
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.arrivals.thread_arrivals import newest_generation
from continuations.ledger.decisions.worklist import MAX_PAGE, ListedWait
from continuations.ledger.index.waits_without_object import find_runs_awaiting_models
from continuations.ledger.objects import Objects, gather_all
from continuations.present import json_forms, wait_view
from continuations.present.search_words import SearchWords
from continuations.present.times import counted, plain_text
from continuations.present.wait_words import agent_state, awaiting_models_line
from continuations.serve.pages.run_log import message_text
from continuations.wire.fields import readable_time
from continuations.wire.report import to_json, utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from continuations import Continuation, Runner, Wait
    from continuations.wire.arrivals import InboxMessage
    from continuations_storage import Store


@as_command
def waiting(
    command: Command,
    *,
    ids: bool = False,
    kind: list[str] | None = None,
    approver: str | None = None,
    due: bool = False,
) -> None:
    """List the open waits of a store. Needs no agent code.

    Arguments and options:
        kind (KIND): List only the waits of this kind: approval, question, unknown,
            input, output, event, timer, external, model or operator. Repeat it for more
            kinds. Default: the kinds that ask a person.
        approver (NAME): List only the waits that this person may decide now. --app
            tells the groups of the person.
        due: Show tool and deadline of the waits that ask a person, the next deadlines
            first.
    """
    if due and approver is not None:
        raise options.UsageError(
            "--approver cannot be combined with --due. Leave one of them out."
        )
    runner = command.runner()
    if due:
        _write_worklist(runner, as_json=command.as_json)
        return
    summaries = runner.waiting(kinds=kind or None, approver=approver)
    if approver is not None:
        _note_unknown_groups(runner, approver)
    if ids:
        output.write_lines(escape_invisible(wait.id) for wait in summaries)
        return
    models = "" if kind else _awaiting_models(runner)
    if command.as_json:
        _write_note(models)
        output.write_json(to_json(list(summaries)))
        return
    waits = list(summaries)
    if waits:
        output.write_lines(formatting.wait_table_lines(waits))
    else:
        person = "" if approver is None else f" for {escape_invisible(approver)}"
        hint = (
            ""
            if kind or person
            else " Events, jobs, timers and pauses are listed with --kind, for example "
            "--kind event."
        )
        output.write_note(f"No open waits{person} in {store_name(runner.store)}.{hint}")
    _write_note(models)


def _write_note(text: str) -> None:
    if text:
        output.write_note(text)


def _note_unknown_groups(runner: Runner, approver: str) -> None:
    if runner.groups is None:
        output.write_note(
            f"The groups of {escape_invisible(approver)} are not known, so waits for "
            "groups are left out. Pass --app with a Runner(groups=...)."
        )


def _write_worklist(runner: Runner, *, as_json: bool) -> None:
    page = runner.worklist(limit=MAX_PAGE)
    _write_note(_awaiting_models(runner))
    if page.next is not None:
        output.write_note(f"Only the first {MAX_PAGE} waits are shown.")
    if as_json:
        output.write_json([json_forms.listed_wait_json(row) for row in page.waits])
    elif page.waits:
        output.write_lines(formatting.worklist_lines(page.waits))
    else:
        output.write_note(f"No open waits in {store_name(runner.store)}.")


_PAGE_ROWS = 50
_MAX_COUNTED = 100


@as_command
def inbox(
    command: Command,
    *,
    whose: Annotated[str, "--for"] = "me",
    kind: str | None = None,
    words: Annotated[str, "--filter"] = "",
    limit: Annotated[int, options.Limits(1, MAX_PAGE)] = _PAGE_ROWS,
    by: str | None = None,
) -> None:
    """Show what waits for a decision, due first. Needs no agent code.

    Each wait shows its kind, its effect, the time that is left, a few facts and its
    id. `show WAIT` has everything that you need to decide. In a pipe, deadlines are
    times, and the output has no colors.

    Arguments and options:
        whose (me|all): me: the waits that --by may decide now. all: all waits
            that ask a person.
        kind (KIND): Only waits of this kind, for example question.
        words (TEXT): Only waits that show each of these words: in the title,
            the path, the run or a fact.
        limit (N): Show at most N waits.
    """
    if whose not in ("me", "all"):
        raise options.UsageError(
            f"--for must be me or all, got {whose!r}. Pass --for me --by NAME."
        )
    runner = command.runner()
    person = options.resolve_actor(by).name if whose == "me" else None
    if person is not None:
        _note_unknown_groups(runner, person)
    rows, has_more = _find(runner, person, kind, SearchWords.of_query(words), limit)
    if has_more:
        output.write_note(
            f"More waits follow. Show them with --limit, up to {MAX_PAGE}."
        )
    models = _awaiting_models(runner)
    if command.as_json:
        _write_note(models)
        output.write_json([json_forms.listed_wait_json(row) for row in rows])
        return
    if not rows:
        output.write_note(f"The store is {store_name(runner.store)}.")
    others = [*filter(None, (_others(runner), models))]
    if not sys.stdout.isatty():
        output.write_lines(_plain_lines(rows, person, others))
        return
    now = datetime.now(UTC)
    views = [_row(row.wait, now) for row in rows]
    print_inbox(_inbox_title(len(rows), person), views, others)


def _inbox_title(count: int, person: str | None) -> str:
    """Return how many decisions wait, and for whom."""
    name = "everybody" if person is None else person
    if not count:
        return "Nothing waits" if person is None else f"Nothing waits for {name}"
    return (
        f"{counted(count, 'decision')} {'waits' if count == 1 else 'wait'} for {name}"
    )


def _find(
    runner: Runner, person: str | None, kind: str | None, words: SearchWords, limit: int
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
        rows += [row for row in page.waits if words.are_in(_searched_text(row.wait))]
        after = page.next
    return rows[:limit], after is not None or len(rows) > limit


def _searched_text(wait: Wait) -> str:
    return wait_view.searched_text(wait, wait_view.row_texts(wait))


def _row(wait: Wait, now: datetime) -> wait_view.InboxRow:
    return wait_view.inbox_row(wait, wait_view.row_texts(wait), now)


def _others(runner: Runner) -> str:
    """Return how many waits need no person, in words; empty for none."""
    parts: list[str] = []
    for kind, noun in COUNTED_KINDS.items():
        found = islice(runner.waiting(kinds=[kind]), _MAX_COUNTED + 1)
        count = sum(1 for _ in found)
        if count:
            more = "more than " if count > _MAX_COUNTED else ""
            parts.append(more + counted(min(count, _MAX_COUNTED), noun))
    return f"Waits that need no person: {', '.join(parts)}" if parts else ""


def _plain_lines(
    rows: list[ListedWait], person: str | None, others: list[str]
) -> Iterator[str]:
    """Yield the rows without anything that depends on the clock or the terminal."""
    yield escape_invisible(_inbox_title(len(rows), person))
    for row in rows:
        view = _row(row.wait, row.wait.created_at)
        yield f"{view.kind.word}: {escape_invisible(view.title)}"
        due = plain_text(view.due)
        if row.wait.deadline is not None:
            due = f"by {readable_time(row.wait.deadline)}"
        due = f"{due} (expired)" if row.expired else due
        yield f"  {', '.join(filter(None, (due, escape_invisible(view.then))))}"
        for fact in view.facts:
            yield f"  {escape_invisible(fact)}"
        yield f"  {escape_invisible(view.wait_id)}"
    yield from others


@as_command
def runs(
    command: Command,
    *,
    status: str | None = None,
    agent: str | None = None,
    label: str | None = None,
    after: str = "",
    limit: options.Positive = 100,
    ids: bool = False,
) -> None:
    """List the runs of a store. Needs no agent code.

    Arguments and options:
        status (STATUS): live, ended, running, suspended, resting, finished, failed or
            cancelled. Default: all.
        agent (NAME): Only runs of this root agent.
        label (NAME=VALUE): Only runs with this label.
        after (CURSOR): Only runs after this cursor.
        limit (N): List at most N runs.
    """
    runner = command.runner()
    found = runner.runs(agent=agent, status=status, label=label, after=after)
    rows = list(islice(found, limit + 1))
    if len(rows) > limit:
        rows.pop()
        output.write_note(f"More runs follow. List them with --after {rows[-1].cursor}")
    if command.as_json:
        output.write_json(to_json(rows))
    elif ids:
        output.write_lines(row.run_id for row in rows)
    elif rows:
        output.write_lines(formatting.run_table_lines(rows))
    else:
        output.write_note(f"No such runs in {store_name(runner.store)}.")


@as_command
def show(
    command: Command,
    name: str,
    *,
    key: str | None = None,
    version: options.PositiveOrNone = None,
    everything: Annotated[bool, "--all"] = False,
    transcript: bool = False,
) -> None:
    """Show the stack of a run as a tree, or one wait. Needs no agent code.

    A conversation is a run: name it by its agent and --key, or by its run id. On a
    terminal, a wait is shown in the order of its page in the console, with the commands
    that decide it. In a pipe, the output has no colors, and nothing is folded.

    Arguments and options:
        name (RUN|WAIT|AGENT): The id of a run or of a wait. With --key, an agent.
        key (KEY): Show the conversation of the agent with this key.
        version (N): An earlier version of the run. Default: newest.
        everything: Show all levels of the tree. A terminal shows 3, and counts
            the calls below.
    """
    runner = command.runner()
    if key is not None:
        name = _conversation_id(runner, name, key)
    if "@" in name:
        if version is not None:
            raise options.UsageError(
                "--version applies to runs, and a wait has no versions. Leave it out."
            )
        _show_wait(command, runner, name)
    elif command.as_json:
        run = runner.look(name, version=version)
        detail = output.detail_of(transcript=transcript)
        decided = output.recorded_decisions(runner.store, run)
        about = json_forms.Report(datetime.now(UTC), decided, detail)
        form = json_forms.run_json(run, about, with_stack=True)
        unread = _unread_messages(runner.store, run, version)
        output.write_json(form | {"unread": _unread_json(unread)} if unread else form)
    else:
        _show_run(command, runner, name, version, everything=everything)


def _agent_state(runner: Runner, wait: Wait) -> str:
    """Return the state of the agent whose call waits; empty if it cannot be read."""
    try:
        return agent_state(runner.look(wait.run_id).run_state, wait)
    except ContinuationsError:
        return ""


def _show_wait(command: Command, runner: Runner, wait_id: str) -> None:
    wait = runner.wait(wait_id)
    state = _agent_state(runner, wait)
    if command.as_json:
        output.write_json(
            json_forms.wait_json(wait, now=datetime.now(UTC), agent_state=state)
        )
        return
    if sys.stdout.isatty():
        given = command.given_options
        print_folded(page_lines(wait, given, datetime.now(UTC), state))
        return
    output.write_lines([escape_invisible(wait.id), wait.rules.explanation])
    output.write_lines(formatting.wait_lines(wait, agent_state=state))
    schema = ("schema", wait.schema_json)
    if wait.answer_schema_json is not None:
        schema = ("schema of the answer", wait.answer_schema_json)
    output.write_lines(formatting.json_field_lines(*schema))
    if wait.form_schema_json is not None:
        form = ("schema of the form", wait.form_schema_json)
        output.write_lines(formatting.json_field_lines(*form))
    output.write_lines([f"digest: {wait.digest}"])


def _show_run(
    command: Command,
    runner: Runner,
    run_id: str,
    version: int | None,
    *,
    everything: bool,
) -> None:
    run = runner.look(run_id, version=version)
    unread = _unread_messages(runner.store, run, version)
    decisions = output.recorded_decisions(runner.store, run)
    print_folded(stack_tree.header_lines(run))
    print_folded(_unread_lines(run, unread))
    if version is None:
        print_folded(stack_tree.next_step_lines(run))
        lacked = output.worker_lacked(runner.store, run)
        if lacked is not None:
            when = readable_time(lacked.at)
            left = f"a worker left it to others at {when}: {lacked.text}"
            output.write_lines([escape_invisible(left)])
        elif command.app is None and stack_tree.awaits_worker(run, decisions):
            output.write_lines([_HOW_TO_COMPARE])
        if command.app is not None and stack_tree.awaits_worker(run, decisions):
            output.write_lines(_missing_code(command, run_id))
    is_whole = everything or not sys.stdout.isatty()
    max_depth = None if is_whole else stack_tree.FOLDED_DEPTH
    now = datetime.now(UTC)
    print_folded(stack_tree.tree_lines(run.root, decisions, now, max_depth))


_HOW_TO_COMPARE = (
    "if no worker goes on: continuations drift --app APP says which tool or agent its "
    "code lacks"
)


def _missing_code(command: Command, run_id: str) -> Iterator[str]:
    """Yield which tool or agent of a run the application lacks."""
    with suppress(ContinuationsError):
        for row in command.runner("needed").drift(run=run_id):
            for reason in row.why:
                if reason.verdict == "refuse":
                    lacks = f"{command.app} does not continue it: {reason.text}"
                    yield escape_invisible(lacks)


@as_command
def audit(command: Command, run: str) -> None:
    """Print who decided what about a run, one JSON object per line.

    Needs no agent code. Each line is a decision of a person, a program or a rule, an
    expiry, a signal or the request to cancel the run, with its time, door and digest.
    """
    # The lines are JSON with and without the option.
    for line in command.runner().audit(run):
        output.write_json(to_json(line))


def _conversation_id(runner: Runner, agent: str, key: str) -> str:
    """Return the id of the newest run of a conversation; raise `UsageError`."""
    found = portal.run_until_complete(
        newest_generation(Objects(runner.store), agent, key)
    )
    if found.version:
        return found.run_id
    raise options.UsageError(
        f"--key {key!r:.60} names no conversation of agent {agent!r:.60} in this "
        "store. List the conversations with `continuations runs`."
    )


_MAX_TEXT_CHARS = 200


def _unread_messages(
    store: Store, run: Continuation, version: int | None
) -> Sequence[InboxMessage]:
    """Return the messages after the last one that the run has read, by number."""
    if version is not None:
        return ()  # it does not say which messages had arrived by then
    return portal.run_until_complete(_read(Objects(store), run))


async def _read(objects: Objects, run: Continuation) -> list[InboxMessage]:
    last = run.run_state.run.last_inbox_number
    numbers = await MESSAGES.numbers(objects, run.run_id, last)
    # Without those of a run that was erased meanwhile.
    found = await gather_all(
        MESSAGES.read_if_there(objects, run.run_id, number) for number in numbers
    )
    return [each for each in found if each is not None]


def _unread_lines(run: Continuation, unread: Iterable[InboxMessage]) -> Iterator[Line]:
    """Yield each message with its sender, its time and its files."""
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


def _unread_json(unread: Iterable[InboxMessage]) -> list[dict[str, Any]]:
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


def _awaiting_models(runner: Runner) -> str:
    """Return how many runs of the store wait for their models; empty for none."""
    found = portal.run_until_complete(find_runs_awaiting_models(Objects(runner.store)))
    return output.with_places(awaiting_models_line(found))
