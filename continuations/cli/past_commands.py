"""The commands about the past of a run: history, diff, fork."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

import continuations
from continuations.cli.application import runner_for_command, runner_without_agents
from continuations.cli.decision_input import (
    check_run_id,
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.errors import UsageError
from continuations.cli.json_output import detail_of, write_json
from continuations.cli.options import App, By, Json, RunId, StoreUrl, Transcript
from continuations.cli.output import write_lines, write_note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.decisions import Verdict
    from continuations.past import RunVersion

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def history(
    run: RunId,
    *,
    after: Annotated[
        int, typer.Option(min=0, metavar="N", help="Only versions after this one.")
    ] = 0,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="List at most N versions.")
    ] = 100,
    transcript: Transcript = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """List the versions of a run: when, by whom, and what changed. Needs no agent code.

    `show RUN --version N` shows one of them, and `diff` compares two.
    """
    from continuations.cli.past_lines import version_lines  # noqa: PLC0415 - rarely used
    from continuations.cli.terminal import print_lines  # noqa: PLC0415 - rarely used
    from continuations.core.withheld_texts import shown_version  # noqa: PLC0415 - rarely used

    check_run_id(run, command="history")
    found = runner_without_agents(app, store).history(run, after=after)
    detail = detail_of(transcript=transcript)
    versions = (shown_version(each, detail) for each in found)
    last = after
    for version in islice(versions, limit):
        last = version.number
        if json:
            _write_version(version)
        else:
            print_lines(version_lines(version))
    if next(versions, None) is not None:
        write_note(f"More versions follow. List them with --after {last}")


def _write_version(version: RunVersion) -> None:
    from continuations.present.json_forms import version_json  # noqa: PLC0415 - rarely used

    write_json(version_json(version, "transcript"))


def diff(
    run: RunId,
    before: Annotated[
        int, typer.Argument(min=1, metavar="A", help="The number of a version.")
    ],
    after: Annotated[
        int, typer.Argument(min=1, metavar="B", help="The number of another version.")
    ],
    *,
    transcript: Transcript = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Compare two versions of a run. Needs no agent code."""
    from continuations.cli.past_lines import difference_lines  # noqa: PLC0415 - rarely used
    from continuations.cli.terminal import print_lines  # noqa: PLC0415 - rarely used
    from continuations.core.withheld_texts import shown_difference  # noqa: PLC0415 - rarely used
    from continuations.present.json_forms import difference_json  # noqa: PLC0415 - rarely used

    check_run_id(run, command="diff")
    found = runner_without_agents(app, store).diff(run, before, after)
    found = shown_difference(found, detail_of(transcript=transcript))
    if json:
        write_json(difference_json(found, "transcript"))
    else:
        print_lines(difference_lines(found))


Decide = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WAIT=VERDICT",
        help="Decide an open wait of the version: WAIT=approve, WAIT=deny or "
        "WAIT=answer:JSON. Repeat it for more waits.",
    ),
]
Results = Annotated[
    list[str] | None,
    typer.Option(
        "--result",
        metavar="CALL=JSON",
        help="The result of an open call of the version; its tool does not run.",
    ),
]
Messages = Annotated[
    list[str] | None,
    typer.Option(
        "--message",
        metavar="FRAME=TEXT",
        help="A message of the user that is added to an agent, for example f1=Hello.",
    ),
]


def fork(  # noqa: PLR0913 - one parameter for each option
    run: RunId,
    *,
    version: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The version to go on from. Default: the newest."
        ),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The id of the fork. A repeat with the same id does nothing more. "
            "Default: a new one.",
        ),
    ] = None,
    decide: Decide = None,
    result: Results = None,
    message: Messages = None,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Start a new run from a version of a run, also of an ended one. Nothing runs.

    Everything that the run was allowed to do, or started, is asked about again. --app
    tells which tools only read; without it, calls of all tools are asked about.
    """
    check_run_id(run, command="fork")
    runner = runner_for_command(app, store, command="fork")
    actor = resolve_actor(by)
    verdicts = {
        wait: _verdict(text, actor.name)
        for wait, text in _pairs(decide or (), "--decide", "WAIT=approve")
    }
    if verdicts:
        write_actor_note(actor)
    results = _pairs(result or (), "--result", 'c4="paid"')
    forked = runner.fork(
        run,
        version,
        run_id=run_id,
        decisions=verdicts,
        results={
            key: parse_json_value(text, name="--result", hint="Pass CALL=JSON.")
            for key, text in results
        },
        messages=dict(_pairs(message or (), "--message", "f1=Hello")),
        by=actor.name,
        door=actor.door,
    )
    if json:
        write_json({"run_id": forked})
    else:
        write_lines(
            [f"{forked}: a fork of {run}", f"next: continuations resume {forked}"]
        )


def _pairs(
    options: Iterable[str], name: str, example: str
) -> Iterable[tuple[str, str]]:
    for option in options:
        key, sign, text = option.partition("=")
        if not (key and sign):
            msg = f"{name} must be of the form {example}, got {option[:60]!r}."
            raise UsageError(f"{msg} Write the id, then =.")
        yield key, text


def _verdict(text: str, by: str) -> Verdict:
    kind, _, value = text.partition(":")
    if kind == "answer":
        hint = 'Pass WAIT=answer:JSON, such as WAIT=answer:"blue".'
        answer = parse_json_value(value, name="the answer of --decide", hint=hint)
        return continuations.Answer(answer, by=by)
    if text == "approve":
        return continuations.Approve(by=by)
    if text == "deny":
        return continuations.Deny(by=by)
    msg = f"--decide has no verdict {text[:60]!r}. Pass approve, deny or answer:JSON."
    raise UsageError(msg)
