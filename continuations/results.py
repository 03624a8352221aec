"""The classes of values that methods of a runner return, for annotations.

from continuations.results import Decision, Door
"""

from __future__ import annotations

from continuations.core.rows.decisions import Decision, Door, Verdict
from continuations.core.rows.event_matching import UntakenSignal
from continuations.core.rows.grants import KeptGrant
from continuations.core.rows.quorum import Vote
from continuations.core.rows.run import Failure
from continuations.engine.past.drift import DriftReason, DriftRow
from continuations.engine.sweep.sweeping import SweepResult
from continuations.ledger.copying.store_copy import CopyResult
from continuations.ledger.published_events import Publication

__all__ = [
    "CopyResult",
    "Decision",
    "Door",
    "DriftReason",
    "DriftRow",
    "Failure",
    "KeptGrant",
    "Publication",
    "SweepResult",
    "UntakenSignal",
    "Verdict",
    "Vote",
]
