"""Options and arguments that several commands share, and how their texts are read."""

from __future__ import annotations

import mimetypes
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from continuations.cli.output import recorded_decisions, write_note
from continuations.core import jsontext
from continuations.core.rows.decisions import Door
from continuations.errors import WaitNotFound
from continuations.ledger.layout import ParsedWaitId, parse_wait_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations import Grant, Runner
    from continuations.core.rows.attachments import Content

# A word needs no quotes: --setting reasoning_effort=low
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9 ._-]*\Z")
_MAX_SHOWN_CHARS = 60


class UsageError(Exception):
    """The command line is invalid and nothing was done; the text says how to fix it."""


class Limits(NamedTuple):
    """The least and the greatest value of an argument or option."""

    min: int
    max: int | None = None


Requester = Annotated[str | None, "--by"]
Natural = Annotated[int, Limits(0)]
Positive = Annotated[int, Limits(1)]
PositiveOrNone = Annotated[int | None, Limits(1)]
SecondsOrNone = Annotated[float | None, Limits(0)]

SHARED_WORDS = """
    agent (NAME): The root agent, if the runner has more than one.
    app (MODULE:NAME): Your code: a Runner, an AsyncRunner or an Agent in a module.
    by (NAME): The name of the person. Default: the user of this process.
    context (MODULE:NAME): The object that the tools get as ctx.context. If NAME is a
        function, the object is its result.
    file (PATH): An image, a sound or a file for the agent. Repeat it for more
        files.
    ids: Print only the ids, one per line.
    json: Print JSON.
    reason (TEXT): Why. It is recorded; the model sees the reason of a denial.
    requester (NAME): The person who asks for the run.
    run (RUN): The id of a run.
    shown (DIGEST): The digest that `show` printed. If the wait has another one, nothing
        is recorded.
    store (URL): The store, for example sqlite:PATH or s3://BUCKET/PREFIX. Default: the
        store of the application, or sqlite:runs.db in this folder.
    stream: Print texts while they are written, and each step. With --json, each event
        is one line.
    text (TEXT): The message.
    timeout (SECONDS): How long --wait-if-busy keeps trying. Default: without a limit.
    transcript: Print messages whole: also the arguments of their calls, and the inputs
        of sub-agents. These may contain secret values.
    wait (WAIT): The id of a wait, as `waiting` lists it.
    wait_if_busy: While another process holds the claim on the run, keep trying. The
        command never waits for a person.
    yes: Do not ask for a confirmation.
"""
"""The words of the help about parameters that several commands have."""


def input_with_files(text: str, paths: list[str]) -> Any:
    """Return a text, or a text and attachments.

    The ending of a name tells the media type. Raises `UsageError` for a file that
    cannot be read, and `InvalidInput` for an empty one.
    """
    return [text, *(read_file("--file", path) for path in paths)] if paths else text


def read_file(option: str, name: str) -> Content:
    """Return a file as an attachment.

    Args:
        option: The option or command that named the file, for errors.
        name: The path of the file.

    Returns:
        The attachment. Only the last part of the path is its name.

    Raises:
        UsageError: The file cannot be read, or is larger than a run can have.
        InvalidInput: The file is empty, or its name is not valid.
    """
    from continuations.core.attachment_parts import MAX_RUN_BYTES  # noqa: PLC0415 - few inputs have a file
    from continuations.core.rows.attachments import make_content  # noqa: PLC0415

    path = Path(name).expanduser()
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_RUN_BYTES else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path is not valid"
        raise UsageError(
            f"{option} {name!r} cannot be read: {reason}. Pass the path of a file that "
            "this user may read."
        ) from None
    if size > MAX_RUN_BYTES:
        raise UsageError(
            f"{option} {name!r} is too large: it has {size} bytes, and all attachments "
            f"of a run have at most {MAX_RUN_BYTES}. Pass a smaller file."
        )
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return make_content(data, media_type, path.name)


def parse_pairs(options: Iterable[str], name: str, example: str) -> dict[str, str]:
    """Return the values of a repeated option `NAME=VALUE`, by their names.

    Args:
        options: The texts of the option, one for each use.
        name: The option, for errors.
        example: A valid text of the option, for errors.

    Returns:
        The values, in the order of the command line.

    Raises:
        UsageError: A text has no name or no `=`, or two of them have the same name.
    """
    pairs: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        # The value may be a secret.
        shown = repr(key[:_MAX_SHOWN_CHARS])
        if not key or not equals:
            msg = f"{name} {shown} is not valid: it must be a name, = and a value."
            raise UsageError(f"{msg} Pass for example {name} {example}.")
        if key in pairs:
            msg = f"{name} {shown} is not valid: another {name} has this name."
            raise UsageError(f"{msg} Leave one of the two out.")
        pairs[key] = value
    return pairs


def parse_settings(options: list[str]) -> dict[str, Any] | None:
    """Return the settings that the options give; raises `UsageError`."""
    pairs = parse_pairs(options, "--setting", "temperature=0")
    return {name: _parse_value(name, text) for name, text in pairs.items()} or None


def _parse_value(name: str, text: str) -> Any:
    try:
        return jsontext.parse(text, lossless=True)
    except jsontext.NotJson as error:
        if _WORD.match(text):
            return text
        raise UsageError(
            f"--setting {name!r} is not valid: its value is neither JSON nor a word: "
            f"{error}. Quote a text: '{name}=\"...\"'."
        ) from None


# The person and the values of a decision -------------------------------------


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
    raise UsageError(
        f"{wait_id} is the id of a run, and a decision needs the id of a wait. "
        f"Open waits of this run: {open_waits}."
    )


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
    raise UsageError(
        f"{run_id} is the id of a wait, and `{command}` needs the id of a run. "
        f"The run of this wait is {wait.run_id}."
    )


def resolve_actor(by: str | None) -> Actor:
    """Return the person of `--by`, or the user of this process.

    Raises `UsageError` if that user has no name.
    """
    if by is not None:
        return Actor(by, is_default=False)
    name = _login_name()
    if name is None:
        raise UsageError(
            "--by is missing and the user of this process has no name. "
            "Pass --by NAME or set CONTINUATIONS_BY."
        )
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
        raise UsageError(f"{name} is not JSON, got {shown}: {error}. {hint}") from None


def parse_arguments(text: str, *, name: str = "--arguments") -> Any:
    """Return edited arguments from JSON or from `@file`; raise `UsageError`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{name} {text} cannot be read: {error}. Check the path."
            ) from None
    hint = "Pass one JSON object, or @FILE that contains one."
    return parse_json_value(text, name=name, hint=hint)


def parse_object(text: str, *, name: str) -> Mapping[str, Any]:
    """Return a JSON object from a text or from `@file`; raise `UsageError`."""
    found = jsontext.as_object(parse_arguments(text, name=name))
    if found is None:
        shown = repr(text[:_MAX_SHOWN_CHARS])
        raise UsageError(
            f"{name} must be a JSON object, got {shown}. Pass one JSON object, such as "
            """'{"item": "laptop"}', or @FILE that contains one."""
        )
    return found


def parse_grant(text: str) -> Grant:
    """Return the grant of `--remember`, from JSON or `@file`; raise `UsageError`."""
    from continuations.present import requests  # noqa: PLC0415 - rarely given

    try:
        return requests.parse_grant(parse_arguments(text, name="--remember"))
    except requests.FieldsInvalid as error:
        raise UsageError(
            f"--remember is not a grant: {error}. Correct the JSON."
        ) from None


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
