"""How calls ended, as codes. Programs read the codes, and never the texts for models.

The row of a call that ended goes away after its turn. The metadata of its tool message
keeps the code, unless the call simply returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast, get_args

from continuations.core import jsontext
from continuations.core.rows.calls import CLOSED_STATES, CallRow, Refused, Returned

if TYPE_CHECKING:
    from continuations.core.messages import Message

# `invalid`: the call failed before it began. `error`: it failed later. `not_executed`:
# its outcome was unknown, and it did not happen.
CallEnd = Literal[
    "returned",
    "answered",
    "denied",
    "expired",
    "cancelled",
    "not_executed",
    "invalid",
    "error",
]
CALL_ENDS: tuple[CallEnd, ...] = get_args(CallEnd)
FAILED_ENDS = frozenset({"invalid", "error"})
# The ends of calls that began, and whose tool or agent may have run to its end.
BEGUN_ENDS = frozenset({"returned", "error"})
_END = "end"
_HANDOFF = "handoff"


def end_of(row: CallRow) -> CallEnd:
    """Return how a closed call ended."""
    state = row.state
    assert isinstance(state, CLOSED_STATES)  # noqa: S101 - for the type checkers
    has_begun = bool(row.attempts or row.stage)
    if isinstance(state, Returned):
        # Only an answer to an approval ends a call that was never started.
        return "returned" if has_begun else "answered"
    if isinstance(state, Refused):
        return cast("CallEnd", state.code)
    return "error" if has_begun else "invalid"


def with_end(message: Message, row: CallRow) -> Message:
    """Return the tool message of a closed call, which says how the call ended."""
    end = end_of(row)
    if isinstance(row.state, Returned) and row.state.handoff is not None:
        facts = {_HANDOFF: row.state.handoff.agent}
        return message.with_metadata(jsontext.canonical(facts))
    if end == "returned":
        return message
    return message.with_metadata(jsontext.canonical({_END: end}))


def agent_after(message: Message) -> str | None:
    """Return the agent that a tool message gives the conversation to, or `None`."""
    facts = message.metadata if message.role == "tool" else None
    return None if facts is None else facts.get(_HANDOFF)


def end_in(message: Message) -> CallEnd:
    """Return how the call of a tool message ended."""
    facts = message.metadata
    return "returned" if facts is None else facts.get(_END, "returned")
