"""The commands that record decisions: approve, deny, answer, fail, decide."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

import continuations
from continuations.cli import LIBRARY_ERROR, formatting
from continuations.cli.application import runner_without_agents
from continuations.cli.decision_input import (
    check_wait_id,
    find_wait_id,
    parse_arguments,
    parse_grant,
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.cli.options import (
    App,
    By,
    Json,
    Reason,
    Shown,
    StoreUrl,
    UsageError,
    WaitId,
)
from continuations.cli.output import write_json, write_lines
from continuations.core import jsontext
from continuations.core.rows.decisions import Decision
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.visible_text import escape_invisible
from continuations.errors import ContinuationsError
from continuations.present.json_forms import decide_json
from continuations.present.problems import find_problem_type
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Runner, Wait
    from continuations.core.rows.decisions import Verdict
    from continuations.results import Vote
    from continuations.serve.http.decision_bodies import PostedDecision


def approve(  # noqa: PLR0913 - one parameter for each option
    wait: WaitId,
    *,
    by: By = None,
    reason: Reason = None,
    arguments: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE",
            help="Run the call with these arguments in place of the model's.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE",
            help="The form that the policy asks for, as a JSON object. `show WAIT` "
            "lists its fields.",
        ),
    ] = None,
    remember: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE",
            help='A grant for later calls in this run: {"tool": "pay", "arguments": '
            '{JSON Schema}, "until": "2027-01-01T00:00:00Z"}.',
        ),
    ] = None,
    run_again: Annotated[
        bool,
        typer.Option(
            "--run-again",
            help="For a call with an unknown outcome: you know that it did not happen. "
            "The next resume runs it.",
        ),
    ] = False,
    shown: Shown = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Approve a call: it runs exactly as the wait shows it. Needs no agent code."""
    _check_run_again(wait, run_again=run_again)
    edited: Any = None if arguments is None else parse_arguments(arguments)
    filled: Any = None if form is None else parse_arguments(form, name="--form")
    grant = None if remember is None else parse_grant(remember)
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda name: continuations.Approve(
            by=name, reason=reason, arguments=edited, form=filled, remember=grant
        ),
        shown=shown,
        as_json=json,
    )


def _check_run_again(wait: str, *, run_again: bool) -> None:
    """Raise `UsageError` if the option does not fit the kind of the wait."""
    parts = find_wait_id(wait)
    # None: this is no wait id, and a later check says what it is.
    repeats = None if parts is None else WAIT_RULES[parts.kind].may_have_run
    if repeats and not run_again:
        msg = (
            f"{wait} has an unknown outcome: the call was started and may have "
            "happened. If it did not happen, pass --run-again to run it once more. "
            "If it happened, use `continuations answer` to record its result."
        )
        raise UsageError(msg)
    if repeats is False and run_again:
        msg = (
            f"--run-again is for a call with an unknown outcome, and {wait} has the "
            f"kind {parts and parts.kind}. Leave it out."
        )
        raise UsageError(msg)


def deny(
    wait: WaitId,
    *,
    by: By = None,
    reason: Reason = None,
    shown: Shown = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Deny a call: it does not run, and the model sees why. Needs no agent code."""
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda name: continuations.Deny(by=name, reason=reason),
        shown=shown,
        as_json=json,
    )


def answer(  # noqa: PLR0913 - one parameter for each option
    wait: WaitId,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The answer, as JSON.")],
    *,
    text: Annotated[
        bool, typer.Option("--text", help="VALUE is plain text, not JSON.")
    ] = False,
    by: By = None,
    reason: Reason = None,
    shown: Shown = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Answer a wait. Needs no agent code.

    For a question: the answer. For an event or a job: its data. For an approval: the
    result; the call does not run. For an unknown outcome: the call did happen, with
    this result.
    """
    hint = "Pass --text if it is plain text, or write it as JSON."
    parsed = value if text else parse_json_value(value, name="VALUE", hint=hint)
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda name: continuations.Answer(parsed, by=name, reason=reason),
        shown=shown,
        as_json=json,
    )


def fail(
    wait: WaitId,
    error: Annotated[str, typer.Argument(metavar="ERROR", help="What failed.")],
    *,
    by: By = None,
    reason: Reason = None,
    shown: Shown = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Say that an awaited event does not come, or that a job failed.

    The model reads the error. Needs no agent code.
    """
    _decide(
        runner_without_agents(app, store),
        wait,
        by,
        lambda name: continuations.Fail(error, by=name, reason=reason),
        shown=shown,
        as_json=json,
    )


def _decide(
    runner: Runner,
    wait_id: str,
    by: str | None,
    make_verdict: Callable[[str], Verdict],
    *,
    shown: str | None,
    as_json: bool,
) -> None:
    actor = resolve_actor(by)
    check_wait_id(runner, wait_id)
    wait = None if as_json else _open_wait(runner, wait_id)
    result = runner.decide(
        wait_id, make_verdict(actor.name), shown=shown, door=actor.door
    )
    write_actor_note(actor)
    if not isinstance(result, Decision):
        if as_json:
            write_json(to_json(result))
        else:
            write_lines(formatting.title_lines(wait, result))
            write_lines(formatting.vote_lines(result))
        return
    if as_json:
        write_json(to_json(result))
        return
    run_id = wait_id.partition("@")[2]
    write_lines(formatting.title_lines(wait, result))
    write_lines(formatting.decision_lines(result, run_id))


def _open_wait(runner: Runner, wait_id: str) -> Wait | None:
    """Return the wait that is decided now, for its title; `None` if it is not open."""
    with suppress(ContinuationsError):
        return runner.wait(wait_id)
    return None


def decide(
    decisions: Annotated[
        str,
        typer.Argument(
            metavar="JSON|@FILE",
            help='A list such as [{"wait_id": WAIT, "decision": "approve"}].',
        ),
    ],
    *,
    by: By = None,
    json: Json = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Decide several waits; each has a result of its own. Needs no agent code.

    The exit code is 5 if a decision was not recorded; the others are recorded.
    """
    actor = resolve_actor(by)
    posted = _posted(parse_arguments(decisions, name="DECISIONS"), actor.name)
    results = runner_without_agents(app, store).decide_all(
        {wait_id: each.verdict for wait_id, each in posted.items()},
        shown={wait_id: each.shown for wait_id, each in posted.items() if each.shown},
        door=actor.door,
    )
    if not all(isinstance(each, Exception) for each in results.values()):
        write_actor_note(actor)
    for wait_id, result in results.items():
        if json:
            write_json(_result_json(wait_id, result))
        else:
            write_lines([f"{escape_invisible(wait_id)}: {_result_text(result)}"])
    if any(isinstance(each, Exception) for each in results.values()):
        raise typer.Exit(LIBRARY_ERROR)


def _posted(items: Any, by: str) -> dict[str, PostedDecision]:
    # Imported here: no other command reads the bodies of the HTTP API.
    from continuations.serve.http import decision_bodies, problems  # noqa: PLC0415

    given = jsontext.as_array(items)
    if not given:
        msg = (
            'DECISIONS must be a JSON array of objects, each with a "wait_id". '
            "Correct the JSON."
        )
        raise UsageError(msg)
    try:
        return decision_bodies.posted_decisions(given, by)
    except problems.RequestRefused as error:
        why = (error.problem.detail or "").removesuffix(".")
        msg = f"DECISIONS is not valid: {why}. Correct the JSON."
        raise UsageError(msg) from None


def _result_text(result: Decision | Vote | Exception) -> str:
    if isinstance(result, Exception):
        return f"{type(result).__name__}: {escape_invisible(str(result))}"
    return f"{result.kind} is recorded"


def _result_json(wait_id: str, result: Decision | Vote | Exception) -> dict[str, Any]:
    if isinstance(result, Exception):
        problem = find_problem_type(type(result))
        return {"wait_id": wait_id, "error": problem.slug, "detail": str(result)}
    form = decide_json(result, woken=False)
    del form["woken"]
    return {"wait_id": wait_id, **form}
