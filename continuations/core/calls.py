"""One tool call and the states that it can be in.

A state is a type, not a flag: "waiting" and "refused" are different classes, so that
a No is never mistaken for a Not yet. Which state may follow which is written in
`transitions.py` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Proposed:
    """The model asked for it; nobody has looked at it yet."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """It stands still until its wait is decided."""

    wait_id: str


@dataclass(frozen=True, slots=True)
class Ready:
    """It may run: it needs no approval, or has it."""


@dataclass(frozen=True, slots=True)
class Started:
    """The intent to run it is recorded; whether it ran is not."""


@dataclass(frozen=True, slots=True)
class Nested:
    """Its tool is an agent, and this is the agent's frame."""

    frame_id: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It was started and its worker died: whether it happened, nobody knows.

    `checked` tells that the tool's own `verify` was asked and could not tell.
    """

    wait_id: str
    verify_tried: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """It ran; `content` is what the model reads."""

    content: str


@dataclass(frozen=True, slots=True)
class Errored:
    """It ran or could not run, and failed; `code` says how, `content` tells it."""

    code: str
    content: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It does not run: denied, expired or cancelled, as `code` says."""

    code: str
    content: str


OpenState: TypeAlias = Proposed | Waiting | Ready | Started | Nested | Unknown
ClosedState: TypeAlias = Returned | Errored | Refused
CallState: TypeAlias = OpenState | ClosedState

CLOSED_STATES = (Returned, Errored, Refused)

STATE_TYPES: dict[str, type[CallState]] = {
    "proposed": Proposed,
    "waiting": Waiting,
    "ready": Ready,
    "started": Started,
    "nested": Nested,
    "unknown": Unknown,
    "returned": Returned,
    "errored": Errored,
    "refused": Refused,
}
STATE_NAMES: dict[type[CallState], str] = {
    cls: name for name, cls in STATE_TYPES.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call in the flat table; `frame` is the row of the agent that made it.

    `provider_id` is the id that goes into the transcript; nothing is ever routed by
    it. `written` is what the model wrote. `arguments` are the effective ones, as
    canonical JSON; after an edit `original` keeps those which the edit replaced.
    `approved` is the digest that a person said yes to, `approved_until` when that yes
    is too old for the call to begin. `repeatable` tells that it
    may run again after a crash, `verifiable` that its tool can be asked.
    """

    id: str
    frame_id: str
    tool: str
    tool_call_id: str
    raw_arguments: str
    state: CallState
    arguments: str | None = None
    original_arguments: str | None = None
    contract_digest: str | None = None
    approved_digest: str | None = None
    approved_until: datetime | None = None
    repeatable: bool = False
    verifiable: bool = False
    attempts: int = 0
