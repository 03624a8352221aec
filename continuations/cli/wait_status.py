"""Find the decided waits of a run, so that no command shows them as open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.engine import portal
from continuations.ledger.objects import Objects
from continuations.ledger.recorded_decisions import decided_wait_ids, read_decision
from continuations.present.wait_words import DECISION_WORDS
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from continuations import Continuation
    from continuations.results import Decision
    from continuations_storage import Store


def recorded_decisions(store: Store, run: Continuation) -> dict[str, Decision]:
    """Return the recorded decisions of the waits of a version, by wait id."""
    return portal.run_until_complete(_read_decisions(store, run))


async def _read_decisions(store: Store, run: Continuation) -> dict[str, Decision]:
    decided = await decided_wait_ids(store, run)
    wait_ids = [wait.id for wait in run.waits if wait.id in decided]
    objects = Objects(store)
    decisions = await asyncio.gather(
        *(read_decision(objects, wait_id) for wait_id in wait_ids)
    )
    pairs = zip(wait_ids, decisions, strict=True)
    return {wait_id: decision for wait_id, decision in pairs if decision is not None}


def decision_text(decision: Decision) -> str:
    """Return the kind, the person and the time of a decision as text."""
    deciders = ", ".join(decision.voters) or decision.by
    by = f" by {deciders}" if deciders else ""
    # A deadline has no decider: only `wake` ends a wait by a name before its time.
    is_woken = decision.kind == "expire" and decision.by is not None
    word = "woken" if is_woken else DECISION_WORDS[decision.kind].lower()
    return f"{word}{by} at {readable_time(decision.at)}"
