"""What a decider types: which wait, who decides, and values in JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.cli.misuse import Misuse
from continuations.cli.standing import standing
from continuations.core import jsontext

if TYPE_CHECKING:
    from continuations import Runner


def named(runner: Runner, name: str) -> str:
    """Return the id of the wait that is meant; raises `Misuse` for a run's id.

    A run's id would approve whatever that run waits for by now, and a command that is
    typed twice would approve what nobody has seen.
    """
    if "@" in name:
        return name
    waits = runner.look(name).waits
    ends = standing(runner, waits)
    undecided = [f"{wait.id} ({wait.tool})" for wait in waits if wait.id not in ends]
    open_waits = ", ".join(undecided) or "none"
    msg = f"{name} is a run; a decision names a wait. Open there: {open_waits}"
    raise Misuse(msg)


def actor(by: str | None) -> tuple[str, str]:
    """Return who decides, and where the name is from; raises `Misuse`."""
    if by is not None:
        return by, ""
    name = _login_name()
    if name is None:
        msg = "Who decides? Give --by NAME or set CONTINUATIONS_BY."
        raise Misuse(msg)
    return name, "the user of this process; say another with --by or CONTINUATIONS_BY"


def json_value(text: str, *, hint: str) -> Any:
    """Return the value of a JSON text; raises `Misuse` with a hint."""
    try:
        return jsontext.parse(text)
    except jsontext.NotJson as error:
        msg = f"{text[:60]!r} is not JSON ({error}). {hint}"
        raise Misuse(msg) from None


def json_arguments(text: str) -> Any:
    """Return edited arguments, given as JSON or as `@file`; raises `Misuse`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"--arguments {text}: {error}"
            raise Misuse(msg) from None
    hint = "--arguments takes one JSON object, or @file with one in it."
    return json_value(text, hint=hint)


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
