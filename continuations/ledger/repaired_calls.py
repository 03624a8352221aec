"""Calls of a run whose later versions were lost: which may have been started."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core import consequences, jsontext
from continuations.core.calls import Parked, Ready, Started, Unknown, Waiting
from continuations.core.decisions import Answer, Decision
from continuations.core.secret_arguments import SecretLost, restored_json
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.calls import CallRow
    from continuations.core.waits import Wait

# The recorded decision of a wait; "unreadable"; or "undecided". A wait whose old id an
# earlier repair retired is undecided. A wait that is "kept" is undecided and keeps its
# id, because another system has it.
PriorDecision: TypeAlias = "Decision | Literal['undecided', 'unreadable', 'kept']"


def as_started(
    call: CallRow,
    waits: Mapping[str, Wait],
    prior_decisions: Mapping[str, PriorDecision],
) -> CallRow:
    """Return the call as started if it may have been started in a lost version.

    Args:
        call: The call, in the last good version.
        waits: The waits of that version.
        prior_decisions: The recorded decision of each wait.
    """
    if isinstance(call.state, Ready):
        return replace(call, state=Started())
    if not isinstance(call.state, Waiting | Unknown | Parked) or call.repeatable:
        # The call waits for nothing; or it may be repeated, and its decision is valid.
        return call
    prior = prior_decisions[call.state.wait_id]
    if not isinstance(prior, Decision):
        return call
    if isinstance(call.state, Parked):
        return _with_answer(call, waits[call.state.wait_id], prior)
    return _with_approval(call, prior) if prior.kind == "approve" else call


def _with_approval(call: CallRow, approval: Decision) -> CallRow:
    edited = approval.arguments
    if edited is None:
        return replace(call, state=Started())
    if call.secrets:
        with suppress(SecretLost):
            edited = restored_json(edited, call.arguments or "{}", call.secrets)
    original = call.original_arguments or call.arguments
    return replace(call, state=Started(), arguments=edited, original_arguments=original)


def _with_answer(call: CallRow, wait: Wait, decision: Decision) -> CallRow:
    """Return the call with its `on_answer` function started, if it got an answer."""
    consequence = consequences.consequence(wait, decision)
    if not wait.continues or not isinstance(consequence, Answer):
        return call
    return replace(
        call,
        state=Started(),
        stage=call.stage + 1,
        answer=jsontext.canonical(consequence.value),
        attempts=1,
        approved_digest=None,
        approved_until=None,
    )
