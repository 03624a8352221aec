"""Check edited arguments with the JSON Schema in a wait, without the tool's code.

A decision that the tool would reject later costs a person a second look. So everything
that the schema tells is checked before the decision is recorded. The tool checks the
rest when the run is resumed.

This module imports jsonschema_rs; it is imported on first use.
"""

from __future__ import annotations

import ipaddress
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import jsonschema_rs

from continuations.core import jsontext
from continuations.core.rows.waits import find_fixed_argument
from continuations.core.words import secret_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.core.rows.waits import Wait

_Place: TypeAlias = tuple[str | int, ...]
_MAX_PROBLEMS = 5


def find_problem(wait: Wait, edited_arguments: object) -> str | None:
    """Return why the tool of a wait cannot run with an edit, or `None`.

    An edit has a mask where it keeps a secret value. The worker puts the value there.
    """
    if jsontext.as_object(edited_arguments) is None:
        return "arguments must be a dict"
    kept: frozenset[_Place] = frozenset()
    if wait.secrets:
        try:
            text = jsontext.canonical(jsontext.normalize_integers(edited_arguments))
            secret_arguments.restored_json(text, wait.arguments_json, wait.secrets)
        except secret_arguments.SecretLost:
            mask = secret_arguments.MASK
            return f'a secret argument cannot be edited, so leave "{mask}" in its place'
        except jsontext.NotJson as error:
            return f"arguments cannot be stored: {error}"
        places = secret_arguments.kept_places(jsontext.parse(text), wait.secrets)
        kept = frozenset(places)
    return find_value_problem(wait.schema, edited_arguments, "arguments", kept)


def find_fixed_problem(wait: Wait, edited_arguments: object) -> str | None:
    """Return why an edit changes an argument that must stay as it is, or `None`."""
    if wait.editable is None:
        return None
    text = jsontext.canonical(jsontext.normalize_integers(edited_arguments))
    name = find_fixed_argument(wait, text)
    if name is None:
        return None
    allowed = ", ".join(wait.editable) or "none"
    return f"the argument {name[:60]!r} cannot be edited; editable arguments: {allowed}"


def find_value_problem(
    schema: Mapping[str, Any],
    value: object,
    noun: str,
    unchecked: frozenset[_Place] = frozenset(),
) -> str | None:
    """Return why a value does not fit a schema, or `None`; `noun` names the value.

    The values at the `unchecked` places may be of any type.
    """
    try:
        text = jsontext.dump(value)
        text.encode()
    except jsontext.NotJson as error:
        return f"{noun} cannot be stored: {error}"
    except UnicodeEncodeError:
        return f"{noun} must not contain a lone surrogate, which is not a character"
    try:
        problems = [
            f"{'.'.join(map(str, place)) or noun}: {message}"
            for place, message in schema_problems(schema, jsontext.parse(text))
            if place not in unchecked
        ]
    except (ValueError, RecursionError) as error:
        return f"{noun} cannot be validated ({type(error).__name__})"
    if not problems:
        return None
    listed = "; ".join(problems[:_MAX_PROBLEMS])
    match = "does" if noun.startswith("the ") else "do"
    return f"{noun} {match} not match the schema ({listed})"


def schema_problems(
    schema: Mapping[str, Any], value: object
) -> list[tuple[_Place, str]]:
    """Return each place where a value does not fit a schema, with the reason.

    Raises `ValueError` or `RecursionError` if the schema or the value cannot be read.
    """
    return [
        (tuple(error.instance_path), error.message)
        for error in make_validator(schema).iter_errors(value)
    ]


def make_validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator that reads a schema as a tool does."""
    # Values are masked, because error messages are logged. A stored schema must not
    # make this process fetch a URL.
    return jsonschema_rs.validator_for(
        dict(schema),
        mask="the value",
        retriever=jsontext.refuse_reference,
        validate_formats=True,
        formats=_FORMATS,
    )


# Formats ----------------------------------------------------------------------


def _can_read(*readers: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a check that passes for a text that any of the readers accepts."""

    def check(text: str) -> bool:
        for read in readers:
            try:
                read(text)
            except ValueError:
                continue
            return True
        return False

    return check


def _read_datetime(text: str) -> datetime:
    return datetime.fromisoformat(text.upper())  # "z" is allowed, and Python wants "Z"


def _read_time(text: str) -> time:
    return time.fromisoformat(text.upper())


def _accept(text: str) -> bool:
    del text
    return True


# JSON Schema's own checks are stricter than pydantic, which takes a time without an
# offset. An edit that the tool takes must pass here. So formats without a reader pass.
_UNCHECKED_FORMATS = (
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "uri",
    "uri-reference",
    "uri-template",
)
_FORMATS: dict[str, Callable[[str], bool]] = {
    **{name: _accept for name in _UNCHECKED_FORMATS},  # noqa: C420 - one type for all
    "date": _can_read(date.fromisoformat, _read_datetime),
    "date-time": _can_read(_read_datetime),
    "ipv4": _can_read(ipaddress.IPv4Address),
    "ipv6": _can_read(ipaddress.IPv6Address),
    "time": _can_read(_read_time),
    "uuid": _can_read(UUID),
}
