"""The classes of values that methods of a runner return, for annotations.

from continuations.results import Decision, Door
"""

from __future__ import annotations

from continuations.core.decisions import Decision, Door, Verdict
from continuations.core.grants import KeptGrant
from continuations.core.quorum import Vote
from continuations.core.run import Failure
from continuations.core.signal_matching import UntakenSignal
from continuations.engine.drift import DriftReason, DriftRow
from continuations.engine.sweeping import SweepResult
from continuations.ledger.published_events import Publication

__all__ = [
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
