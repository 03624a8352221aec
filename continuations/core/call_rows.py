"""The changes of an event to the row of its call, apart from the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.call_events import (
    Answered,
    AnswerReceived,
    ApprovalRequested,
    Approved,
    CallAccepted,
    CallParked,
    CallReturned,
    CallStarted,
    Denied,
    OutcomeUnknown,
    Reopened,
    RepeatAllowed,
    SubAgentStarted,
)
from continuations.core.calls import Parked, Ready, Started, Unknown
from continuations.core.transitions import illegal_transition
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.call_events import CallEvent
    from continuations.core.calls import CallRow


def check_attempts(row: CallRow, event: CallEvent) -> None:
    """Raise `IllegalTransition` if an event denies that the call may have run.

    A call that began once must not wait for an approval. Only a rule denies a call
    that is ready: a person decided it before.
    """
    if isinstance(row.state, Ready) and isinstance(event, Denied):
        if event.decision.rule is None:
            raise illegal_transition(f"call {row.id} has its decision", event)
        return
    begun = row.attempts + row.stage
    match row.state, event:
        case Ready(), ApprovalRequested() | Reopened():
            wrong = begun > 0
        case Started(), Reopened():
            wrong = begun > 1
        case _:
            wrong = isinstance(event, CallParked) and row.stage > 0
    if wrong:
        raise illegal_transition(f"call {row.id} may have run", event)


def with_event_data(  # noqa: PLR0911, C901 - one return for each kind of event
    row: CallRow, event: CallEvent
) -> CallRow:
    """Return the row with the data of the event, apart from the new state."""
    match event:
        case CallAccepted():
            row = _examined(row, event)
            return replace(
                row,
                approved_digest=event.approved_digest,
                approved_until=event.approved_until,
                grant=event.grant,
                quorum=event.quorum,
            )
        case ApprovalRequested():
            return replace(_examined(row, event), quorum=event.wait.quorum)
        case Approved():
            row = replace(
                row,
                approved_digest=event.digest,
                approved_until=event.until,
                grant=None,
                # The approval of an unknown outcome has none: the first one holds.
                form=event.form or row.form,
            )
            if event.arguments is None:
                return row
            original = row.original_arguments or row.arguments
            return replace(row, arguments=event.arguments, original_arguments=original)
        case CallStarted() | SubAgentStarted():
            return replace(row, attempts=row.attempts + 1)
        case CallReturned(parts_json=str()):
            row = replace(row, parts_json=event.parts_json)
            return row if event.patch is None else _with_patch(row, event.patch)
        case CallReturned() | CallParked() | Answered() if event.patch is not None:
            return _with_patch(row, event.patch)
        case AnswerReceived():
            # The approval, if any, was for the first stage, which has run.
            form = row.form
            row = _without_approval(row)
            stage = row.stage + 1
            return replace(row, stage=stage, answer=event.answer, attempts=0, form=form)
        case Reopened() if not isinstance(row.state, Unknown | Parked):
            # If the start of the call was recorded, its tool did not run.
            row = _without_approval(row)
            return replace(row, attempts=0, quorum=event.wait.quorum)
        case RepeatAllowed(never_began=True):
            return replace(row, attempts=row.attempts - 1)
        case OutcomeUnknown() | RepeatAllowed():
            # Also after a repair, which does not count a start in a lost version.
            return replace(row, attempts=max(row.attempts, 1))
        case _:
            return row


def _with_patch(row: CallRow, patch: str) -> CallRow:
    from continuations.core import frame_state  # noqa: PLC0415 - few tools write a state

    return replace(row, patch=frame_state.with_patch(row.patch or "", patch))


def _without_approval(row: CallRow) -> CallRow:
    return replace(
        row, approved_digest=None, approved_until=None, grant=None, form=None
    )


def _examined(row: CallRow, event: CallAccepted | ApprovalRequested) -> CallRow:
    """Return the row of a call that is not approved."""
    return replace(
        _without_approval(row),
        arguments=event.arguments,
        contract_digest=event.contract_digest,
        repeatable=event.repeatable,
        verifiable=event.verifiable,
        secrets=event.secrets,
        patch=row.patch or ("{}" if event.writes_state else None),
        quorum=None,
    )
