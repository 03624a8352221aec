"""watch: print the events of a run, and follow a run that goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import check_run_id
from continuations.cli.json_output import detail_of, write_json
from continuations.cli.options import App, Json, RunId, StoreUrl, Transcript
from continuations.core.withheld_texts import shown_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.cli.stack_tree import Line
    from continuations.core.run_stream import StreamEvent

# typer reads the annotations when it runs.
# ruff: noqa: TC001


def watch(
    run: RunId,
    *,
    after: Annotated[
        str,
        typer.Option(
            metavar="CURSOR",
            help="Print only the events after this cursor, for example 3.2.",
        ),
    ] = "",
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Wait for the next events until the run ends or the thread rests. "
            "Ctrl-C stops it, and never the run.",
        ),
    ] = False,
    transcript: Transcript = False,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Print what happened in a run, one event per line. Needs no agent code.

    Each line begins with the cursor of the event, for --after. With --json, each line
    is the whole event; without it, long texts are shortened.
    """
    check_run_id(run, command="watch")
    runner = runner_without_agents(app, store)
    detail = detail_of(transcript=transcript)
    found = runner.events(run, after=after, follow=follow)
    events = (shown_event(each, detail) for each in found)
    if json:
        for event in events:
            write_json(_form(event))
            sys.stdout.flush()  # a program that reads the lines waits for each
        return
    from continuations.cli.terminal import print_folded  # noqa: PLC0415 - JSON needs no rich

    print_folded(_lines(events))


def _form(event: StreamEvent) -> object:
    from continuations.present.json_forms import event_json  # noqa: PLC0415 - rarely used

    return event_json(event, "transcript")


def _lines(events: Iterator[StreamEvent]) -> Iterator[Line]:
    from continuations.cli.event_lines import event_line  # noqa: PLC0415 - imports the tree

    return map(event_line, events)
