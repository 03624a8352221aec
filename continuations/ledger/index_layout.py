"""The keys of the index of runs, which are empty objects.

index/live/{run}                    a run that has not ended
index/ended/{day}/{run}             a run that ended on this day
index/label/{name}={value}/{run}    a run with this label
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

INDEX_PREFIX = "index/"
ENDED_PREFIX = "index/ended/"


def live_key(run_id: str) -> str:
    """Return the key that lists a run which has not ended."""
    return f"{INDEX_PREFIX}live/{run_id}"


def ended_key(run_id: str, ended_at: datetime) -> str:
    """Return the key that lists a run which has ended."""
    return f"{ENDED_PREFIX}{ended_at:%Y-%m-%d}/{run_id}"


def key_after_ended(moment: datetime) -> str:
    """Return a key that sorts after every run that ended on this day or before."""
    return f"{ENDED_PREFIX}{moment:%Y-%m-%d}/~"


def indexed_run_id(key: str) -> str:
    """Return the run that a key of the index lists."""
    return key.rpartition("/")[2]


def label_key(run_id: str, name: str, value: str) -> str:
    """Return the key that lists a run with a label."""
    return f"{INDEX_PREFIX}label/{name}={value}/{run_id}"
