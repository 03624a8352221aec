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

    frame: str
    message: Message
    usage: Usage
    finish: str = "stop"
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserSaid:
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
class Admitted:
    """The call is sound and needs nobody's approval."""

    call: str
    arguments: str
    meaning: str
    repeatable: bool = False
    verifiable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Gated:
    """The call is sound and its policy asks a person first."""

    call: str
    arguments: str
    meaning: str
    wait: Wait
    repeatable: bool = False
    verifiable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Rejected:
    """The call cannot run: unknown tool, bad arguments, a policy that raised."""

    call: str
    code: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Begun:
    """The call is about to be run; recorded before it is."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Entered:
    """The call's tool is an agent; its frame begins with these messages."""

    call: str
    agent: str
    messages: tuple[Message, ...]
    max_turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallReturned:
    """The tool, or the agent below, gave a result."""

    call: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallRaised:
    """The tool, or the agent below, failed."""

    call: str
    code: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Interrupted:
    """Its worker died while it ran, and it may not be repeated on a guess."""

    call: str
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Repeated:
    """Its worker died while it ran, and it is declared safe to repeat."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Unverified:
    """The tool's own check could not tell whether it happened."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Approved:
    """A person said yes, perhaps to other arguments (effective, canonical JSON).

    `digest` is that of the call as it will run: with the edited arguments, if any.
    After `until` the call does not begin any more.
    """

    call: str
    digest: str
    until: datetime | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Denied:
    """A person said no."""

    call: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Expired:
    """Nobody decided in time, and the clock won the wait."""

    call: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Answered:
    """Somebody who knows gave the result of a call whose outcome was unknown."""

    call: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Reopened:
    """The approval no longer stands (edited arguments refused, too old): ask anew."""

    call: str
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CallCancelled:
    """The run ends while the call is open."""

    call: str
    reason: str


CallEvent: TypeAlias = (
    Admitted
    | Gated
    | Rejected
    | Begun
    | Entered
    | CallReturned
    | CallRaised
    | Interrupted
    | Repeated
    | Unverified
    | Approved
    | Denied
    | Expired
    | Answered
    | Reopened
    | CallCancelled
)
Event: TypeAlias = ModelReplied | UserSaid | RunStopped | CallEvent
