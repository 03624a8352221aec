"""Answers of other systems that come before the wait of the tool is stored.

A tool gives the id of its wait to another system, and the system may answer before the
tool has returned. Such an answer has the digest of the call. It is kept: the call then
counts as started, and its tool is not repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.calls import open_wait_id
from continuations.core.rows.state import call_path, early_wait_ulids
from continuations.core.rows.waits import Wait
from continuations.ledger import layout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.core.words.call_display import CallDisplay


def accepted_digests(
    state: RunState, decided_ids: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the digests that decisions of the run may have, by wait id.

    Decisions of other waits than the open ones, and the early ones, are left out.
    """
    accepted: dict[str, tuple[str, ...]] = {}
    early: Mapping[str, CallRow] | None = None
    for wait_id in decided_ids:
        wait = state.waits.get(wait_id)
        digests = () if wait is None else (wait.digest,)
        if layout.is_known_early(wait_id):
            early = early_wait_ulids(state) if early is None else early
            call = (
                early.get(layout.parse_wait_id(wait_id).ulid)
                if wait is None
                else state.calls[wait.call_id]
            )
            if call is not None:
                digests = (*digests, early_answer_digest(state.run, call))
        if digests:
            accepted[wait_id] = digests
    return accepted


def answered_calls(state: RunState, decided_ids: Collection[str]) -> dict[str, CallRow]:
    """Return the calls that have an early answer, by the id of the answered wait.

    The decision of a person about an unknown outcome counts first. After a loss of
    versions, an answer may belong to a stage that was lost: then a person is asked.
    """
    unknown = [wait_id for wait_id in decided_ids if wait_id not in state.waits]
    if not any(map(layout.is_known_early, unknown)):
        return {}
    answered: dict[str, CallRow] = {}
    for call in early_wait_ulids(state).values():
        wait_id = layout.known_wait_id(state.run, call)
        is_lost = state.run.history_lost and not call.repeatable
        is_decided = open_wait_id(call.state) in decided_ids
        if wait_id in unknown and not is_lost and not is_decided:
            answered[wait_id] = call
    return answered


def wait_of_started_call(state: RunState, wait_id: str) -> Wait | None:
    """Return the wait with this id that a call may open that began, or `None`.

    The tool has not returned, so the rest of its wait is not known.
    """
    if not layout.is_known_early(wait_id) or state.run.has_ended:
        return None
    call = early_wait_ulids(state).get(layout.parse_wait_id(wait_id).ulid)
    return None if call is None else early_wait(state, call, wait_id)


def early_wait(state: RunState, call: CallRow, wait_id: str) -> Wait:
    """Return the wait of a started call for an answer that comes early."""
    return Wait(
        id=wait_id,
        run_id=state.run.id,
        call_id=call.id,
        kind=layout.parse_wait_id(wait_id).kind,
        path=call_path(state, call),
        tool=call.tool,
        arguments_json=call.arguments or "{}",
        schema_json="{}",
        digest=early_answer_digest(state.run, call),
        created_at=state.run.created_at,
        stage=call.stage,
        display=_display(call.secrets) if call.secrets else None,
    )


def _display(secrets: tuple[str, ...]) -> CallDisplay:
    from continuations.core.words.call_display import CallDisplay  # noqa: PLC0415 - cold start

    return CallDisplay(secrets=secrets)


def early_answer_digest(run: RunRow, call: CallRow) -> str:
    """Return the digest of an answer that comes before the tool's wait is stored."""
    return jsontext.digest(
        run.run_nonce,
        call.frame_id,
        call.id,
        call.arguments or "{}",
        call.contract_digest or "",
        "external",
        str(call.stage),
    )
