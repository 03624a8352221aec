"""The commands that advance or end runs: start, resume, cancel, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import continuations
from continuations.cli import FAILED, LIBRARY_ERROR, formatting
from continuations.cli.application import runner_with_agents, runner_without_agents
from continuations.cli.decision_input import (
    check_run_id,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.errors import UsageError
from continuations.cli.options import (
    App,
    By,
    RunId,
    StoreUrl,
    Timeout,
    WaitIfBusy,
)
from continuations.cli.output import write_lines, write_note
from continuations.cli.wait_until_free import wait_until_free
from continuations.present.escaping import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Outcome, Runner

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def start(
    text: Annotated[
        str, typer.Argument(metavar="INPUT", help="The task for the agent.")
    ],
    *,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The id of the run. A repeated start with the same id and input "
            "continues the same run. Default: a new id.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The root agent, if the runner has more than one."
        ),
    ] = None,
    wait_if_busy: WaitIfBusy = False,
    timeout: Timeout = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Start a run and advance it until it ends or must wait."""
    runner = runner_with_agents(app, store, command="start")
    _advance(
        runner,
        lambda: runner.start(text, run_id=run_id, agent=agent),
        wait_if_busy=wait_if_busy,
        timeout=timeout,
    )


def resume(
    run: RunId,
    *,
    wait_if_busy: WaitIfBusy = False,
    timeout: Timeout = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Apply the recorded decisions of a run and advance it."""
    check_run_id(run, command="resume")
    runner = runner_with_agents(app, store, command="resume")
    _advance(
        runner, lambda: runner.resume(run), wait_if_busy=wait_if_busy, timeout=timeout
    )


def cancel(
    run: RunId,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why. It is recorded.")
    ] = None,
    by: By = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """End a run and all its open waits. Needs no agent code."""
    check_run_id(run, command="cancel")
    actor = resolve_actor(by)
    state = runner_without_agents(app, store).cancel(run, reason=reason, by=actor.name)
    name = escape_invisible(run)
    if state.status in ("finished", "failed"):
        write_lines([f"{name}: already {state.status}; nothing was cancelled"])
        raise typer.Exit(FAILED)
    write_actor_note(actor)
    result = "cancelled"
    if state.status != "cancelled":
        result = (
            "cancel request recorded; the process that holds the claim stops "
            "at its next commit"
        )
    write_lines([f"{name}: {result}"])


def sweep(*, app: App = None, store: StoreUrl = None) -> None:
    """Check the runs that are due, repair them, and resume those that can continue.

    Without --app no run is resumed. A run that needs your agents is skipped: a sweep
    with its agents resumes it.
    """
    runner = (
        runner_without_agents(None, store)
        if app is None
        else runner_with_agents(app, store, command="sweep")
    )
    result = runner.sweep()
    write_lines([f"runs checked: {result.runs_checked}"])
    for outcome in result.resumed:
        write_lines(formatting.outcome_lines(outcome))
    for run_id in sorted(result.skipped):
        write_lines([f"skipped: {run_id}: {result.skipped[run_id]}"])
    for run_id, error in result.errors.items():
        write_note(f"{run_id}: {type(error).__name__}: {error}")
    if result.errors:
        raise typer.Exit(LIBRARY_ERROR)


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
            attempt, runner.resume, timeout=timeout, write_note=write_note
        )
    else:
        outcome = attempt()
    for change in outcome.code_changes:
        write_note(
            f"note: the code changed since the run started: {change.where}: "
            f"{change.what} ({change.kind})"
        )
    write_lines(formatting.outcome_lines(outcome))
    if isinstance(outcome, continuations.Failed):
        raise typer.Exit(FAILED)
