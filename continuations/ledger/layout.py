"""All object keys; no other module builds one (docs/object-layout.md).

    runs/{run}/v/{9999999999 - number}            a version; the newest sorts first
    runs/{run}/in/d-{kind}-{ulid}                 the decision of a wait
    runs/{run}/in/m-{number}                      an inbox message
    runs/{run}/in/stop                            the cancel request of the run
    waits/{kind}-{ulid}@{run}                     an open wait: `waits/` and its id
    markers/{due}-{kind}-{target}-{nonce}@{run}   "look at this run at this time"

In byte order, the keys under `in/` sort before the versions, and the cancel request is
the last of them. So one listing of a run shows all arrivals and the newest version. A
listing of two keys shows the cancel request and the newest version.

Due times are milliseconds since 1970 with 13 digits. A wait id contains its kind, the
time when the wait was opened (in the ULID) and its run, so that open waits are listed
from keys alone.
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

# `\Z` and not `$`, which would accept a newline at the end.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_DUE_DIGITS = 13
# The largest 13 digits: a time in 2286. Later due times become this one.
_LAST_DUE = 10**_DUE_DIGITS - 1
# Enough characters to distinguish two markers of one run, kind and millisecond.
NONCE_LENGTH = 8
_MAX_TRIES = 20
_NUMBER = re.compile(r"[0-9]{10}\Z")
_MARKER = re.compile(
    r"([0-9]{13})-(?:([gmr])-([0-9]{1,10})|([dec])-([0-9a-z]{1,26}))-([0-9a-z]{1,26})\Z"
)


def check_run_id(run_id: object) -> str:
    """Return a valid run id; raises `InvalidId`."""
    if isinstance(run_id, str) and _RUN_ID.match(run_id):
        return run_id
    msg = (
        f"run_id {str(run_id)[:60]!r} is not valid: a run id has 1 to 200 characters "
        "of A-Z a-z 0-9 . _ - and begins with a letter or digit. Pass such an id."
    )
    raise InvalidId(msg)


# Versions and arrivals --------------------------------------------------------


def run_prefix(run_id: str) -> str:
    """Return the prefix of all versions and arrivals of a run."""
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
    msg = f"{key} is not the key of a version. Remove or rename this object."
    raise Corrupt(msg)


def newest_version_number(keys: Iterable[str], run_id: str) -> int:
    """Return the number of the first version among sorted keys, or 0.

    Raises `Corrupt` if that key is a foreign one.
    """
    prefix = versions_prefix(run_id)
    first = next((key for key in keys if key.startswith(prefix)), None)
    return 0 if first is None else version_number(first)


def arrivals_prefix(run_id: str) -> str:
    """Return the prefix of decisions, inbox messages and the cancel request."""
    return f"{run_prefix(run_id)}in/"


def decision_key(wait_id: str) -> str:
    """Return the key of the decision of a wait."""
    name = parse_wait_id(wait_id)
    return f"{arrivals_prefix(name.run_id)}d-{name.kind}-{name.ulid}"


def decided_wait_id(key: str, run_id: str) -> str | None:
    """Return the id of the wait that a key decides, or `None` for another key."""
    name = key.rsplit("/", 1)[1]
    if not name.startswith("d-"):
        return None
    wait_id = f"{name[2:]}@{run_id}"
    with suppress(WaitNotFound):
        parse_wait_id(wait_id)
        return wait_id
    return None  # a foreign key


def inbox_message_key(run_id: str, number: int) -> str:
    """Return the key of an inbox message."""
    return f"{arrivals_prefix(run_id)}m-{number:010d}"


def inbox_message_number(key: str) -> int | None:
    """Return the number of an inbox message's key, or `None` for another key."""
    name = key.rsplit("/", 1)[1]
    return int(name[2:]) if name.startswith("m-") and _NUMBER.match(name[2:]) else None


def cancel_request_key(run_id: str) -> str:
    """Return the key of the cancel request of a run."""
    return f"{arrivals_prefix(run_id)}stop"


def key_before_cancel_request(run_id: str) -> str:
    """Return a key between the other arrivals and the cancel request."""
    return f"{arrivals_prefix(run_id)}n"


# Waits ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedWaitId:
    """The parts of a wait id; `opened_ms` is in milliseconds since 1970."""

    kind: str
    ulid: str
    run_id: str
    opened_ms: int


def build_wait_id(kind: str, ulid: str, run_id: str) -> str:
    """Return the id of a new wait."""
    return f"{kind}-{ulid}@{run_id}"


def parse_wait_id(wait_id: object) -> ParsedWaitId:
    """Return the parts of a wait id; raises `WaitNotFound` for another text."""
    if isinstance(wait_id, str):
        local, _, run_id = wait_id.partition("@")
        kind, _, ulid = local.partition("-")
        if kind in WAIT_KINDS and _RUN_ID.match(run_id):
            with suppress(NotUlid):
                opened = milliseconds_of(ulid)
                if opened <= _LAST_DUE:
                    return ParsedWaitId(kind, ulid, run_id, opened)
    msg = (
        f"wait_id {str(wait_id)[:80]!r} is not valid: a wait id is "
        "KIND-ULID@RUN. List open waits with `continuations waiting` or "
        "Runner.waiting()."
    )
    raise WaitNotFound(msg)


def wait_key(wait_id: str) -> str:
    """Return the key of an open wait."""
    parse_wait_id(wait_id)
    return WAITS_PREFIX + wait_id


# Markers --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """The parts of a marker's key: look at this run at this time.

    Attributes:
        due_ms: When to look, in milliseconds since 1970.
        kind: One letter. `g` guards version number `target`. `d` is a decision, and
            `e` the deadline, of the wait with the ULID `target`. `m` is inbox message
            number `target`. `c` is the cancel request. `r` is version number `target`,
            which paused and can continue at once.
        target: A version number, a message number or a ULID.
        nonce: Random characters, then two digits of `tries` if it is not 0.
        run_id: The run.
    """

    due_ms: int
    kind: str
    target: str
    nonce: str
    run_id: str

    @property
    def tries(self) -> int:
        """How often a look at the run changed nothing; 0 to 20."""
        digits = self.nonce[NONCE_LENGTH:]
        return int(digits) if digits.isdecimal() else 0

    def postponed(self, due_ms: int) -> Marker:
        """Return the marker with a later due time and one more try."""
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
    """Return the parts of a marker's key, or `None` for another key."""
    name, _, run_id = key.removeprefix(MARKERS_PREFIX).partition("@")
    match = _MARKER.match(name)
    if match is None or not _RUN_ID.match(run_id):
        return None
    due, number_kind, number, ulid_kind, ulid, nonce = match.groups()
    return Marker(int(due), number_kind or ulid_kind, number or ulid, nonce, run_id)


def is_pause_marker(key: str) -> bool:
    """Return whether a key is the marker of a run that paused at a time limit."""
    marker = parse_marker(key)
    return marker is not None and marker.kind == "r"


def key_after_due_markers(due_ms: int) -> str:
    """Return a key that sorts after every marker that is due at a time or before."""
    return f"{MARKERS_PREFIX}{due_ms:0{_DUE_DIGITS}d}~"
