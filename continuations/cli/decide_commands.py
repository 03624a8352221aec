"""The commands that end waits, or give them time.

Decisions end them (approve, deny, answer, fail, decide), and so do events (publish). A
heartbeat gives the wait of a job more time.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

import continuations
from continuations.cli import LIBRARY_ERROR, formatting
from continuations.cli.command import Command, with_common_options
from continuations.cli.options import (
    By,
    Reason,
    Shown,
    UsageError,
    WaitId,
    check_wait_id,
    find_wait_id,
    parse_arguments,
    parse_grant,
    parse_json_value,
    resolve_actor,
    write_actor_note,
)
from continuations.core import jsontext
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.visible_text import escape_invisible
from continuations.errors import ContinuationsError
from continuations.present.json_forms import decide_json
from continuations.present.problems import find_problem_type
from continuations.present.times import counted
from continuations.wire.report import to_json, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Runner, Wait
    from continuations.core.rows.decisions import Decision, Verdict
    from continuations.results import Vote
    from continuations.serve.http.decision_bodies import PostedDecision


@with_common_options
def approve(  # noqa: PLR0913 - one parameter for each option
    command: Command,
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
) -> None:
    """Approve a call: it runs exactly as the wait shows it. Needs no agent code."""
    _check_run_again(wait, run_again=run_again)
    edited: Any = None if arguments is None else parse_arguments(arguments)
    filled: Any = None if form is None else parse_arguments(form, name="--form")
    grant = None if remember is None else parse_grant(remember)
    make_verdict = partial(
        continuations.Approve,
        reason=reason,
        arguments=edited,
        form=filled,
        remember=grant,
    )
    _decide(command, wait, by, make_verdict, shown)


def _check_run_again(wait: str, *, run_again: bool) -> None:
    """Raise `UsageError` if the option does not fit the kind of the wait."""
    parts = find_wait_id(wait)
    if parts is None:
        return  # a later check says what the text is
    repeats = WAIT_RULES[parts.kind].may_have_run
    if repeats and not run_again:
        msg = (
            f"{wait} has an unknown outcome: the call was started and may have "
            "happened. If it did not happen, pass --run-again to run it once more. "
            "If it happened, use `continuations answer` to record its result."
        )
        raise UsageError(msg)
    if run_again and not repeats:
        msg = (
            f"--run-again is for a call with an unknown outcome, and {wait} has the "
            f"kind {parts.kind}. Leave it out."
        )
        raise UsageError(msg)


@with_common_options
def deny(
    command: Command,
    wait: WaitId,
    *,
    by: By = None,
    reason: Reason = None,
    shown: Shown = None,
) -> None:
    """Deny a call: it does not run, and the model sees why. Needs no agent code."""
    make_verdict = partial(continuations.Deny, reason=reason)
    _decide(command, wait, by, make_verdict, shown)


@with_common_options
def answer(
    command: Command,
    wait: WaitId,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The answer, as JSON.")],
    *,
    text: Annotated[
        bool, typer.Option("--text", help="VALUE is plain text, not JSON.")
    ] = False,
    by: By = None,
    reason: Reason = None,
    shown: Shown = None,
) -> None:
    """Answer a wait. Needs no agent code.

    For a question: the answer. For an event or a job: its data. For an approval: the
    result; the call does not run. For an unknown outcome: the call did happen, with
    this result.
    """
    hint = "Pass --text if it is plain text, or write it as JSON."
    parsed = value if text else parse_json_value(value, name="VALUE", hint=hint)
    make_verdict = partial(continuations.Answer, parsed, reason=reason)
    _decide(command, wait, by, make_verdict, shown)


@with_common_options
def fail(
    command: Command,
    wait: WaitId,
    error: Annotated[str, typer.Argument(metavar="ERROR", help="What failed.")],
    *,
    by: By = None,
    reason: Reason = None,
    shown: Shown = None,
) -> None:
    """Say that an awaited event does not come, or that a job failed.

    The model reads the error. Needs no agent code.
    """
    make_verdict = partial(continuations.Fail, error, reason=reason)
    _decide(command, wait, by, make_verdict, shown)


def _decide(
    command: Command,
    wait_id: str,
    by: str | None,
    make_verdict: Callable[..., Verdict],
    shown: str | None,
) -> None:
    runner = command.runner_without_agents()
    actor = resolve_actor(by)
    check_wait_id(runner, wait_id)
    wait = None if command.as_json else _open_wait(runner, wait_id)
    result = runner.decide(
        wait_id, make_verdict(by=actor.name), shown=shown, door=actor.door
    )
    write_actor_note(actor)
    command.write(partial(to_json, result), formatting.decided_lines(wait, result))


def _open_wait(runner: Runner, wait_id: str) -> Wait | None:
    """Return the wait that is decided now, for its title; `None` if it is not open."""
    with suppress(ContinuationsError):
        return runner.wait(wait_id)
    return None


@with_common_options
def decide(
    command: Command,
    decisions: Annotated[
        str,
        typer.Argument(
            metavar="JSON|@FILE",
            help='A list such as [{"wait_id": WAIT, "decision": "approve"}].',
        ),
    ],
    *,
    by: By = None,
) -> None:
    """Decide several waits; each has a result of its own. Needs no agent code.

    The exit code is 5 if a decision was not recorded; the others are recorded.
    """
    actor = resolve_actor(by)
    posted = _posted(parse_arguments(decisions, name="DECISIONS"), actor.name)
    results = command.runner_without_agents().decide_all(
        {wait_id: each.verdict for wait_id, each in posted.items()},
        shown={wait_id: each.shown for wait_id, each in posted.items() if each.shown},
        door=actor.door,
    )
    if not all(isinstance(each, Exception) for each in results.values()):
        write_actor_note(actor)
    for wait_id, result in results.items():
        text = f"{escape_invisible(wait_id)}: {_result_text(result)}"
        command.write(partial(_result_json, wait_id, result), [text])
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


@with_common_options
def publish(
    command: Command,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of the event, as the tool passes it to wait_for().",
        ),
    ],
    *,
    data: Annotated[
        str, typer.Option(metavar="JSON", help="The data, as JSON.")
    ] = "null",
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key that wait_for() has; default: none."),
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Your id of the event: a repeated command publishes one event.",
        ),
    ] = None,
    by: By = None,
) -> None:
    """Publish an event for all waiting runs. Needs no agent code.

    The event ends each wait of this name and key. A wait that is opened within 24 hours
    takes the event too.
    """
    value = parse_json_value(data, name="--data", hint="Write a text in quotes.")
    actor = resolve_actor(by)
    publication = command.runner_without_agents(may_be_first=True).publish(
        name, value, key=key, by=actor.name, id=event_id, door=actor.door
    )
    write_actor_note(actor)
    count = len(publication.run_ids)
    runs = counted(count, "run")
    lines = [f"event {publication.id} is published; it ended waits of {runs}"]
    lines += [escape_invisible(f"  {run_id}") for run_id in publication.run_ids]
    lines += ["next: continuations sweep"] if count else []
    command.write(partial(to_json, publication), lines)


@with_common_options
def heartbeat(
    command: Command,
    wait: WaitId,
    *,
    extend: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Seconds from now to the new deadline."),
    ],
    by: By = None,
) -> None:
    """Say that a job of another system is in progress: its wait gets more time.

    A deadline never moves to an earlier time. Needs no agent code.
    """
    runner = command.runner_without_agents()
    check_wait_id(runner, wait)
    actor = resolve_actor(by)
    extended = runner.heartbeat(wait, extend=extend, by=actor.name)
    write_actor_note(actor)
    deadline = None if extended.deadline is None else utc_text(extended.deadline)
    shown = "it has no deadline" if deadline is None else f"the deadline is {deadline}"
    command.write(
        lambda: {"status": "extended", "deadline": deadline},
        [f"{escape_invisible(extended.id)}: {shown}"],
    )
