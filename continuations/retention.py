"""How long ended runs are kept.

from continuations.retention import Retention
"""

from __future__ import annotations

from continuations.ledger.repair.retention import Retention

__all__ = ["Retention"]
