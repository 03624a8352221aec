"""Facts: what happened in the world, told to the core one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.decisions import Decision
    from continuations.core.messages import Message
    from continuations.core.run import Failure
    from continuations.core.usage import Usage
    from continuations.core.waits import Wait

# Nobody compares or prints a fact, and a class without __eq__ and __repr__ is made in a
# third of the time: these are made in every cold process that resumes.

# Of frames ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ModelReplied:
    """A frame's model gave its reply; `finish` is the provider's reason to stop.

    `fault` tells why a last reply cannot stand, where the agent declares a type for
    its output and this is not of it.
    """

    frame_id: str
    message: Message
    usage: Usage
    finish_reason: str = "stop"
    output_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserMessageAdded:
    """The next message of the inbox reaches the root frame."""

    number: int
    message: Message


# Of the run -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunStopped:
    """The run ends here, whatever its calls were doing."""

    failure: Failure


# Of calls: the second half of each row in transitions.py ---------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallAccepted:
    """The call is sound and needs nobody's approval."""

    call_id: str
    arguments: str
    contract_digest: str
    repeatable: bool = False
    verifiable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ApprovalRequested:
    """The call is sound and its policy asks a person first."""

    call_id: str
    arguments: str
    contract_digest: str
    wait: Wait
    repeatable: bool = False
    verifiable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallInvalid:
    """The call cannot run: unknown tool, bad arguments, a policy that raised."""

    call_id: str
    code: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallStarted:
    """The call is about to be run; recorded before it is."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SubAgentStarted:
    """The call's tool is an agent; its frame begins with these messages."""

    call_id: str
    agent: str
    messages: tuple[Message, ...]
    max_turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallReturned:
    """The tool, or the agent below, gave a result."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallRaised:
    """The tool, or the agent below, failed."""

    call_id: str
    code: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OutcomeUnknown:
    """Its worker died while it ran, and it may not be repeated on a guess."""

    call_id: str
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RepeatAllowed:
    """Its worker died while it ran, and it is declared safe to repeat."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Unverified:
    """The tool's own check could not tell whether it happened."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Approved:
    """A person said yes, perhaps to other arguments (effective, canonical JSON).

    `digest` is that of the call as it will run: with the edited arguments, if any.
    After `until` the call does not begin any more.
    """

    call_id: str
    digest: str
    until: datetime | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Denied:
    """A person said no."""

    call_id: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Expired:
    """Nobody decided in time, and the clock won the wait."""

    call_id: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answered:
    """Somebody who knows gave the result of a call whose outcome was unknown."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reopened:
    """The approval no longer stands (edited arguments refused, too old): ask anew."""

    call_id: str
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallCancelled:
    """The run ends while the call is open."""

    call_id: str
    reason: str


CallEvent: TypeAlias = (
    CallAccepted
    | ApprovalRequested
    | CallInvalid
    | CallStarted
    | SubAgentStarted
    | CallReturned
    | CallRaised
    | OutcomeUnknown
    | RepeatAllowed
    | Unverified
    | Approved
    | Denied
    | Expired
    | Answered
    | Reopened
    | CallCancelled
)
Event: TypeAlias = ModelReplied | UserMessageAdded | RunStopped | CallEvent
