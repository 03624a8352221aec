"""The commands about the past of a run: watch, history, diff, fork, rewind."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

import continuations
from continuations.cli import FAILED, options
from continuations.cli.command import Command, as_command
from continuations.cli.event_lines import difference_lines, event_line, version_lines
from continuations.cli.output import confirm, detail_of, write_json, write_note
from continuations.cli.terminal import print_folded, print_lines
from continuations.core.reading import withheld_texts
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.visible_text import escape_invisible, shorten
from continuations.present import json_forms, wait_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from continuations import Runner, Wait
    from continuations.core.reading.run_past import BegunCall, TakenMessage
    from continuations.core.rows.decisions import Verdict
    from continuations.past import RewindPlan

_MAX_TEXT_CHARS = 200


@as_command
def history(
    command: Command,
    run: str,
    *,
    after: options.Natural = 0,
    limit: options.Positive = 100,
    transcript: bool = False,
) -> None:
    """List the versions of a run: when, by whom, and what changed. Needs no agent code.

    `show RUN --version N` shows one of them, and `diff` compares two.

    Arguments and options:
        after (N): Only versions after this one.
        limit (N): List at most N versions.
    """
    found = command.runner().history(run, after=after)
    detail = detail_of(transcript=transcript)
    versions = (withheld_texts.shown_version(each, detail) for each in found)
    last = after
    for version in islice(versions, limit):
        last = version.number
        if command.as_json:
            write_json(json_forms.version_json(version, "transcript"))
        else:
            print_lines(version_lines(version))
    if next(versions, None) is not None:
        write_note(f"More versions follow. List them with --after {last}")


@as_command
def diff(
    command: Command,
    run: str,
    before: options.Positive,
    after: options.Positive,
    *,
    transcript: bool = False,
) -> None:
    """Compare two versions of a run. Needs no agent code.

    Arguments and options:
        before (A): The number of a version.
        after (B): The number of another version.
    """
    found = command.runner().diff(run, before, after)
    found = withheld_texts.shown_difference(found, detail_of(transcript=transcript))
    if command.as_json:
        write_json(json_forms.difference_json(found, "transcript"))
    else:
        print_lines(difference_lines(found))


@as_command
def fork(
    command: Command,
    run: str,
    *,
    version: options.PositiveOrNone = None,
    run_id: str | None = None,
    decide: list[str] | None = None,
    result: list[str] | None = None,
    message: list[str] | None = None,
    by: str | None = None,
) -> None:
    """Start a new run from a version of a run, also of an ended one. Nothing runs.

    Everything that the run was allowed to do, or started, is asked about again. --app
    tells which tools only read; without it, calls of all tools are asked about.

    Arguments and options:
        version (N): The version to go on from. Default: the newest.
        run_id (ID): The id of the fork. A repeat with the same id does nothing more.
            Default: a new one.
        decide (WAIT=VERDICT): Decide an open wait of the version: WAIT=approve,
            WAIT=deny or WAIT=answer:JSON. Repeat it for more waits.
        result (CALL=JSON): The result of an open call of the version; its tool does not
            run.
        message (FRAME=TEXT): A message of the user that is added to an agent, for
            example f1=Hello.
    """
    runner = command.runner("if given")
    actor = options.resolve_actor(by)
    verdicts = {
        wait: _verdict(text, actor.name)
        for wait, text in options.parse_pairs(
            decide or (), "--decide", "WAIT=approve"
        ).items()
    }
    if verdicts:
        options.write_actor_note(actor)
    results = options.parse_pairs(result or (), "--result", "'c4=\"paid\"'")
    forked = runner.fork(
        run,
        version,
        run_id=run_id,
        decisions=verdicts,
        results={
            key: options.parse_json_value(text, name="--result", hint="Pass CALL=JSON.")
            for key, text in results.items()
        },
        messages=options.parse_pairs(message or (), "--message", "f1=Hello"),
        by=actor.name,
        door=actor.door,
    )
    lines = [f"{forked}: a fork of {run}", f"next: continuations resume {forked}"]
    command.write(lambda: {"run_id": forked}, lines)


def _verdict(text: str, by: str) -> Verdict:
    kind, _, value = text.partition(":")
    if kind == "answer":
        hint = 'Pass WAIT=answer:JSON, such as WAIT=answer:"blue".'
        answer = options.parse_json_value(
            value, name="the answer of --decide", hint=hint
        )
        return continuations.Answer(answer, by=by)
    if text == "approve":
        return continuations.Approve(by=by)
    if text == "deny":
        return continuations.Deny(by=by)
    raise options.UsageError(
        f"--decide has no verdict {text[:60]!r}. Pass approve, deny or answer:JSON."
    )


@as_command
def rewind(
    command: Command,
    run: str,
    *,
    version: options.Positive,
    plan: bool = False,
    shown: str | None = None,
    yes: bool = False,
    by: str | None = None,
) -> None:
    """Let a live run go on from an earlier version. Nothing runs.

    On a terminal, the command shows the plan and asks. The output lists what is not
    undone: the calls that were started since, and the messages that were read. Fork a
    run that has ended. With --plan, the exit code is 1 if the run cannot go back.

    Arguments and options:
        version (N): The version to go on from.
        plan: Print what the rewind would do, and stop. Nothing changes.
        shown (DIGEST): The digest that --plan printed. If the run moved on since,
            nothing changes.
        yes: Do not show the plan, and do not ask.
    """
    if plan and (yes or shown is not None):
        msg = "--plan changes nothing, so it takes no --yes and no --shown."
        raise options.UsageError(f"{msg} Leave them out.")
    runner = command.runner("if given")
    if plan:
        planned = runner.plan_rewind(run, version)
        form = partial(json_forms.rewind_json, planned, "texts")
        command.write(form, _offer_lines(runner, planned))
        if planned.refusal is not None:
            raise typer.Exit(FAILED)
        return
    if shown is None and not yes and sys.stdin.isatty():
        shown = _confirm_rewind(runner, runner.plan_rewind(run, version))
    actor = options.resolve_actor(by)
    rewound = runner.rewind(run, version, shown=shown, by=actor.name, door=actor.door)
    run = escape_invisible(run)
    goes_on = f"it goes on from version {version} as version {rewound.version}"
    lines = [
        f"{run}: {goes_on}",
        *_not_undone_lines(rewound.calls, rewound.messages),
        f"next: continuations resume {run}",
    ]
    command.write(partial(json_forms.rewind_json, rewound, "texts"), lines)


def _offer_lines(runner: Runner, plan: RewindPlan) -> Iterator[str]:
    """Yield a plan, and the command that makes the rewind or, if it cannot, a fork."""
    if plan.refusal is None:
        yield from _plan_lines(runner, plan)
        yield _next_line("rewind", plan, "--shown", plan.digest)
        return
    run_id, why = escape_invisible(plan.run_id), escape_invisible(plan.refusal)
    yield f"{run_id} cannot go back to version {plan.version}: {why}."
    if runner.look(plan.run_id).run_state.run.status in ENDED_STATUSES:
        yield _next_line("fork", plan)


def _next_line(name: str, plan: RewindPlan, *more: str) -> str:
    version = ("--version", str(plan.version))
    words = ("continuations", name, plan.run_id, *version, *more)
    return f"next: {escape_invisible(shlex.join(words))}"


def _confirm_rewind(runner: Runner, plan: RewindPlan) -> str:
    """Show the plan on standard error and ask; return the digest of the plan."""
    if plan.refusal is None:  # else `rewind` raises an error that says why
        for line in _plan_lines(runner, plan):
            write_note(line)
        run_id = plan.run_id
        question = f"Let run {run_id} go back to version {plan.version}?"
        confirm(question, "Nothing was changed.")
    return plan.digest


def _plan_lines(runner: Runner, plan: RewindPlan) -> Iterator[str]:
    """Yield what a rewind closes, asks again and does not undo."""
    run_id = escape_invisible(plan.run_id)
    versions = f"version {plan.version} instead of version {plan.newest}"
    yield f"{run_id}: it would go on from {versions}"
    for wait in plan.waits:
        yield f"  closed: {_wait_text(wait)}"
    for wait in runner.look(plan.run_id, version=plan.version).waits:
        if wait.subject != "run":
            yield f"  asked again: {_wait_text(wait)}"
    yield from _not_undone_lines(plan.calls, plan.messages)
    if not plan.calls and not plan.messages:
        yield "  no call was started and no message was read since then"


def _not_undone_lines(
    calls: Iterable[BegunCall], messages: Iterable[TakenMessage]
) -> Iterator[str]:
    for call in calls:
        path = escape_invisible("/".join(call.path))
        arguments = escape_invisible(
            shorten(call.arguments_json or "", _MAX_TEXT_CHARS)
        )
        yield f"  not undone: {path} {arguments}"
    for message in messages:
        text = escape_invisible(shorten(message.text, _MAX_TEXT_CHARS))
        by = f" from {escape_invisible(message.by)}" if message.by else ""
        yield f"  not read again: message {message.number}{by}: {text}"


def _wait_text(wait: Wait) -> str:
    """Return the effect that a wait asks about, and its id."""
    title = escape_invisible(shorten(wait_words.title(wait), _MAX_TEXT_CHARS))
    return f"{title} ({escape_invisible(wait.id)})"


@as_command
def watch(
    command: Command,
    run: str,
    *,
    after: str = "",
    follow: Annotated[bool, "--follow", "-f"] = False,
    transcript: bool = False,
) -> None:
    """Print what happened in a run, one event per line. Needs no agent code.

    Each line begins with the cursor of the event, for --after. With --json, each line
    is the whole event; without it, long texts are shortened.

    Arguments and options:
        after (CURSOR): Print only the events after this cursor, for example 3.2.
        follow: Wait for the next events until the run ends or the thread
            rests. Ctrl-C stops it, and never the run.
    """
    runner = command.runner()
    detail = detail_of(transcript=transcript)
    found = runner.events(run, after=after, follow=follow)
    events = (withheld_texts.shown_event(each, detail) for each in found)
    if command.as_json:
        for event in events:
            write_json(json_forms.event_json(event, "transcript"))
            sys.stdout.flush()  # a program that reads the lines waits for each
        return

    print_folded(map(event_line, events))
