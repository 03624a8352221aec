"""Grants: an approval that also covers later calls of the same tool in one run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SCHEMA_CHARS = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = frozenset({"tool", "arguments", "until"})


def checked_moment(label: str, value: object) -> datetime:
    """Return a time in UTC.

    Raises:
        InvalidInput: The value is no datetime with a time zone. Or its year in UTC is
            before 1 or after 9999, so that no reader could read it.
    """
    try:
        if isinstance(value, datetime) and value.utcoffset() is not None:
            return value.astimezone(UTC)
    except OverflowError:
        pass
    raise InvalidInput(
        f"{label} must be a datetime with a time zone, in the years 1 to 9999 of UTC, "
        f"got {type(value).__name__} {value!s:.40}. Pass a datetime such as "
        "datetime.now(UTC) + timedelta(days=1)."
    )


@dataclass(frozen=True, slots=True)
class Grant:
    """Approve later calls of the tool too: `Approve(remember=Grant(...))`.

    A grant covers calls that the same agent makes at the same place of the same run,
    while the tool keeps its contract: name, version and schema. Such a call is
    approved by the grant and not shown to a person. `Runner.revoke` ends a grant.

    Attributes:
        tool: Name of the tool. It must be the tool of the approved call.
        arguments: JSON Schema that the effective arguments of a covered call match, at
            most 2,000 characters of JSON. Each argument that it names must be there,
            and a keyword such as `maximum` covers numbers only. `decide` refuses a
            schema that does not limit what it names. `None`: any arguments.
        until: Time after which the grant covers nothing, with a time zone. `None`: the
            grant ends with the run.

    Raises:
        InvalidInput: An option has a wrong type, or `until` has no time zone.
    """

    tool: str
    arguments: Mapping[str, Any] | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        """Raise now what `decide` would otherwise find."""
        tool: object = self.tool
        if type(tool) is not str or not tool:
            raise InvalidInput(f"Grant: tool must be the name of a tool, got {tool!r}.")
        arguments: object = self.arguments
        if arguments is not None and jsontext.as_object(arguments) is None:
            got = type(arguments).__name__
            msg = f"Grant: arguments must be a JSON Schema as a dict, got {got}."
            raise InvalidInput(msg)
        if self.until is not None:
            checked_moment("Grant: until", self.until)


_NOT_A_GRANT = "it is not a grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGrant:
    """A grant that a run keeps.

    Attributes:
        id: Id of the grant: the id of the decision that gave it.
        tool: Name of the tool.
        path: Names from the root agent down to the tool, as the approver saw them.
        contract: Digest of the contract that the tool must have. `None` until a worker
            has applied the decision.
        arguments_json: JSON Schema of the arguments, as JSON text, or `None`.
        until: Time after which the grant covers nothing, or `None`.
        by: Person or program that gave the grant.
        at: When it was given, in UTC.
        wait_id: Wait whose decision gave it.
        revoked: Whether it is revoked, and no worker has taken that in yet.
    """

    id: str
    tool: str
    path: tuple[str, ...]
    contract: str | None = None
    arguments_json: str | None = None
    until: datetime | None = None
    by: str | None = None
    at: datetime
    wait_id: str
    revoked: bool = False

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The JSON Schema of the arguments, as a new dict, or `None`."""
        if self.arguments_json is None:
            return None
        schema: dict[str, Any] = jsontext.parse(self.arguments_json)
        return schema


def has_ended(grant: KeptGrant, now: datetime) -> bool:
    """Return whether the time of a grant is over."""
    return grant.until is not None and now > grant.until


def grant_text(grant: Grant) -> str:
    """Return the stored form of a grant; raises `NotJson`."""
    form: dict[str, Any] = {"tool": grant.tool}
    if grant.arguments is not None:
        form["arguments"] = dict(grant.arguments)
    if grant.until is not None:
        form["until"] = (grant.until - _EPOCH) // timedelta(milliseconds=1)
    return jsontext.canonical(form)


def parse_grant_text(text: str) -> Grant:
    """Return the grant of a stored form; raises `NotJson` for another text."""
    form = jsontext.as_object(jsontext.parse(text))
    if form is None or not form.keys() <= _FIELDS:
        raise jsontext.NotJson(_NOT_A_GRANT)
    tool, until = form.get("tool"), form.get("until")
    if type(tool) is not str or not (until is None or type(until) is int):
        raise jsontext.NotJson(_NOT_A_GRANT)
    try:
        end = None if until is None else _EPOCH + timedelta(milliseconds=until)
        return Grant(tool, form.get("arguments"), end)
    except (InvalidInput, OverflowError):
        raise jsontext.NotJson(_NOT_A_GRANT) from None
