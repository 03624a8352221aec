"""The law of worker loops on a store that reports creates."""

from __future__ import annotations

from itertools import pairwise

from tests.simulation.evidence import Evidence
from tests.simulation.watches.actors import INTERVAL

# The requests of one look may be slow, and the last runs end after the loop.
_SLOW_REQUESTS = 60.0


def lost_reports_cost_an_interval(evidence: Evidence) -> str | None:
    """A worker loop looks at the markers at its interval, with and without reports."""
    environment = evidence.environment
    for name, began_at, ended_at in environment.served:
        looks = [
            at
            for process, at in environment.marker_listings
            if process == name and began_at <= at <= ended_at
        ]
        for before, after in pairwise([began_at, *looks, ended_at]):
            if after - before > INTERVAL + _SLOW_REQUESTS:
                return f"{name} looked at no marker from {before} to {after}"
    return None
