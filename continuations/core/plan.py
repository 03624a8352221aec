"""What can be done next, for every frame and call that can move by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.actions import Action, Ask, Begin, Examine, Run, Verify
from continuations.core.calls import Proposed, Ready, Started, Unknown

if TYPE_CHECKING:
    from continuations.core.table import Table

_ACTIONS: dict[type[object], type[Examine | Begin | Run | Verify]] = {
    Proposed: Examine,
    Ready: Begin,
    Started: Run,
    Unknown: Verify,
}


def plan(table: Table) -> tuple[Action, ...]:
    """Return every action that needs no decision, in the order of their ids.

    Empty means: the run has ended, or only a decision can move it.
    """
    # By the number in the id: the same order in every process.
    ids = sorted(table.agenda, key=lambda row_id: int(row_id[1:]))
    return tuple(_action(table, row_id) for row_id in ids)


def _action(table: Table, row_id: str) -> Action:
    call = table.calls.get(row_id)
    if call is None:
        return Ask(row_id)
    return _ACTIONS[type(call.state)](row_id)
