"""rewind: let a live run go on from an earlier version, after a look at the plan."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from continuations.cli import FAILED
from continuations.cli.application import runner_for_command
from continuations.cli.confirmation import confirm
from continuations.cli.decision_input import check_run_id, resolve_actor
from continuations.cli.errors import UsageError
from continuations.cli.json_output import write_json
from continuations.cli.options import App, By, Json, RunId, StoreUrl  # noqa: TC001 - typer reads the annotations
from continuations.cli.output import write_lines, write_note
from continuations.core.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import rewind_plan_json, rewound_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from continuations import Runner, Wait
    from continuations.core.run_past import BegunCall, TakenMessage
    from continuations.past import RewindPlan

# typer reads the annotations when it runs.

_MAX_TEXT_CHARS = 200


def rewind(  # noqa: PLR0913 - one parameter for each option
    run: RunId,
    *,
    version: Annotated[
        int, typer.Option(min=1, metavar="N", help="The version to go on from.")
    ],
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print what the rewind would do, and stop. Nothing changes."
        ),
    ] = False,
    shown: Annotated[
        str | None,
        typer.Option(
            metavar="DIGEST",
            help="The digest that --plan printed. If the run moved on since, nothing "
            "changes.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not show the plan, and do not ask.")
    ] = False,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Let a live run go on from an earlier version. Nothing runs.

    On a terminal, the command shows the plan and asks. The output lists what is not
    undone: the calls that were started since, and the messages that were read. Fork a
    run that has ended. With --plan, the exit code is 1 if the run cannot go back.
    """
    check_run_id(run, command="rewind")
    if plan and (yes or shown is not None):
        msg = "--plan changes nothing, so it takes no --yes and no --shown."
        raise UsageError(f"{msg} Leave them out.")
    runner = runner_for_command(app, store, command="rewind")
    if plan:
        _write_plan(runner, runner.plan_rewind(run, version), json=json)
        return
    if shown is None and not yes and sys.stdin.isatty():
        shown = _ask(runner, runner.plan_rewind(run, version))
    actor = resolve_actor(by)
    rewound = runner.rewind(run, version, shown=shown, by=actor.name, door=actor.door)
    if json:
        write_json(rewound_json(rewound, "texts"))
        return
    run = escape_invisible(run)
    goes_on = f"it goes on from version {version} as version {rewound.version}"
    write_lines([f"{run}: {goes_on}"])
    write_lines(_not_undone_lines(rewound.calls, rewound.messages))
    write_lines([f"next: continuations resume {run}"])


def _write_plan(runner: Runner, plan: RewindPlan, *, json: bool) -> None:
    if json:
        write_json(rewind_plan_json(plan, "texts"))
    elif plan.refusal is None:
        write_lines(_plan_lines(runner, plan))
        words = ("rewind", plan.run_id, "--version", str(plan.version))
        write_lines([_next_line((*words, "--shown", plan.digest))])
    else:
        run_id, why = escape_invisible(plan.run_id), escape_invisible(plan.refusal)
        write_lines([f"{run_id} cannot go back to version {plan.version}: {why}."])
        if runner.look(plan.run_id).run_state.run.status in ENDED_STATUSES:
            fork = ("fork", plan.run_id, "--version", str(plan.version))
            write_lines([_next_line(fork)])
    if plan.refusal is not None:
        raise typer.Exit(FAILED)


def _next_line(words: Iterable[str]) -> str:
    return f"next: {escape_invisible(shlex.join(('continuations', *words)))}"


def _ask(runner: Runner, plan: RewindPlan) -> str:
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
    from continuations.present import wait_words  # noqa: PLC0415 - only a plan needs it

    title = escape_invisible(shorten(wait_words.title(wait), _MAX_TEXT_CHARS))
    return f"{title} ({escape_invisible(wait.id)})"
