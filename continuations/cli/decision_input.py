"""Read a decision from the command line: the wait, the person, values as JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.cli.options import UsageError
from continuations.cli.output import recorded_decisions, write_note
from continuations.core import jsontext
from continuations.core.rows.decisions import Door
from continuations.errors import WaitNotFound
from continuations.ledger.layout import parse_wait_id

if TYPE_CHECKING:
    from continuations import Grant, Runner
    from continuations.ledger.layout import ParsedWaitId

_MAX_SHOWN_CHARS = 60


class Actor(NamedTuple):
    """The person who decides; `is_default` if no option or variable names one."""

    name: str
    is_default: bool

    @property
    def door(self) -> Door:
        """The door of the command line, and whether the system vouches for the name."""
        return Door("cli", "login" if self.is_default else None)


def check_wait_id(runner: Runner, wait_id: str) -> None:
    """Raise `UsageError` if the id is that of a run.

    A run id would decide any wait that the run has by now. A repeated command would
    then decide a wait that the person never saw.
    """
    if "@" in wait_id:
        return
    run = runner.look(wait_id)
    decided = recorded_decisions(runner.store, run)
    undecided = [
        f"{wait.id} ({wait.tool})" for wait in run.waits if wait.id not in decided
    ]
    open_waits = ", ".join(undecided) or "none"
    msg = (
        f"{wait_id} is the id of a run, and a decision needs the id of a wait. "
        f"Open waits of this run: {open_waits}."
    )
    raise UsageError(msg)


def find_wait_id(text: str) -> ParsedWaitId | None:
    """Return the parts of a wait's id; `None` for another text."""
    try:
        return parse_wait_id(text)
    except WaitNotFound:
        return None


def check_run_id(run_id: str, *, command: str) -> None:
    """Raise `UsageError` if the id is that of a wait."""
    wait = find_wait_id(run_id)
    if wait is None:
        return  # an id that is neither is an error of the library
    msg = (
        f"{run_id} is the id of a wait, and `{command}` needs the id of a run. "
        f"The run of this wait is {wait.run_id}."
    )
    raise UsageError(msg)


def resolve_actor(by: str | None) -> Actor:
    """Return the person of `--by`, or the user of this process.

    Raises `UsageError` if that user has no name.
    """
    if by is not None:
        return Actor(by, is_default=False)
    name = _login_name()
    if name is None:
        msg = (
            "--by is missing and the user of this process has no name. "
            "Pass --by NAME or set CONTINUATIONS_BY."
        )
        raise UsageError(msg)
    return Actor(name, is_default=True)


def write_actor_note(actor: Actor) -> None:
    """Write a note if the recorded name is the user of this process."""
    if actor.is_default:
        write_note(
            f"note: recorded for {actor.name}, the user of this process; pass --by "
            "NAME to name another person"
        )


def parse_json_value(text: str, *, name: str, hint: str) -> Any:
    """Return the value of a JSON text; raise `UsageError` with a hint."""
    try:
        return jsontext.parse(text, lossless=True)
    except jsontext.NotJson as error:
        shown = repr(text[:_MAX_SHOWN_CHARS])
        msg = f"{name} is not JSON, got {shown}: {error}. {hint}"
        raise UsageError(msg) from None


def parse_arguments(text: str, *, name: str = "--arguments") -> Any:
    """Return edited arguments from JSON or from `@file`; raise `UsageError`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{name} {text} cannot be read: {error}. Check the path."
            raise UsageError(msg) from None
    hint = "Pass one JSON object, or @FILE that contains one."
    return parse_json_value(text, name=name, hint=hint)


def parse_grant(text: str) -> Grant:
    """Return the grant of `--remember`, from JSON or `@file`; raise `UsageError`."""
    from continuations.present import requests  # noqa: PLC0415 - rarely given

    try:
        return requests.parse_grant(parse_arguments(text, name="--remember"))
    except requests.FieldsInvalid as error:
        msg = f"--remember is not a grant: {error}. Correct the JSON."
        raise UsageError(msg) from None


def _login_name() -> str | None:
    # The user id decides, because any process can set $USER.
    try:
        import pwd  # noqa: PLC0415 - Windows does not have it
    except ModuleNotFoundError:
        return os.environ.get("USERNAME")
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
