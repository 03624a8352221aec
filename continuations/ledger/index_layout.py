"""The keys of the index of runs, which are empty objects.

index/live/{run}                    a run that has not ended
index/ended/{day}/{run}             a run that ended on this day
index/label/{name}={value}/{run}    a run with this label
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

INDEX_PREFIX = "index/"
_KEY = re.compile(
    r"index/(?:live|ended/[0-9]{4}-[0-9]{2}-[0-9]{2}|label/[^/=]+=[^/]*)"
    r"/([A-Za-z0-9][A-Za-z0-9._-]{0,199})\Z"
)
ENDED_PREFIX = "index/ended/"
LIVE_PREFIX = "index/live/"


def live_key(run_id: str) -> str:
    """Return the key that lists a run which has not ended."""
    return f"{LIVE_PREFIX}{run_id}"


def ended_key(run_id: str, ended_at: datetime) -> str:
    """Return the key that lists a run which has ended."""
    return f"{ENDED_PREFIX}{ended_at:%Y-%m-%d}/{run_id}"


def key_after_ended(moment: datetime) -> str:
    """Return a key that sorts after every run that ended on this day or before."""
    return f"{ENDED_PREFIX}{moment:%Y-%m-%d}/~"


def indexed_run_id(key: str) -> str | None:
    """Return the run that a key of the index lists, or `None` for another key."""
    match = _KEY.match(key)
    return match and match[1]


def label_in(key: str) -> tuple[str, str] | None:
    """Return the name and the value of the label in a key of the index, if any."""
    section, _, rest = key.removeprefix(INDEX_PREFIX).partition("/")
    name, _, value = rest.partition("/")[0].partition("=")
    return (name, value) if section == "label" else None


def label_key(run_id: str, name: str, value: str) -> str:
    """Return the key that lists a run with a label."""
    return f"{INDEX_PREFIX}label/{name}={value}/{run_id}"
