"""Every object key, spelled here and nowhere else (docs/object-layout.md).

    runs/{run}/v/{9999999999 - number}      a version; the newest sorts first
    runs/{run}/in/d-{wait}                  the decision of a wait
    runs/{run}/in/m-{number}                a message in the inbox
    runs/{run}/in/stop                      the wish to end the run
    waits/{kind}-{ulid}@{run}               an open wait; the key is `waits/` + its id
    markers/{due}-{letter}-{what}-{nonce}@{run}   "look at this run at this time"

In byte order all that comes from outside stands before the versions, and the wish to
end the run last of it: one listing of a run shows what came and the newest version,
and one of two keys shows whether it was cancelled and what its newest version is.

Due times are milliseconds since 1970, 13 digits. A wait's id holds its kind, the time
that it was opened (in the ULID) and its run, so open waits are listed from keys alone.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from continuations.core.ulid import NotUlid, milliseconds_of
from continuations.core.waits import WAIT_KINDS
from continuations.errors import Corrupt, InvalidId, WaitNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VERSIONS = 9_999_999_999
WAITS_PREFIX = "waits/"
MARKERS_PREFIX = "markers/"

# Without `\Z`, `$` would let a trailing newline through.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_DUE_DIGITS = 13
# The last moment that 13 digits hold, in the year 2286; what is due later is due then.
_LAST_DUE = 10**_DUE_DIGITS - 1
# Enough that two markers of one run, reason and millisecond differ.
NONCE_LENGTH = 8
_MAX_TRIES = 20
_NUMBER = re.compile(r"[0-9]{10}\Z")
_MARKER = re.compile(
    r"([0-9]{13})-(?:([gmr])-([0-9]{1,10})|([dec])-([0-9a-z]{1,26}))-([0-9a-z]{1,26})\Z"
)


def check_run_id(run_id: object) -> str:
    """Return a run id that is one; raises `InvalidId`."""
    if isinstance(run_id, str) and _RUN_ID.match(run_id):
        return run_id
    msg = (
        f"{str(run_id)[:60]!r} is not a run id: 1 to 200 of letters, digits, "
        "'.', '_', '-', the first a letter or digit."
    )
    raise InvalidId(msg)


# Versions and what comes from outside ----------------------------------------


def run_prefix(run_id: str) -> str:
    """Return the prefix of all that a run has."""
    return f"runs/{run_id}/"


def versions_prefix(run_id: str) -> str:
    """Return the prefix of a run's versions."""
    return f"{run_prefix(run_id)}v/"


def version_key(run_id: str, number: int) -> str:
    """Return the key of one version."""
    return f"{versions_prefix(run_id)}{MAX_VERSIONS - number:010d}"


def version_number(key: str) -> int:
    """Return the number of a version's key; raises `Corrupt` for a foreign key."""
    name = key.rsplit("/", 1)[1]
    if _NUMBER.match(name) and int(name) < MAX_VERSIONS:
        return MAX_VERSIONS - int(name)
    msg = f"{key} is no version of a run. Remove it, or restore what it was."
    raise Corrupt(msg)


def newest_version_number(keys: Iterable[str], run_id: str) -> int:
    """Return the number of the first version among sorted keys, 0 if none is.

    Raises `Corrupt` if a foreign key stands there.
    """
    prefix = versions_prefix(run_id)
    first = next((key for key in keys if key.startswith(prefix)), None)
    return 0 if first is None else version_number(first)


def arrivals_prefix(run_id: str) -> str:
    """Return the prefix of all that comes to a run from outside."""
    return f"{run_prefix(run_id)}in/"


def decision_key(wait_id: str) -> str:
    """Return the key of a wait's decision."""
    name = parse_wait_id(wait_id)
    return f"{arrivals_prefix(name.run_id)}d-{name.kind}-{name.ulid}"


def decided_wait_id(key: str, run_id: str) -> str | None:
    """Return the id of the wait that a decision's key decides, or `None`."""
    name = key.rsplit("/", 1)[1]
    if not name.startswith("d-"):
        return None
    wait_id = f"{name[2:]}@{run_id}"
    with suppress(WaitNotFound):
        parse_wait_id(wait_id)
        return wait_id
    return None  # a stranger's key


def inbox_message_key(run_id: str, number: int) -> str:
    """Return the key of a message in the inbox."""
    return f"{arrivals_prefix(run_id)}m-{number:010d}"


def inbox_message_number(key: str) -> int | None:
    """Return the number of a message's key, or `None` for another key."""
    name = key.rsplit("/", 1)[1]
    return int(name[2:]) if name.startswith("m-") and _NUMBER.match(name[2:]) else None


def cancel_request_key(run_id: str) -> str:
    """Return the key of the wish to end a run."""
    return f"{arrivals_prefix(run_id)}stop"


def key_before_cancel_request(run_id: str) -> str:
    """Return a key that sorts after all else that comes to a run from outside."""
    return f"{arrivals_prefix(run_id)}n"


# Waits ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedWaitId:
    """What a wait's id says; `opened` is in milliseconds since 1970."""

    kind: str
    ulid: str
    run_id: str
    opened_ms: int


def build_wait_id(kind: str, ulid: str, run_id: str) -> str:
    """Return the id of a new wait."""
    return f"{kind}-{ulid}@{run_id}"


def parse_wait_id(wait_id: object) -> ParsedWaitId:
    """Return what a wait's id says; raises `WaitNotFound` for anything else."""
    if isinstance(wait_id, str):
        local, _, run_id = wait_id.partition("@")
        kind, _, ulid = local.partition("-")
        if kind in WAIT_KINDS and _RUN_ID.match(run_id):
            with suppress(NotUlid):
                opened = milliseconds_of(ulid)
                if opened <= _LAST_DUE:
                    return ParsedWaitId(kind, ulid, run_id, opened)
    msg = (
        f"{str(wait_id)[:80]!r} is not the id of a wait. List what waits with "
        "`continuations waiting` or Runner.waiting()."
    )
    raise WaitNotFound(msg)


def wait_key(wait_id: str) -> str:
    """Return the key of an open wait."""
    parse_wait_id(wait_id)
    return WAITS_PREFIX + wait_id


# Markers --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """What a marker's key says: look at this run at this time, for this reason.

    `letter` is `g` for the guard of version number `what`, `d` for a decision and `e`
    for the deadline of the wait whose ULID is `what`, `m` for message number `what`,
    `c` for a cancellation, `r` for version number `what`, which could go on at once.
    """

    due_ms: int
    kind: str
    target: str
    nonce: str
    run_id: str

    @property
    def tries(self) -> int:
        """How often the run was looked at for it in vain; it stands after the nonce."""
        digits = self.nonce[NONCE_LENGTH:]
        return int(digits) if digits.isdecimal() else 0

    def postponed(self, due_ms: int) -> Marker:
        """Return the marker as it is after one more look in vain, due later."""
        tries = min(self.tries + 1, _MAX_TRIES)
        return replace(
            self, due_ms=due_ms, nonce=f"{self.nonce[:NONCE_LENGTH]}{tries:02d}"
        )

    @property
    def key(self) -> str:
        """The marker's key."""
        due = min(self.due_ms, _LAST_DUE)
        name = f"{due:0{_DUE_DIGITS}d}-{self.kind}-{self.target}-{self.nonce}"
        return f"{MARKERS_PREFIX}{name}@{self.run_id}"


def parse_marker(key: str) -> Marker | None:
    """Return what a marker's key says, or `None` for a key of another shape."""
    name, _, run_id = key.removeprefix(MARKERS_PREFIX).partition("@")
    found = _MARKER.match(name)
    if found is None or not _RUN_ID.match(run_id):
        return None
    due, numbered, number, lettered, what, nonce = found.groups()
    return Marker(int(due), numbered or lettered, number or what, nonce, run_id)


def is_pause_marker(key: str) -> bool:
    """Tell whether a key is the marker of a run that stopped for want of time."""
    marker = parse_marker(key)
    return marker is not None and marker.kind == "r"


def key_after_due_markers(due_ms: int) -> str:
    """Return a key that sorts after every marker due at that time or before."""
    return f"{MARKERS_PREFIX}{due_ms:0{_DUE_DIGITS}d}~"
