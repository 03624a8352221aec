"""What several commands take, described once."""

from __future__ import annotations

from typing import Annotated

import typer

App = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        envvar="CONTINUATIONS_APP",
        help="Your code: a Runner or an Agent in a module.",
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="CONTINUATIONS_STORE",
        help="Where the runs are: file:path.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run.")]
WaitId = Annotated[
    str,
    typer.Argument(metavar="WAIT", help="The id of a wait: see `waiting`."),
]
By = Annotated[
    str | None,
    typer.Option(
        envvar="CONTINUATIONS_BY",
        help="Who decides; by default the user of this process.",
    ),
]
Reason = Annotated[str | None, typer.Option(help="Why; a denial's is told the model.")]
WaitIfBusy = Annotated[
    bool,
    typer.Option(
        "--wait-if-busy",
        help="While another process holds the run, keep trying. Not for people.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="SECONDS", help="How long --wait-if-busy keeps trying."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
