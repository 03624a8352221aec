"""The commands that decide waits, or give them time.

Decisions end them: approve, deny, answer, fail, decide. A heartbeat gives the wait of a
job more time.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

import continuations
from continuations.cli import LIBRARY_ERROR, formatting, options
from continuations.cli.command import Command, as_command
from continuations.core import jsontext
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.visible_text import escape_invisible
from continuations.errors import ContinuationsError
from continuations.present.json_forms import decide_json
from continuations.present.problems import find_problem_type
from continuations.wire.report import to_json, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.rows.decisions import Decision, Verdict
    from continuations.results import Vote
    from continuations.serve.http.decision_bodies import PostedDecision


@as_command
def approve(  # noqa: PLR0913 - one parameter for each option
    command: Command,
    wait: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    arguments: str | None = None,
    form: str | None = None,
    remember: str | None = None,
    run_again: bool = False,
    shown: str | None = None,
) -> None:
    """Approve a call: it runs exactly as the wait shows it. Needs no agent code.

    Arguments and options:
        arguments (JSON|@FILE): Run the call with these arguments in place of the
            model's.
        form (JSON|@FILE): The form that the policy asks for, as a JSON object. `show
            WAIT` lists its fields.
        remember (JSON|@FILE): A grant for later calls in this run: {"tool": "pay",
            "arguments": {JSON Schema}, "until": "2027-01-01T00:00:00Z"}.
        run_again: For a call with an unknown outcome: you know that it did not happen.
            The next resume runs it.
    """
    _check_run_again(wait, run_again=run_again)
    edited: Any = None if arguments is None else options.parse_arguments(arguments)
    filled: Any = None if form is None else options.parse_arguments(form, name="--form")
    grant = None if remember is None else options.parse_grant(remember)
    verdict = partial(
        continuations.Approve, arguments=edited, form=filled, remember=grant
    )
    _decide(command, wait, by, partial(verdict, reason=reason), shown)


def _check_run_again(wait: str, *, run_again: bool) -> None:
    """Raise `UsageError` if the option does not fit the kind of the wait."""
    parts = options.find_wait_id(wait)
    if parts is None:
        return  # a later check says what the text is
    repeats = WAIT_RULES[parts.kind].may_have_run
    if repeats and not run_again:
        raise options.UsageError(
            f"{wait} has an unknown outcome: the call was started and may have "
            "happened. If it did not happen, pass --run-again to run it once more. "
            "If it happened, use `continuations answer` to record its result."
        )
    if run_again and not repeats:
        raise options.UsageError(
            f"--run-again is for a call with an unknown outcome, and {wait} has the "
            f"kind {parts.kind}. Leave it out."
        )


@as_command
def deny(
    command: Command,
    wait: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    shown: str | None = None,
) -> None:
    """Deny a call: it does not run, and the model sees why. Needs no agent code."""
    _decide(command, wait, by, partial(continuations.Deny, reason=reason), shown)


@as_command
def answer(
    command: Command,
    wait: str,
    value: str,
    *,
    text: bool = False,
    by: str | None = None,
    reason: str | None = None,
    shown: str | None = None,
) -> None:
    """Answer a wait. Needs no agent code.

    For a question: the answer. For an event or a job: its data. For an approval: the
    result; the call does not run. For an unknown outcome: the call did happen, with
    this result.

    Arguments and options:
        value (VALUE): The answer, as JSON.
        text: VALUE is plain text, not JSON.
    """
    hint = "Pass --text if it is plain text, or write it as JSON."
    parsed = value if text else options.parse_json_value(value, name="VALUE", hint=hint)
    verdict = partial(continuations.Answer, parsed, reason=reason)
    _decide(command, wait, by, verdict, shown)


@as_command
def fail(
    command: Command,
    wait: str,
    error: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    shown: str | None = None,
) -> None:
    """Say that an awaited event does not come, or that a job failed.

    The model reads the error. Needs no agent code.

    Arguments and options:
        error (ERROR): What failed.
    """
    _decide(command, wait, by, partial(continuations.Fail, error, reason=reason), shown)


def _decide(
    command: Command,
    wait_id: str,
    by: str | None,
    make_verdict: Callable[..., Verdict],
    shown: str | None,
) -> None:
    runner = command.runner()
    actor = options.resolve_actor(by)
    options.check_wait_id(runner, wait_id)
    wait = None
    if not command.as_json:
        with suppress(ContinuationsError):  # a wait that is decided has no title
            wait = runner.wait(wait_id)
    result = runner.decide(
        wait_id, make_verdict(by=actor.name), shown=shown, door=actor.door
    )
    options.write_actor_note(actor)
    command.write(partial(to_json, result), formatting.decided_lines(wait, result))


@as_command
def decide(command: Command, decisions: str, *, by: str | None = None) -> None:
    """Decide several waits; each has a result of its own. Needs no agent code.

    The exit code is 5 if a decision was not recorded; the others are recorded.

    Arguments and options:
        decisions (JSON|@FILE): A list such as
            [{"wait_id": WAIT, "decision": "approve"}].
    """
    actor = options.resolve_actor(by)
    posted = _posted(options.parse_arguments(decisions, name="DECISIONS"), actor.name)
    results = command.runner().decide_all(
        {wait_id: each.verdict for wait_id, each in posted.items()},
        shown={wait_id: each.shown for wait_id, each in posted.items() if each.shown},
        door=actor.door,
    )
    if not all(isinstance(each, Exception) for each in results.values()):
        options.write_actor_note(actor)
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
        raise options.UsageError(
            'DECISIONS must be a JSON array of objects, each with a "wait_id". '
            "Correct the JSON."
        )
    try:
        return decision_bodies.posted_decisions(given, by)
    except problems.RequestRefused as error:
        why = (error.problem.detail or "").removesuffix(".")
        raise options.UsageError(
            f"DECISIONS is not valid: {why}. Correct the JSON."
        ) from None


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


@as_command
def heartbeat(
    command: Command, wait: str, *, extend: float, by: str | None = None
) -> None:
    """Say that a job of another system is in progress: its wait gets more time.

    A deadline never moves to an earlier time. Needs no agent code.

    Arguments and options:
        extend (SECONDS): Seconds from now to the new deadline.
    """
    runner = command.runner()
    options.check_wait_id(runner, wait)
    actor = options.resolve_actor(by)
    extended = runner.heartbeat(wait, extend=extend, by=actor.name)
    options.write_actor_note(actor)
    deadline = None if extended.deadline is None else utc_text(extended.deadline)
    shown = "it has no deadline" if deadline is None else f"the deadline is {deadline}"
    command.write(
        lambda: {"status": "extended", "deadline": deadline},
        [f"{escape_invisible(extended.id)}: {shown}"],
    )
