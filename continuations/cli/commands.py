"""The commands, one function each: what they take, what they print."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

import continuations
from continuations.cli import FAILED, LIBRARY_ERROR, formatting
from continuations.cli.application import runner_with_agents, runner_without_agents
from continuations.cli.decision_input import (
    parse_arguments,
    parse_json_value,
    resolve_actor,
    resolve_wait_id,
)
from continuations.cli.errors import UsageError
from continuations.cli.options import (
    App,
    By,
    Json,
    Reason,
    RunId,
    StoreUrl,
    Timeout,
    WaitId,
    WaitIfBusy,
)
from continuations.cli.wait_until_free import wait_until_free
from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import wait_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations import Outcome, Runner
    from continuations.core.decisions import Verdict

# typer reads the annotations when it runs.
# ruff: noqa: TC001

app = typer.Typer(
    help="Runs of agents that wait for people. Start one, decide what it waits for, "
    "resume it: in any process, on any machine.",
    epilog="Exit codes: 0 done or waiting, 1 the run failed, or the doctor found "
    "damage, 2 wrong command line, "
    "4 another process holds the run, 5 other errors, 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(continuations.__version__)
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Hold what stands before the commands; the help is the application's."""


# Moving runs on -------------------------------------------------------------


@app.command()
def start(
    text: Annotated[str, typer.Argument(help="What the agent is asked to do.")],
    *,
    run_id: Annotated[
        str | None, typer.Option(help="The run's id; repeating a start is safe.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Which root agent, if there are several.")
    ] = None,
    wait_if_busy: WaitIfBusy = False,
    timeout: Timeout = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Begin a run and work on it until it ends or must wait."""
    runner = runner_with_agents(app, store)
    _advance(
        runner,
        lambda: runner.start(text, run_id=run_id, agent=agent),
        wait_if_busy=wait_if_busy,
        timeout=timeout,
    )


@app.command()
def resume(
    run: RunId,
    *,
    wait_if_busy: WaitIfBusy = False,
    timeout: Timeout = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Go on with a run: what was decided takes effect."""
    runner = runner_with_agents(app, store)
    _advance(
        runner, lambda: runner.resume(run), wait_if_busy=wait_if_busy, timeout=timeout
    )


@app.command()
def cancel(
    run: RunId,
    *,
    reason: Annotated[str | None, typer.Option(help="Why; it is recorded.")] = None,
    by: By = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """End a run for good, and every open wait with it. Needs no code."""
    who, origin = resolve_actor(by)
    state = runner_without_agents(app, store).cancel(run, reason=reason, by=who)
    _print_actor_note(who, origin)
    if state.status in ("finished", "failed"):
        _print(
            [f"{escape_invisible(run)}: {state.status} before; nothing was cancelled"]
        )
        raise typer.Exit(FAILED)
    if state.status == "cancelled":
        _print([f"{escape_invisible(run)}: cancelled"])
    else:
        held = "recorded; the process that holds the run stops at its next commit"
        _print([f"{escape_invisible(run)}: {held}"])


@app.command()
def sweep(*, app: App = None, store: StoreUrl = None) -> None:
    """Look at the runs whose time has come, and resume what can move.

    Without --app it mends and resumes nothing.
    """
    runner = (
        runner_without_agents(None, store)
        if app is None
        else runner_with_agents(app, store)
    )
    swept = runner.sweep()
    _print([f"looked at: {swept.runs_checked}"])
    for outcome in swept.resumed:
        _print(formatting.outcome_lines(outcome))
    for run_id, error in swept.errors.items():
        _print_note(f"{run_id}: {type(error).__name__}: {error}")
    if swept.errors:
        raise typer.Exit(LIBRARY_ERROR)


# Looking --------------------------------------------------------------------


@app.command()
def waiting(
    *,
    json: Json = False,
    ids: Annotated[bool, typer.Option("--ids", help="Print ids only.")] = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """List the open waits of a store. Needs no code."""
    found = runner_without_agents(app, store).waiting()
    if ids:
        _print(escape_invisible(wait.id) for wait in found)
        return
    if json:
        names = ("id", "run_id", "kind")
        rows = [
            {name: getattr(wait, name) for name in names}
            | {"since": wait.created_at.isoformat()}
            for wait in found
        ]
        _print([formatting.ascii_json(rows)])
        return
    waits = list(found)
    if not waits:
        _print_note("Nothing waits here.")
        return
    _print(formatting.wait_table_lines(waits))


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="RUN|WAIT", help="The id of a run or of a wait.")
    ],
    *,
    version: Annotated[
        int | None, typer.Option(min=1, help="An earlier version of the run.")
    ] = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Draw the stack of a run, or tell all about a wait. Needs no code."""
    runner = runner_without_agents(app, store)
    if "@" in name:
        if version is not None:
            msg = "--version is of runs; a wait has none."
            raise UsageError(msg)
        _show_wait(runner, name, json=json)
    else:
        _show_run(runner, name, version, json=json)


def _show_wait(runner: Runner, wait_id: str, *, json: bool) -> None:
    found = runner.wait(wait_id)
    if json:
        _print([formatting.ascii_json(wait_json(found))])
        return
    _print([escape_invisible(found.id)])
    _print(formatting.wait_lines(found))
    _print(formatting.json_field_lines("schema", found.schema_json))
    _print([f"digest: {found.digest}"])


def _show_run(runner: Runner, run_id: str, version: int | None, *, json: bool) -> None:
    # Looking loads the engine's tree and rich, which no decision needs.
    from continuations.cli import stack_tree  # noqa: PLC0415
    from continuations.cli.terminal import print_lines  # noqa: PLC0415
    from continuations.cli.wait_status import wait_endings  # noqa: PLC0415

    state = runner.look(run_id, version=version)
    ends = wait_endings(runner, state.waits)
    if json:
        _print([formatting.ascii_json(formatting.run_json(state, ends))])
        return
    print_lines(stack_tree.header_lines(state))
    print_lines(stack_tree.tree_lines(state.root, ends))


@app.command()
def doctor(
    run: RunId,
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Go on from the last good version. What the lost ones did is asked "
            "about, never repeated on a guess; damaged objects stay as they are.",
        ),
    ] = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Say what of a run can be read, and repair it. Needs no code.

    Ends with 1 if anything is damaged and was not repaired.
    """
    # Only who has damage pays for what mends it.
    from continuations.cli import doctor  # noqa: PLC0415

    runner = runner_without_agents(app, store)
    found = doctor.examine_run(runner, run)
    number = doctor.repair_run(runner, found) if repair else None
    if json:
        _print([formatting.ascii_json(doctor.examination_json(found, number))])
    else:
        _print(doctor.examination_lines(found, number))
    if found.findings and number is None:
        raise typer.Exit(FAILED)


# Deciding -------------------------------------------------------------------


@app.command()
def approve(
    wait: WaitId,
    *,
    by: By = None,
    reason: Reason = None,
    arguments: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE", help="Run it with these arguments instead."),
    ] = None,
    run_again: Annotated[
        bool,
        typer.Option(
            "--run-again", help="Of an unknown outcome: it did not happen, run."
        ),
    ] = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Say yes: the call runs as the wait shows it. Needs no code."""
    if wait.startswith("unknown-") and not run_again:
        msg = (
            "This call was started and may have happened; to approve it is to run it "
            "once more. Give --run-again if it did not happen, `answer` if it did."
        )
        raise UsageError(msg)
    edited: Any = None if arguments is None else parse_arguments(arguments)
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda who: continuations.Approve(by=who, reason=reason, arguments=edited),
    )


@app.command()
def deny(
    wait: WaitId,
    *,
    by: By = None,
    reason: Reason = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Say no: the call does not run, and the agent is told so. Needs no code."""
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda who: continuations.Deny(by=who, reason=reason),
    )


@app.command(context_settings={"ignore_unknown_options": True})
def answer(
    wait: WaitId,
    value: Annotated[str, typer.Argument(help="The answer, in JSON.")],
    *,
    text: Annotated[
        bool, typer.Option("--text", help="The value is a text, not JSON.")
    ] = False,
    by: By = None,
    reason: Reason = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Give a value in place of running the call. Needs no code."""
    hint = "Say --text if it is a text, or quote it as JSON."
    given = value if text else parse_json_value(value, hint=hint)
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda who: continuations.Answer(given, by=who, reason=reason),
    )


# What the commands share ----------------------------------------------------


def _advance(
    runner: Runner,
    attempt: Callable[[], Outcome],
    *,
    wait_if_busy: bool,
    timeout: float | None,
) -> None:
    if timeout is not None and not wait_if_busy:
        msg = "--timeout needs --wait-if-busy. Add it, or leave --timeout out."
        raise UsageError(msg)
    if wait_if_busy:
        outcome = wait_until_free(
            attempt, runner.resume, timeout=timeout, print_note=_print_note
        )
    else:
        outcome = attempt()
    for change in outcome.code_changes:
        _print_note(f"the code changed: {change.where}: {change.what} ({change.kind})")
    _print(formatting.outcome_lines(outcome))
    if isinstance(outcome, continuations.Failed):
        raise typer.Exit(FAILED)


def _decide(
    runner: Runner, wait_id: str, by: str | None, make_verdict: Callable[[str], Verdict]
) -> None:
    who, origin = resolve_actor(by)
    wait_id = resolve_wait_id(runner, wait_id)
    decision = runner.decide(wait_id, make_verdict(who))
    _print_actor_note(who, origin)
    run_id = wait_id.partition("@")[2]
    _print(formatting.decision_lines(decision, run_id))


def _print_actor_note(who: str, origin: str) -> None:
    if origin:
        _print_note(f"by {who}: {origin}")


def _print_note(text: str) -> None:
    typer.echo(escape_invisible(text), err=True)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
