"""A call that stands still: what it waits for, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from continuations.core import jsontext

if TYPE_CHECKING:
    from datetime import datetime

WaitKind = Literal["approval", "unknown"]
WAIT_KINDS: frozenset[str] = frozenset(get_args(WaitKind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """All that a person needs to decide, and a decision to be checked against.

    `path` names the way from the root agent to the tool. `arguments_json` are the
    *effective* arguments, after defaults and validation: what runs if approved is
    exactly this. `schema_json` is their JSON Schema, `digest` binds run, frame,
    call, arguments and the tool's meaning. `deadline` bounds the decision,
    `valid_for` (seconds) how long after it an approval may still run. `note` says
    why the wait was opened, where there is more to say than its kind does.
    """

    id: str
    run_id: str
    call_id: str
    kind: WaitKind
    path: tuple[str, ...]
    tool: str
    arguments_json: str
    schema_json: str
    digest: str
    created_at: datetime
    deadline: datetime | None = None
    valid_for: int | None = None
    policy: str | None = None
    denial_stops: bool = False
    expiry_stops: bool = False
    note: str | None = None

    def sort_key(self) -> tuple[datetime, int]:
        """Return what waits are sorted by: when opened, then their calls' order."""
        return self.created_at, int(self.call_id[1:])

    @property
    def arguments(self) -> dict[str, Any]:
        """The effective arguments, as a fresh mapping."""
        arguments: dict[str, Any] = jsontext.parse(self.arguments_json)
        return arguments

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, as a fresh mapping."""
        schema: dict[str, Any] = jsontext.parse(self.schema_json)
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSummary:
    """What the key of an open wait tells by itself."""

    id: str
    run_id: str
    kind: str
    created_at: datetime


def call_digest(
    *, run_nonce: str, frame_id: str, call_id: str, arguments: str, contract_digest: str
) -> str:
    """Return the digest that an approval is bound to.

    `birth` is the random id that a run gets when it begins, so that no decision
    fits another run, not even one of the same id in another store.
    """
    return jsontext.digest(run_nonce, frame_id, call_id, arguments, contract_digest)
