"""What a decider types: which wait, who decides, and values in JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.cli.errors import UsageError
from continuations.cli.wait_status import wait_endings
from continuations.core import jsontext

if TYPE_CHECKING:
    from continuations import Runner


def resolve_wait_id(runner: Runner, wait_id: str) -> str:
    """Return the id of the wait that is meant; raises `UsageError` for a run's id.

    A run's id would approve whatever that run waits for by now, and a command that is
    typed twice would approve what nobody has seen.
    """
    if "@" in wait_id:
        return wait_id
    waits = runner.look(wait_id).waits
    ends = wait_endings(runner, waits)
    undecided = [f"{wait.id} ({wait.tool})" for wait in waits if wait.id not in ends]
    open_waits = ", ".join(undecided) or "none"
    msg = f"{wait_id} is a run; a decision names a wait. Open there: {open_waits}"
    raise UsageError(msg)


def resolve_actor(by: str | None) -> tuple[str, str]:
    """Return who decides, and where the name is from; raises `UsageError`."""
    if by is not None:
        return by, ""
    name = _login_name()
    if name is None:
        msg = "Who decides? Give --by NAME or set CONTINUATIONS_BY."
        raise UsageError(msg)
    return name, "the user of this process; say another with --by or CONTINUATIONS_BY"


def parse_json_value(text: str, *, hint: str) -> Any:
    """Return the value of a JSON text; raises `UsageError` with a hint."""
    try:
        return jsontext.parse(text)
    except jsontext.NotJson as error:
        msg = f"{text[:60]!r} is not JSON ({error}). {hint}"
        raise UsageError(msg) from None


def parse_arguments(text: str) -> Any:
    """Return edited arguments, given as JSON or as `@file`; raises `UsageError`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"--arguments {text}: {error}"
            raise UsageError(msg) from None
    hint = "--arguments takes one JSON object, or @file with one in it."
    return parse_json_value(text, hint=hint)


def _login_name() -> str | None:
    # From the user id and not from $USER, which says whatever it was set to.
    try:
        import pwd  # noqa: PLC0415 - there is none on Windows
    except ModuleNotFoundError:
        return os.environ.get("USERNAME")
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
