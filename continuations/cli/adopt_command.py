"""The command that puts the continuation of a file into a store: adopt."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import continuations
from continuations import errors
from continuations.cli import FAILED, formatting, output
from continuations.cli.application import runner_with_agents, runner_without_agents
from continuations.cli.decision_input import resolve_actor, write_actor_note
from continuations.cli.options import App, Json, Requester, StoreUrl, UsageError
from continuations.cli.output import write_lines, write_note

if TYPE_CHECKING:
    from continuations import Runner, Wait
    from continuations.interop.snaplogic import PausedRun


class FileFormat(StrEnum):
    """The formats of files that can be adopted."""

    CONTINUATION = "continuation"
    SNAPLOGIC = "snaplogic"


File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file of a paused agent.")
]
Format = Annotated[
    FileFormat,
    typer.Option(
        "--as",
        help="The format: `continuation` for the bytes of Continuation.to_bytes(), "
        "`snaplogic` for the JSON of SnapLogic's agent-continuations.",
    ),
]
Decisions = Annotated[
    bool,
    typer.Option(
        "--decisions",
        help="Approve the calls that the file marks with `approved: true`. Without "
        "this option every call waits. `false` is never a decision.",
    ),
]

ApprovedBy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="CONTINUATIONS_BY",
        help="The person who approved the calls that --decisions approves. Default: "
        "the user of this process.",
    ),
]


def adopt(  # noqa: PLR0913 - one parameter for each option
    file: File,
    *,
    as_: Format = FileFormat.CONTINUATION,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The id of the new run. A repeat with the same id and file does "
            "nothing. Default: an id that follows from the file.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The root agent, if the runner has more than one."
        ),
    ] = None,
    by: Requester = None,
    decisions: Decisions = False,
    approved_by: ApprovedBy = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Store the paused agent of a file as a new run. Nothing runs."""
    if as_ is FileFormat.SNAPLOGIC:
        runner = runner_with_agents(
            app, store, command="adopt --as snaplogic", may_be_first=True
        )
        paused = _read_snaplogic(file, runner, agent)
        outcome = runner.adopt(paused.continuation, run_id=run_id, by=by)
    elif decisions or agent is not None:
        option = "--decisions" if decisions else "--agent"
        msg = f"{option} needs --as snaplogic. Add it, or leave {option} out."
        raise UsageError(msg)
    else:
        paused = None
        runner = (
            runner_without_agents(None, store, may_be_first=True)
            if app is None
            else runner_with_agents(app, store, command="adopt", may_be_first=True)
        )
        outcome = runner.adopt(_read_bytes(file), run_id=run_id, by=by)
    if json:
        output.write_json(output.outcome_form(runner.store, outcome))
    else:
        write_lines(formatting.outcome_lines(outcome))
    if decisions and paused is not None:
        _approve(runner, paused, outcome.continuation.waits, approved_by)
    if isinstance(outcome, continuations.Failed):
        raise typer.Exit(FAILED)


def _read_snaplogic(file: Path, runner: Runner, agent: str | None) -> PausedRun:
    # A process that only decides does not need the reader.
    from continuations.interop import snaplogic  # noqa: PLC0415

    return snaplogic.read(file, runner.root_agent(agent))


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        msg = f"FILE cannot be read: {file}: {error.strerror}. Check the path."
        raise UsageError(msg) from None


def _approve(
    runner: Runner, paused: PausedRun, waits: tuple[Wait, ...], by: str | None
) -> None:
    """Record the approvals of a file for the waits that are open."""
    actor = resolve_actor(by)
    write_actor_note(actor)
    for wait_id, verdict in paused.decisions(waits, by=actor.name).items():
        try:
            runner.decide(wait_id, verdict)
        except errors.AlreadyDecided as error:
            write_note(f"not approved: {error}")
        else:
            write_note(f"approved: {wait_id}")
