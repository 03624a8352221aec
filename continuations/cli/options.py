"""Options and arguments that several commands share."""

from __future__ import annotations

from os import environ
from typing import Annotated

import typer

App = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        envvar="CONTINUATIONS_APP",
        help="Your code: a Runner, an AsyncRunner or an Agent in a module.",
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="CONTINUATIONS_STORE",
        help="The store, for example file:PATH or s3://BUCKET/PREFIX.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run.")]
WaitId = Annotated[
    str,
    typer.Argument(metavar="WAIT", help="The id of a wait, as `waiting` lists it."),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="CONTINUATIONS_BY",
        help="The name of the person. Default: the user of this process.",
    ),
]
Reason = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Why. It is recorded; the model sees the reason of a denial.",
    ),
]
Shown = Annotated[
    str | None,
    typer.Option(
        metavar="DIGEST",
        help="The digest that `show` printed. If the wait has another one, nothing is "
        "recorded.",
    ),
]
WaitIfBusy = Annotated[
    bool,
    typer.Option(
        "--wait-if-busy",
        help="While another process holds the claim on the run, keep trying. "
        "The command never waits for a person.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long --wait-if-busy keeps trying. Default: without a limit.",
    ),
]
MaxRequests = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Limit the model requests of the run."),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Limit the model tokens of the run."),
]
MaxCost = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        help="Limit the cost of the run, for example 2.50. The runner needs prices.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        envvar="CONTINUATIONS_CONTEXT",
        help="The object that the tools get as ctx.context. If NAME is a function, the "
        "object is its result.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Transcript = Annotated[
    bool,
    typer.Option(
        "--transcript",
        help="Print messages whole: also the arguments of their calls, and the inputs "
        "of sub-agents. These may contain secret values.",
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Print texts while they are written, and each step. With --json, each "
        "event is one line.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="NAME=VALUE",
        help="A label by which `runs` finds the run. Repeat it for more labels.",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        metavar="PATH",
        help="An image, a sound or a file for the agent. Repeat it for more files.",
    ),
]
Title = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="A title for people: listings and the console show it."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="NAME=JSON",
        help="A model setting of the run, for example temperature=0. It is stored. "
        "Repeat it for more settings.",
    ),
]
Requester = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="The person who asks for the run."),
]
NewRunId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="The id of the run. A repeated start with the same id and input continues "
        "the same run. Default: a new id.",
    ),
]
RootAgent = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The root agent, if the runner has more than one."
    ),
]


def given_options(app: str | None, store: str | None) -> list[str]:
    """Return `--app` and `--store` as they were given, without the environment's."""
    given = {
        "--app": (app, "CONTINUATIONS_APP"),
        "--store": (store, "CONTINUATIONS_STORE"),
    }
    return [
        word
        for option, (value, variable) in given.items()
        if value is not None and value != environ.get(variable)
        for word in (option, value)
    ]
