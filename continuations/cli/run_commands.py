"""The commands that work on runs: start, resume, sweep."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

import continuations
from continuations.cli import FAILED, LIBRARY_ERROR, formatting, output
from continuations.cli.application import (
    load_context,
    runner_for_command,
    runner_with_agents,
)
from continuations.cli.decision_input import check_run_id
from continuations.cli.interruption import advance_until_stopped, stopped_by_signals
from continuations.cli.options import (
    App,
    Context,
    Files,
    Json,
    Labels,
    MaxCost,
    MaxRequests,
    MaxTokens,
    NewRunId,
    Requester,
    RootAgent,
    RunId,
    Settings,
    StoreUrl,
    Stream,
    Timeout,
    Title,
    UsageError,
    WaitIfBusy,
    input_with_files,
    parse_settings,
)
from continuations.cli.output import write_lines, write_note
from continuations.engine.ports import Ports
from continuations.engine.sync import portal
from continuations.errors import RunBusy, StaleRun
from continuations.present.json_forms import sweep_result_json
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Outcome, Runner
    from continuations.cli.event_printer import EventPrinter
    from continuations.cli.interruption import Attempt, StopSwitch


def start(  # noqa: PLR0913 - one parameter for each option
    text: Annotated[
        str, typer.Argument(metavar="INPUT", help="The task for the agent, as text.")
    ],
    *,
    run_id: NewRunId = None,
    agent: RootAgent = None,
    label: Labels = None,
    title: Title = None,
    by: Requester = None,
    no_work: Annotated[
        bool,
        typer.Option(
            "--no-work", help="Only store the run. A sweep or resume works on it."
        ),
    ] = False,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    setting: Settings = None,
    file: Files = None,
    context: Context = None,
    wait_if_busy: WaitIfBusy = False,
    timeout: Timeout = None,
    stream: Stream = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Start a run and advance it until it ends or must wait."""
    _check_stream(stream=stream, no_work=no_work)
    runner = runner_with_agents(app, store, command="start", may_be_first=True)
    ports = Ports()
    # The id is chosen here, so that every note can name the run.
    name = run_id if run_id is not None else ports.ids.new_ulid(ports.clock.now())
    options: dict[str, Any] = {
        "input": input_with_files(text, file or []),
        "run_id": name,
        "agent": agent,
        "context": load_context(context),
        "budget": _parse_budget(max_requests, max_tokens, max_cost),
        "work": not no_work,
        "labels": _parse_labels(label or []),
        "title": title,
        "by": by,
        "settings": parse_settings(setting or []),
    }

    advance = _Advance(runner, name, options["context"], json, _printer(stream, json))

    def attempt(should_pause: Any) -> Any:
        return runner.async_runner.start(
            should_pause=should_pause, on_event=advance.printer, **options
        )

    advance.run(attempt, wait_if_busy=wait_if_busy, timeout=timeout)


def _check_stream(*, stream: bool, no_work: bool) -> None:
    if stream and no_work:
        msg = (
            "--stream prints the work on the run, and --no-work leaves it out. Leave "
            "one of them out."
        )
        raise UsageError(msg)


def _parse_budget(
    requests: int | None, tokens: int | None, cost: str | None
) -> continuations.Budget | None:
    if (requests, tokens, cost) == (None, None, None):
        return None
    return continuations.Budget(requests=requests, tokens=tokens, cost=cost)


def _parse_labels(options: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or name in labels:
            msg = (
                f"--label {option!r} is not valid: it must be NAME=VALUE, with another "
                "name for each label. Pass for example --label team=finance."
            )
            raise UsageError(msg)
        labels[name] = value
    return labels


def resume(  # noqa: PLR0913 - one parameter for each option
    run: RunId,
    *,
    context: Context = None,
    reopen: Annotated[
        bool,
        typer.Option(
            "--reopen",
            help="Ask again about approved calls whose tool the application lacks. "
            "Default: the approval is kept for a process with the tool.",
        ),
    ] = False,
    wait_if_busy: WaitIfBusy = False,
    timeout: Timeout = None,
    stream: Stream = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Apply the recorded decisions of a run and advance it."""
    check_run_id(run, command="resume")
    runner = runner_with_agents(app, store, command="resume")
    given = load_context(context)
    advance = _Advance(runner, run, given, json, _printer(stream, json), reopen)
    advance.run(advance.resume, wait_if_busy=wait_if_busy, timeout=timeout)


def sweep(
    *,
    context: Context = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Check the runs that are due, repair them, and resume those that can continue.

    Without --app no run is resumed. A run that needs your agents is skipped: a sweep
    with its agents resumes it.
    """
    runner = runner_for_command(app, store, command="sweep")
    result = runner.sweep(context=load_context(context))
    if json:
        output.write_json(sweep_result_json(result))
    else:
        write_lines([f"runs checked: {result.runs_checked}"])
        for outcome in result.resumed:
            write_lines(formatting.outcome_lines(outcome))
        for run_id in sorted(result.skipped):
            write_lines([f"skipped: {run_id}: {result.skipped[run_id]}"])
    for run_id, error in result.errors.items():
        write_note(f"{run_id}: {type(error).__name__}: {error}")
    if result.errors:
        raise typer.Exit(LIBRARY_ERROR)


def _printer(is_wanted: bool, as_json: bool) -> EventPrinter | None:
    if not is_wanted:
        return None
    from continuations.cli.event_printer import EventPrinter  # noqa: PLC0415 - only --stream needs it

    return EventPrinter(as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Advance:
    """Works on one run until it ends, waits, or a signal stops the command."""

    runner: Runner
    run_id: str
    context: Any
    as_json: bool
    printer: EventPrinter | None
    reopen: bool = False

    def resume(self, should_pause: Any) -> Any:
        """Resume the run."""
        return self.runner.async_runner.resume(
            self.run_id,
            context=self.context,
            should_pause=should_pause,
            on_event=self.printer,
            reopen=self.reopen,
        )

    def run(
        self, attempt: Attempt, *, wait_if_busy: bool, timeout: float | None
    ) -> None:
        """Make the attempt, print its outcome, and exit with its code."""
        if timeout is not None and not wait_if_busy:
            msg = "--timeout needs --wait-if-busy. Add it, or leave --timeout out."
            raise UsageError(msg)
        with stopped_by_signals() as switch:
            try:
                outcome = self._outcome(attempt, switch, timeout, wait=wait_if_busy)
            except KeyboardInterrupt:
                self._write_stopped()
                raise typer.Exit(switch.exit_code) from None
            finally:
                if self.printer is not None:
                    self.printer.end()
            if outcome is not None:
                self._write_outcome(outcome)
            if switch.is_set():
                self._write_stopped()
                raise typer.Exit(switch.exit_code)
        if isinstance(outcome, continuations.Failed):
            raise typer.Exit(FAILED)

    def _outcome(
        self,
        attempt: Attempt,
        switch: StopSwitch,
        timeout: float | None,
        *,
        wait: bool,
    ) -> Outcome | None:
        def run(attempt: Attempt) -> Outcome | None:
            return portal.run_until_complete(
                advance_until_stopped(
                    self.runner.async_runner, self.run_id, attempt, switch
                )
            )

        if not wait:
            return run(attempt)
        return _wait_until_free(
            partial(run, attempt),
            partial(run, self.resume),
            timeout=timeout,
            is_stopped=switch.is_set,
            write_note=write_note,
        )

    def _write_outcome(self, outcome: Outcome) -> None:
        for change in outcome.code_changes:
            write_note(
                f"note: the code changed since the run started: {change.where}: "
                f"{change.what} ({change.kind})"
            )
        if not self.as_json:
            write_lines(formatting.outcome_lines(outcome))
            return
        output.write_json(output.outcome_form(self.runner.store, outcome))

    def _write_stopped(self) -> None:
        """Say what a signal left behind."""
        try:
            claim = self.runner.look(self.run_id).run_state.run.claim
        except continuations.ContinuationsError as error:
            write_note(f"stopped: run {self.run_id}: {type(error).__name__}: {error}")
            return
        text = "is not claimed; any process can resume it at once"
        if claim is not None:
            text = (
                f"is claimed until {readable_time(claim.until)}; resume it then. If a "
                "tool of this process was in progress, its outcome may be unknown"
            )
        write_note(f"stopped: run {self.run_id} {text}")


# Seconds between two attempts. An attempt on a busy run costs one listing and one read.
_FIRST_DELAY, _MAX_DELAY = 0.1, 1.0


def _wait_until_free(
    attempt: Callable[[], Outcome | None],
    resume: Callable[[], Outcome | None],
    *,
    timeout: float | None,
    is_stopped: Callable[[], bool],
    write_note: Callable[[str], None],
) -> Outcome | None:
    """Return the outcome of an attempt, and resume the run while it is busy.

    A claim ends when its process commits the last version, or at its deadline if the
    process died. Raises `RunBusy` or `StaleRun` after `timeout` seconds. Returns `None`
    once `is_stopped` is true.
    """
    end = None if timeout is None else time.monotonic() + timeout
    delay = _FIRST_DELAY
    while not is_stopped():
        try:
            return attempt()
        except (RunBusy, StaleRun) as error:
            time_left = _MAX_DELAY if end is None else end - time.monotonic()
            if time_left <= 0:
                raise
            if delay == _FIRST_DELAY:
                write_note(f"waiting: {error}")
            attempt = resume
        time.sleep(min(delay, time_left))
        delay = min(delay * 2, _MAX_DELAY)
    return None
