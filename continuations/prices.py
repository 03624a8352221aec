"""Prices of models, and the tokens that a run used.

from continuations.prices import Price, Prices
"""

from __future__ import annotations

from continuations.core.prices import Price, Prices
from continuations.core.usage import Usage

__all__ = [
    "Price",
    "Prices",
    "Usage",
]
