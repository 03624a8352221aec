"""The commands that make runs and work on them: start, resume, sweep, drift, adopt."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import continuations
from continuations.cli import FAILED, LIBRARY_ERROR, formatting, options
from continuations.cli.command import Command, as_command, load_context
from continuations.cli.event_lines import EventPrinter
from continuations.cli.interruption import advance_until_stopped, stopped_by_signals
from continuations.cli.output import write_note
from continuations.core.visible_text import escape_invisible
from continuations.engine.past.drift import allowed_changes
from continuations.engine.ports import Ports
from continuations.engine.sync import portal
from continuations.errors import AlreadyDecided, ContinuationsError, RunBusy, StaleRun
from continuations.ledger.layout import is_thread_id
from continuations.present.json_forms import SWEEP_RESULT
from continuations.present.times import counted
from continuations.serve.operation_calls import TextsViewer, outcome_response
from continuations.wire.fields import readable_time
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Outcome, Runner, Wait
    from continuations.cli.interruption import Attempt, StopSwitch
    from continuations.interop.snaplogic import PausedRun
    from continuations.results import DriftRow, SweepResult


@as_command
def start(  # noqa: PLR0913 - one parameter for each option
    command: Command,
    text: str = "",
    *,
    run_id: str | None = None,
    agent: str | None = None,
    args: str | None = None,
    label: list[str] | None = None,
    title: str | None = None,
    requester: options.Requester = None,
    no_work: bool = False,
    max_requests: options.PositiveOrNone = None,
    max_tokens: options.PositiveOrNone = None,
    max_cost: str | None = None,
    setting: list[str] | None = None,
    trace_context: str | None = None,
    file: list[str] | None = None,
    context: str | None = None,
    wait_if_busy: bool = False,
    timeout: options.SecondsOrNone = None,
    stream: bool = False,
) -> None:
    """Start a run and advance it until it ends or must wait.

    Arguments and options:
        text ([INPUT]): The task for the agent, as text.
        run_id (ID): The id of the run. A repeated start with the same id and input
            continues the same run. Default: a new id.
        args (JSON|@FILE): The arguments of a workflow, as a JSON object.
        label (NAME=VALUE): A label by which `runs` finds the run. Repeat it for more
            labels.
        title (TEXT): A title for people: listings and the console show it.
        no_work: Only store the run. A sweep or resume works on it.
        max_requests (N): Limit the model requests of the run.
        max_tokens (N): Limit the model tokens of the run.
        max_cost (AMOUNT): Limit the cost of the run, for example 2.50. The runner needs
            prices.
        setting (NAME=JSON): A model setting of the run, for example temperature=0. It
            is stored. Repeat it for more settings.
        trace_context (TEXT): The trace of the caller, a W3C header traceparent.
    """
    printer = _printer(command, stream=stream, no_work=no_work)
    runner = command.runner("needed", may_be_first=True)
    name = _new_run_id() if run_id is None else run_id
    given: dict[str, Any] = {
        "input": _parse_input(text, args, file or []),
        "run_id": name,
        "agent": agent,
        "context": load_context(context),
        "budget": _parse_budget(max_requests, max_tokens, max_cost),
        "work": not no_work,
        **_parse_labels_and_settings(label or [], setting or []),
        "title": title,
        "by": requester,
        "trace_context": trace_context,
        "on_event": printer,
    }
    advance = _Advance(command, runner, name, given["context"], printer)
    attempt = partial(_start_attempt, runner, given)
    advance.run(attempt, wait_if_busy=wait_if_busy, timeout=timeout)


def _new_run_id() -> str:
    """Return an id that is chosen here, so that every note can name the run."""
    ports = Ports()
    return ports.ids.new_ulid(ports.clock.now())


def _start_attempt(runner: Runner, given: dict[str, Any], should_pause: Any) -> Any:
    return runner.async_runner.start(should_pause=should_pause, **given)


def _printer(
    command: Command, *, stream: bool, no_work: bool = False
) -> EventPrinter | None:
    """Return what prints the events of the work, if `--stream` asks for them."""
    if stream and no_work:
        raise options.UsageError(
            "--stream prints the work on the run, and --no-work leaves it out. Leave "
            "one of them out."
        )
    return EventPrinter(as_json=command.as_json) if stream else None


def _parse_input(text: str, args: str | None, files: list[str]) -> Any:
    """Return the input of a run; raises `UsageError`."""
    if args is None:
        if not text:
            raise options.UsageError(
                "start needs the INPUT of the agent, or --args for a workflow."
            )
        return options.input_with_files(text, files)
    if text or files:
        raise options.UsageError(
            "--args has the arguments of a workflow. Leave INPUT and --file out."
        )
    return options.parse_object(args, name="--args")


def _parse_labels_and_settings(
    labels: list[str], settings: list[str]
) -> dict[str, Any]:
    return {
        "labels": options.parse_pairs(labels, "--label", "team=finance"),
        "settings": options.parse_settings(settings),
    }


def _parse_budget(
    requests: int | None, tokens: int | None, cost: str | None
) -> continuations.Budget | None:
    if (requests, tokens, cost) == (None, None, None):
        return None
    return continuations.Budget(requests=requests, tokens=tokens, cost=cost)


@as_command
def resume(
    command: Command,
    run: str,
    *,
    context: str | None = None,
    reopen: bool = False,
    wait_if_busy: bool = False,
    timeout: options.SecondsOrNone = None,
    stream: bool = False,
) -> None:
    """Apply the recorded decisions of a run and advance it.

    Arguments and options:
        reopen: Ask again about approved calls whose tool the application lacks.
            Default: the approval is kept for a process with the tool.
    """
    runner = command.runner("needed")
    given = load_context(context)
    printer = _printer(command, stream=stream)
    advance = _Advance(command, runner, run, given, printer, reopen)
    advance.run(advance.resume, wait_if_busy=wait_if_busy, timeout=timeout)


@as_command
def sweep(command: Command, *, context: str | None = None) -> None:
    """Check the runs that are due, repair them, and resume those that can continue.

    Without --app no run is resumed. A run that needs your agents is skipped: a sweep
    with its agents resumes it. If the runner of --app has a retention, the sweep erases
    ended runs that are kept no longer.
    """
    runner = command.runner("if given")
    result = runner.sweep(context=load_context(context))
    command.write(partial(SWEEP_RESULT.of, result), _sweep_lines(result))
    for run_id, error in result.errors.items():
        write_note(f"{run_id}: {type(error).__name__}: {error}")
    if result.errors:
        raise typer.Exit(LIBRARY_ERROR)


def _sweep_lines(result: SweepResult) -> Iterator[str]:
    yield f"runs checked: {result.runs_checked}"
    for outcome in result.resumed:
        yield from formatting.outcome_lines(outcome)
    for receipt in result.erased:
        yield f"erased: {escape_invisible(receipt.run_id)}"
    for run_id in sorted(result.skipped):
        yield f"skipped: {run_id}: {result.skipped[run_id]}"


@as_command
def drift(command: Command, *, context: str | None = None) -> None:
    """Say what new code would do with the waiting runs. Nothing is written.

    Each run that has not ended is one line: accept, reopen (an approved call waits
    again) or refuse (resume raises an error), with the reasons below it. With --json,
    each line is the whole row. The exit code is 0 only if every run is accepted.
    """
    runner = command.runner("needed")
    given: dict[str, Any] = {}
    if context is not None:
        given["context"] = load_context(context)
    counts: Counter[str] = Counter()
    for row in runner.drift(**given):
        counts[row.verdict] += 1
        command.write(partial(to_json, row), _row_lines(runner, row))
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


def _row_lines(runner: Runner, row: DriftRow) -> Iterator[str]:
    key = _thread_key(runner, row)
    about = f"  (conversation {key} with {row.agent})" if key else ""
    yield escape_invisible(f"{row.verdict}  {row.run_id}{about}")
    for reason in row.why:
        where = " > ".join(reason.path) or row.agent or "run"
        yield f"  {reason.verdict}: {escape_invisible(where)} ({reason.change})"
        yield f"    {escape_invisible(reason.text)}"
        if reason.wait_id is not None:
            yield f"    wait {escape_invisible(reason.wait_id)}"
    if row.worker_lacked:
        yield f"  a worker left it: {escape_invisible(row.worker_lacked)}"
    changes, more = allowed_changes(row)
    for change in changes:
        yield f"  allowed: {escape_invisible(change)}"
    if more:
        yield f"  allowed: {counted(more, 'more change')}, see --json"


class FileFormat(StrEnum):
    """The formats of files that can be adopted."""

    CONTINUATION = "continuation"
    SNAPLOGIC = "snaplogic"


@as_command
def adopt(
    command: Command,
    file: str,
    *,
    as_: Annotated[FileFormat, "--as"] = FileFormat.CONTINUATION,
    run_id: str | None = None,
    agent: str | None = None,
    requester: options.Requester = None,
    decisions: bool = False,
    approved_by: str | None = None,
) -> None:
    """Store the paused agent of a file as a new run. Nothing runs.

    Arguments and options:
        file (FILE): The file of a paused agent.
        as_: The format: `continuation` for the bytes of Continuation.to_bytes(),
            `snaplogic` for the JSON of SnapLogic's agent-continuations.
        run_id (ID): The id of the new run. A repeat with the same id and file does
            nothing. Default: an id that follows from the file.
        decisions: Approve the calls that the file marks with `approved: true`. Without
            this option every call waits. `false` is never a decision.
        approved_by (NAME): The person who approved the calls that --decisions approves.
            Default: the user of this process.
    """
    if as_ is FileFormat.SNAPLOGIC:
        named = command._replace(name="adopt --as snaplogic")
        runner = named.runner("needed", may_be_first=True)
        # No other command needs the reader.
        from continuations.interop import snaplogic  # noqa: PLC0415

        paused = snaplogic.read(Path(file), runner.root_agent(agent))
        outcome = runner.adopt(paused.continuation, run_id=run_id, by=requester)
    elif decisions or agent is not None:
        option = "--decisions" if decisions else "--agent"
        raise options.UsageError(
            f"{option} needs --as snaplogic. Add it, or leave {option} out."
        )
    else:
        paused = None
        runner = command.runner("if given", may_be_first=True)
        outcome = runner.adopt(_read_bytes(Path(file)), run_id=run_id, by=requester)
    _write_outcome(command, runner, outcome)
    if decisions and paused is not None:
        _approve(runner, paused, outcome.continuation.waits, approved_by)
    if isinstance(outcome, continuations.Failed):
        raise typer.Exit(FAILED)


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise options.UsageError(
            f"FILE cannot be read: {file}: {error.strerror}. Check the path."
        ) from None


def _approve(
    runner: Runner, paused: PausedRun, waits: tuple[Wait, ...], by: str | None
) -> None:
    """Record the approvals of a file for the waits that are open."""
    actor = options.resolve_actor(by)
    options.write_actor_note(actor)
    for wait_id, verdict in paused.decisions(waits, by=actor.name).items():
        try:
            runner.decide(wait_id, verdict)
        except AlreadyDecided as error:
            write_note(f"not approved: {error}")
        else:
            write_note(f"approved: {wait_id}")


# The work on one run --------------------------------------------------------


# Seconds between two attempts. An attempt on a busy run costs one listing and one read.
_FIRST_DELAY, _MAX_DELAY = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class _Advance:
    """Works on one run until it ends, waits, or a signal stops the command."""

    command: Command
    runner: Runner
    run_id: str
    context: Any
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
            raise options.UsageError(
                "--timeout needs --wait-if-busy. Add it, or leave --timeout out."
            )
        with stopped_by_signals() as switch:
            try:
                outcome = (
                    self._wait_until_free(attempt, switch, timeout)
                    if wait_if_busy
                    else self._attempt(attempt, switch)
                )
            except KeyboardInterrupt:
                self._write_stopped()
                raise typer.Exit(switch.exit_code) from None
            finally:
                if self.printer is not None:
                    self.printer.end()
            if outcome is not None:
                self._write(outcome)
            if switch.is_set():
                self._write_stopped()
                raise typer.Exit(switch.exit_code)
        if isinstance(outcome, continuations.Failed):
            raise typer.Exit(FAILED)

    def _attempt(self, attempt: Attempt, switch: StopSwitch) -> Outcome | None:
        return portal.run_until_complete(
            advance_until_stopped(
                self.runner.async_runner, self.run_id, attempt, switch
            )
        )

    def _wait_until_free(
        self, attempt: Attempt, switch: StopSwitch, timeout: float | None
    ) -> Outcome | None:
        """Return the outcome of an attempt, and resume the run while it is busy.

        A claim ends when its process commits the last version, or at its deadline if
        the process died. Raises `RunBusy` or `StaleRun` after `timeout` seconds.
        Returns `None` after a signal.
        """
        end = None if timeout is None else time.monotonic() + timeout
        delay = _FIRST_DELAY
        while not switch.is_set():
            try:
                return self._attempt(attempt, switch)
            except (RunBusy, StaleRun) as error:
                time_left = _MAX_DELAY if end is None else end - time.monotonic()
                if time_left <= 0:
                    raise
                if delay == _FIRST_DELAY:
                    write_note(f"waiting: {error}")
                attempt = self.resume
            time.sleep(min(delay, time_left))
            delay = min(delay * 2, _MAX_DELAY)
        return None

    def _write(self, outcome: Outcome) -> None:
        for change in outcome.code_changes:
            write_note(
                f"note: the code changed since the run started: {change.text} "
                f"({change.kind})"
            )
        _write_outcome(self.command, self.runner, outcome)

    def _write_stopped(self) -> None:
        """Say what a signal left behind."""
        try:
            claim = self.runner.look(self.run_id).run_state.run.claim
        except ContinuationsError as error:
            write_note(f"stopped: run {self.run_id}: {type(error).__name__}: {error}")
            return
        text = "is not claimed; any process can resume it at once"
        if claim is not None:
            text = (
                f"is claimed until {readable_time(claim.until)}; resume it then. If a "
                "tool of this process was in progress, its outcome may be unknown"
            )
        write_note(f"stopped: run {self.run_id} {text}")


def _write_outcome(command: Command, runner: Runner, outcome: Outcome) -> None:
    def form() -> object:
        viewer = TextsViewer(runner.async_runner)
        shown = outcome_response(viewer, outcome)
        return portal.run_until_complete(shown)

    command.write(form, formatting.outcome_lines(outcome))
