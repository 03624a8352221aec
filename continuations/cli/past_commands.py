"""The commands about the past of a run: history, diff."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import check_run_id
from continuations.cli.json_output import write_json
from continuations.cli.options import App, Json, RunId, StoreUrl
from continuations.cli.output import write_note

if TYPE_CHECKING:
    from continuations import RunVersion

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
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """List the versions of a run: when, by whom, and what changed. Needs no agent code.

    `show RUN --version N` shows one of them, and `diff` compares two.
    """
    from continuations.cli.past_lines import version_lines  # noqa: PLC0415 - rarely used
    from continuations.cli.terminal import print_lines  # noqa: PLC0415 - rarely used

    check_run_id(run, command="history")
    versions = runner_without_agents(app, store).history(run, after=after)
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
    from continuations.present.past_forms import version_json  # noqa: PLC0415 - rarely used

    write_json(version_json(version))


def diff(
    run: RunId,
    before: Annotated[
        int, typer.Argument(min=1, metavar="A", help="The number of a version.")
    ],
    after: Annotated[
        int, typer.Argument(min=1, metavar="B", help="The number of another version.")
    ],
    *,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Compare two versions of a run. Needs no agent code."""
    from continuations.cli.past_lines import difference_lines  # noqa: PLC0415 - rarely used
    from continuations.cli.terminal import print_lines  # noqa: PLC0415 - rarely used
    from continuations.present.past_forms import difference_json  # noqa: PLC0415 - rarely used

    check_run_id(run, command="diff")
    found = runner_without_agents(app, store).diff(run, before, after)
    if json:
        write_json(difference_json(found))
    else:
        print_lines(difference_lines(found))
