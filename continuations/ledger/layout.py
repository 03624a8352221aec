"""All object keys but those of events and of the index (docs/object-layout.md).

`event_keys`, `index_layout` and `thread_keys` build those of events, of the index and
of threads. No other module builds a key.

    runs/{run}/v/{9999999999 - number}               a version; the newest sorts first
    runs/{run}/v/-{until}                            hides a run that is being copied
    runs/{run}/in/d-{wait_kind}-{ulid}               the decision of a wait
    runs/{run}/in/e-{number}                         a signal
    runs/{run}/in/f-{wait_kind}-{ulid}-{number}      a slot of a wait
    runs/{run}/in/g-{number}                         a revocation of a grant
    runs/{run}/in/h-{digest of id}                   the lowest number of a signal
    runs/{run}/in/m-{number}                         an inbox message
    runs/{run}/in/o-{number}                         a request of an operator
    runs/{run}/in/stop                               the cancel request of the run
    runs/{run}/y/{number}                            the code that a worker lacked
    runs/{run}/z                                     proves a right before an erasure
    waits/{wait_kind}-{ulid}@{run}                   an open wait: `waits/` and its id
    markers/{due}-{reason}-{target}-{suffix}@{run}   "look at this run at this time"

Decisions, signals, slots, inbox messages, requests of operators and the cancel request
are the *arrivals* of a run. The byte order of a run's keys is: decisions, signals,
slots, inbox messages, requests of operators, cancel request, versions. So one listing
of a run shows all arrivals and the newest version. A listing of two keys after the last
request that the run has taken in shows the next one, if any, the cancel request, if
any, and the newest version. Signals sort after decisions: a listing that shows the
decision of a wait by a signal also shows the signal.

Due times are milliseconds since 1970 with 13 digits; 0 means *now*, on every clock. A
wait id contains its kind, its time (in the ULID) and its run.

The run of a thread has the id `t-{slug of the agent}-{32 digits of the digest of agent
and key}-{generation}`. The key itself is stored in the run. A thread that has ended
begins again as the next generation: another run of the same agent and key.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from continuations.core.rows.wait_rules import KNOWN_ID_KIND, WAIT_KINDS, WAIT_RULES
from continuations.core.rows.waits import known_wait_ulid
from continuations.core.ulid import NotUlid, milliseconds_of
from continuations.errors import Corrupt, InvalidId, RunBusy, WaitNotFound
from continuations.value_class import dataclass, replace
from continuations.wire.fields import from_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.wait_rules import WaitKind
    from continuations_storage.postgres_sql import RoleRights


MAX_VERSIONS = 9_999_999_999
WAITS_PREFIX = "waits/"
MARKERS_PREFIX = "markers/"

# `\Z` and not `$`, which would accept a newline at the end.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_DUE_DIGITS = 13
# The largest 13 digits: a time in 2286. Later due times become this one.
_LAST_DUE = 10**_DUE_DIGITS - 1
# The due time of a marker that means "now". No clock is needed to make it.
DUE_NOW = 0
# The prefix of all markers that are due now.
DUE_NOW_PREFIX = f"{MARKERS_PREFIX}{DUE_NOW:0{_DUE_DIGITS}d}-"
# Enough characters to distinguish two markers of one run, reason and millisecond.
NONCE_LENGTH = 8
_MAX_FRUITLESS_LOOKS = 20
_NUMBER = re.compile(r"[0-9]{10}\Z")
_AUDIT_KEY = re.compile(r"\Aruns/[^/]+/in/(?:[dfgo]-[^/]+|stop)\Z")
_COPY_GUARD = re.compile(r"/v/-([0-9]{13})(u?)\Z")
_MARKER = re.compile(
    r"([0-9]{13})-(?:([gmors])-([0-9]{1,10})|([decn])-([0-9a-z]{1,26}))-([0-9a-z]{1,26})\Z"
)


def check_run_id(run_id: object, name: str = "run_id") -> str:
    """Return the run id if it is valid; raises `InvalidId` if not.

    `name` is the parameter or field as the user wrote it.
    """
    if isinstance(run_id, str) and _RUN_ID.match(run_id):
        return run_id
    raise InvalidId(
        f"{name} {str(run_id)[:60]!r} is not valid: a run id has 1 to 200 characters "
        "of A-Z a-z 0-9 . _ - and begins with a letter or digit. Pass such an id."
    )


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
    """Return the number of a version's key.

    Raises `Corrupt` for a key that this library did not write, and `RunBusy` for the
    guard of a copy.
    """
    last_segment = key.rsplit("/", 1)[1]
    if _NUMBER.match(last_segment) and int(last_segment) < MAX_VERSIONS:
        return MAX_VERSIONS - int(last_segment)
    if is_copy_guard(key):
        raise _being_copied_error(key)
    folder = key.partition("v/")[0]
    raise Corrupt(f"{key} was not written by continuations. Move it out of {folder}.")


def newest_version_number(keys: Iterable[str], run_id: str) -> int:
    """Return the number of the newest version, the first one among sorted keys, or 0.

    Raises `Corrupt` if this library did not write that key, and `RunBusy` if the run is
    being copied into this store.
    """
    prefix = versions_prefix(run_id)
    first = next((key for key in keys if key.startswith(prefix)), None)
    return 0 if first is None else version_number(first)


def copy_guard_key(run_id: str, until_ms: int, *, is_update: bool = False) -> str:
    """Return the key that hides a run while it is copied into this store.

    It sorts before every version. So the one listing that begins each operation shows
    it, and the operation raises `RunBusy`. The guard of an update says that this store
    has shown the run before.
    """
    update = "u" if is_update else ""
    return f"{versions_prefix(run_id)}-{until_ms:0{_DUE_DIGITS}d}{update}"


def is_copy_guard(key: str) -> bool:
    """Return whether a key hides a run that is being copied."""
    return _COPY_GUARD.search(key) is not None


def is_guard_of_update(key: str) -> bool:
    """Return whether a key hides a run that the store has shown before."""
    found = _COPY_GUARD.search(key)
    return found is not None and found[2] == "u"


def _being_copied_error(key: str) -> RunBusy:
    run_id = key.split("/")[1]
    msg = (
        f"run {run_id} is not complete in this store: it is being copied, or the copy "
        "stopped in between. Wait for the copy, or repeat it."
    )
    until = from_milliseconds(int(key.rpartition("-")[2].removesuffix("u")))
    return RunBusy(msg, run_id=run_id, until=until)


def arrivals_prefix(run_id: str) -> str:
    """Return the prefix of all arrivals: decisions, signals, slots, messages."""
    return f"{run_prefix(run_id)}in/"


def is_arrival_key(key: str) -> bool:
    """Return whether a key is one of the arrivals of a run."""
    return key.startswith("runs/") and "/in/" in key


def decision_key(wait_id: str) -> str:
    """Return the key of the decision of a wait."""
    parts = parse_wait_id(wait_id)
    return f"{arrivals_prefix(parts.run_id)}d-{parts.kind}-{parts.ulid}"


def decided_wait_id(key: str, run_id: str) -> str | None:
    """Return the wait id in the key of a decision, or `None` for another key."""
    last_segment = key.rsplit("/", 1)[1]
    if not last_segment.startswith("d-"):
        return None
    wait_id = f"{last_segment[2:]}@{run_id}"
    with suppress(WaitNotFound):
        parse_wait_id(wait_id)
        return wait_id
    return None  # this library did not write the key


# The letters of the arrivals that are numbered from 1 on, without gaps.
MESSAGE = "m"
SIGNAL = "e"
OPERATOR_REQUEST = "o"
REVOCATION = "g"


def numbered_key(letter: str, run_id: str, number: int) -> str:
    """Return the key of a numbered arrival."""
    return f"{arrivals_prefix(run_id)}{letter}-{number:010d}"


def number_in(letter: str, key: str) -> int | None:
    """Return the number in the key of an arrival, or `None` for another key."""
    prefix, _, number = key.rsplit("/", 1)[1].partition("-")
    return int(number) if prefix == letter and _NUMBER.match(number) else None


def own_id_key(letter: str, run_id: str, own_id: str) -> str:
    """Return the key that keeps the lowest number of an arrival with an own id."""
    digest = hashlib.sha256(own_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{arrivals_prefix(run_id)}{letter}-{digest}"


def slots_prefix(wait_id: str) -> str:
    """Return the prefix of the slots of a wait."""
    parts = parse_wait_id(wait_id)
    return f"{arrivals_prefix(parts.run_id)}f-{parts.kind}-{parts.ulid}-"


def slot_key(wait_id: str, number: int) -> str:
    """Return the key of a slot."""
    return f"{slots_prefix(wait_id)}{number:010d}"


def parse_slot_key(key: str, run_id: str) -> tuple[str, int] | None:
    """Return the wait id and number in the key of a slot, or `None` for another key."""
    last_segment = key.rsplit("/", 1)[1]
    name, _, number = last_segment.rpartition("-")
    if not last_segment.startswith("f-") or not _NUMBER.match(number):
        return None
    wait_id = f"{name[2:]}@{run_id}"
    with suppress(WaitNotFound):
        parse_wait_id(wait_id)
        return wait_id, int(number)
    return None  # this library did not write the key


def is_audit_key(key: str) -> bool:
    """Return whether a key is of a decision, a vote, a revocation or a request.

    These say who decided what. They stay if an erasure keeps the audit of a run.
    """
    return _AUDIT_KEY.search(key) is not None


def cancel_request_key(run_id: str) -> str:
    """Return the key of the cancel request; the word in the key is `stop`."""
    return f"{arrivals_prefix(run_id)}stop"


def deletion_probe_key(run_id: str) -> str:
    """Return the key whose deletion proves that a process may erase the run."""
    return f"{run_prefix(run_id)}z"


def missing_code_key(run_id: str, number: int) -> str:
    """Return the key of what the first worker lacked that left a version to others."""
    return f"{run_prefix(run_id)}y/{number:010d}"


# Waits ----------------------------------------------------------------------


# A kind, a ULID, a run id of 200 characters, and the characters between them.
_MAX_WAIT_ID_CHARS = 300


@dataclass(frozen=True, slots=True)
class ParsedWaitId:
    """The parts of a wait id; `opened_ms` is in milliseconds since 1970."""

    kind: WaitKind
    ulid: str
    run_id: str
    opened_ms: int


def build_wait_id(kind: str, ulid: str, run_id: str) -> str:
    """Return the id of a new wait."""
    return f"{kind}-{ulid}@{run_id}"


def known_wait_id(run: RunRow, call: CallRow) -> str:
    """Return the id that a call's wait has if the tool may know it before.

    The tool gives it to another system, before the wait is opened.
    """
    return build_wait_id(KNOWN_ID_KIND, known_wait_ulid(run, call), run.id)


def is_known_early(wait_id: str) -> bool:
    """Return whether another system may have the id before its wait is opened."""
    return WAIT_RULES[parse_wait_id(wait_id).kind].has_known_id


def parse_wait_id(wait_id: object) -> ParsedWaitId:
    """Return the parts of a wait id; raises `WaitNotFound` for other texts."""
    if isinstance(wait_id, str) and len(wait_id) <= _MAX_WAIT_ID_CHARS:
        parsed = _parse_wait_id(wait_id)
        if parsed is not None:
            return parsed
    if not isinstance(wait_id, str):
        kind = type(wait_id).__name__
        advice = "Pass wait.id" if hasattr(wait_id, "id") else "Pass the id of a wait"
        msg = f"wait_id must be the id of a wait (str), got a {kind}. {advice}."
        raise WaitNotFound(msg)
    advice = "List open waits with `continuations waiting` or Runner.waiting()."
    if _RUN_ID.match(wait_id):
        # Perhaps the id of a run: its waits have their ids.
        advice = (
            f"For the waits of a run {wait_id}, read Runner.look({wait_id!r}).waits or "
            f"`continuations show {wait_id}`."
        )
    raise WaitNotFound(
        f"wait_id {wait_id[:80]!r} is not valid: a wait id is KIND-ULID@RUN, such as "
        f"approval-01m7...@jane-1. {advice}"
    )


# One decision asks for the parts of its wait id many times.
@lru_cache(maxsize=1024)
def _parse_wait_id(wait_id: str) -> ParsedWaitId | None:
    local, _, run_id = wait_id.partition("@")
    kind, _, ulid = local.partition("-")
    if kind in WAIT_KINDS and _RUN_ID.match(run_id):
        with suppress(NotUlid):
            opened = milliseconds_of(ulid)
            if opened <= _LAST_DUE:
                return ParsedWaitId(cast("WaitKind", kind), ulid, run_id, opened)
    return None


def listed_wait_ids(
    keys: Iterable[str], kinds: frozenset[str] = WAIT_KINDS
) -> list[str]:
    """Return the wait ids of some kinds among the keys of a listing."""
    # One pass over all keys takes a third of the time of a call for each.
    return _wait_key_pattern(kinds).findall("\n".join(keys))


@lru_cache(maxsize=16)
def _wait_key_pattern(kinds: frozenset[str]) -> re.Pattern[str]:
    # A ULID begins with 0 and a digit until the year 2318.
    return re.compile(
        rf"^{WAITS_PREFIX}((?:{'|'.join(sorted(kinds))})-0[0-9][0-9a-hjkmnp-tv-z]{{24}}"
        r"@[A-Za-z0-9][A-Za-z0-9._-]{0,199})$",
        re.MULTILINE,
    )


def wait_key(wait_id: str) -> str:
    """Return the key of an open wait."""
    parse_wait_id(wait_id)
    return WAITS_PREFIX + wait_id


def listed_run_id(key: str) -> str | None:
    """Return the run whose open wait has a key, or `None` for another key."""
    found = listed_wait_ids([key])
    return found[0].rpartition("@")[2] if found else None


# Markers --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """The parts of a marker's key: look at this run at this time.

    Attributes:
        due_ms: When to look, in milliseconds since 1970; `DUE_NOW` for at once.
        reason: Why to look; one letter.

            - `g` (guard): a worker claims the run with version `target`. Is the worker
              still alive?
            - `d` (decision): the wait with the ULID `target` is decided.
            - `e` (expiry): the wait with the ULID `target` reaches its deadline.
            - `n` (notice): people are reminded of the wait with the ULID `target`.
            - `m` (message): inbox message number `target` arrives.
            - `s` (signal): signal number `target` arrives.
            - `c` (cancel): a cancel request arrives; `target` is `0`.
            - `o` (operator): request number `target` of an operator arrives.
            - `r` (ready): the run was released with version `target`, although it can
              continue: now after a pause, later after an error.
        target: The number of a version, message or signal, a ULID or `0`.
        suffix: 8 random characters, then two digits of `fruitless_looks` if it is
            not 0.
        run_id: The run.
    """

    due_ms: int
    reason: str
    target: str
    suffix: str
    run_id: str

    @property
    def fruitless_looks(self) -> int:
        """How often a look at the run changed nothing; counted up to 20."""
        digits = self.suffix[NONCE_LENGTH:]
        return int(digits) if digits.isdecimal() else 0

    def postponed(self, due_ms: int) -> Marker:
        """Return the marker with a later due time and one more fruitless look."""
        looks = min(self.fruitless_looks + 1, _MAX_FRUITLESS_LOOKS)
        suffix = f"{self.suffix[:NONCE_LENGTH]}{looks:02d}"
        return replace(self, due_ms=due_ms, suffix=suffix)

    def is_dated_copy(self, other: Marker) -> bool:
        """Return whether another marker is this one, perhaps with another due time."""

        def identity(marker: Marker) -> tuple[str, ...]:
            nonce = marker.suffix[:NONCE_LENGTH]
            return marker.run_id, marker.reason, marker.target, nonce

        return identity(self) == identity(other)

    def with_looks_of(self, earlier: Marker) -> Marker:
        """Return the marker with the fruitless looks of an earlier one."""
        suffix = f"{self.suffix[:NONCE_LENGTH]}{earlier.fruitless_looks:02d}"
        return replace(self, suffix=suffix)

    @property
    def key(self) -> str:
        """The marker's key."""
        due = min(self.due_ms, _LAST_DUE)
        name = f"{due:0{_DUE_DIGITS}d}-{self.reason}-{self.target}-{self.suffix}"
        return f"{MARKERS_PREFIX}{name}@{self.run_id}"


def parse_marker(key: str) -> Marker | None:
    """Return the parts of a marker's key, or `None` for another key."""
    name, _, run_id = key.removeprefix(MARKERS_PREFIX).partition("@")
    match = _MARKER.match(name)
    if match is None or not _RUN_ID.match(run_id):
        return None
    due, number_reason, number, ulid_reason, ulid, suffix = match.groups()
    return Marker(
        int(due), number_reason or ulid_reason, number or ulid, suffix, run_id
    )


def own_markers(keys: Iterable[str], run_id: str) -> tuple[str, ...]:
    """Return the keys that are markers of a run.

    A stored object may name any key as its marker. Only these keys may be deleted.
    """
    named = ((key, parse_marker(key)) for key in keys)
    return tuple(key for key, marker in named if marker and marker.run_id == run_id)


def is_guard_marker(key: str) -> bool:
    """Return whether a key is the marker of a version that claims its run."""
    marker = parse_marker(key)
    return marker is not None and marker.reason == "g"


def is_release_marker(key: str) -> bool:
    """Return whether a key is the marker of a run that was released to go on later."""
    marker = parse_marker(key)
    return marker is not None and marker.reason == "r"


def key_after_due_markers(due_ms: int) -> str:
    """Return a key that sorts after every marker that is due at a time or before."""
    return f"{MARKERS_PREFIX}{due_ms:0{_DUE_DIGITS}d}~"


# Rights -----------------------------------------------------------------------

# `docs/s3.md` has the same rights as policies of a bucket. Neither role can delete the
# history of a run. These are regular expressions of keys.
_DELETED = ("^(markers|waits|index|events|probe)/",)
# A server of A2A works on runs, too.
_DELETED_BY_WORKER = (*_DELETED, "^a2a/")
_DECIDER_CREATES = ("^(markers|waits|events|probe)/", "^runs/[^/]+/in/")
_ALL = ("^",)


def role_rights(decider: str | None, worker: str | None) -> list[RoleRights]:
    """Return the rights of the roles that are named.

    Args:
        decider: The role that shows waits, decides, sends messages and cancels. It
            cannot create a version, so it cannot advance or forge a run.
        worker: The role that starts, resumes and sweeps runs.
    """
    from continuations_storage.postgres_sql import RoleRights  # noqa: PLC0415 - one command needs it

    creates = {"decider": _DECIDER_CREATES, "worker": _ALL}
    deletes = {"decider": _DELETED, "worker": _DELETED_BY_WORKER}
    shares = {"decider": (f"^{FOLLOWERS_PREFIX}",), "worker": _ALL}
    roles = {"decider": decider, "worker": worker}
    return [
        RoleRights(
            role=role,
            name=name,
            creates=creates[name],
            deletes=deletes[name],
            shares=shares[name],
        )
        for name, role in roles.items()
        if role is not None
    ]


# Ephemeral values -------------------------------------------------------------------

# Names of a value for each process that follows a thread, and of the words of a thread.
FOLLOWERS_PREFIX, _WORDS_PREFIX = "followers/", "words/"


def thread_of(run_id: str) -> str | None:
    """Return what the ids of all runs of a thread have in common, or `None`."""
    return run_id.rpartition("-")[0] if is_thread_id(run_id) else None


def follower_name(thread: str, process: str) -> str:
    """Return the name by which a process says that it follows a thread."""
    return f"{FOLLOWERS_PREFIX}{thread}/{process}"


def follower_of(name: str) -> tuple[str, str]:
    """Return the thread and the process of the name of a follower."""
    thread, _, process = name.removeprefix(FOLLOWERS_PREFIX).partition("/")
    return thread, process


def words_name(thread: str) -> str:
    """Return the name of the words that are written in a thread."""
    return f"{_WORDS_PREFIX}{thread}"


# The ids of the runs of threads ----------------------------------------------------

_MAX_SLUG_CHARS = 60
_DIGEST_DIGITS = 32
_MAX_DIGITS = 18
# Compiled on first use: few processes know threads.
_THREAD_ID = r"t-[a-z0-9-]*-[0-9a-f]{32}-[1-9][0-9]*\Z"
_NOT_IN_SLUG = r"[^a-z0-9]+"


def is_thread_id(run_id: str) -> bool:
    """Return whether an id has the form that only runs of threads have."""
    return run_id.startswith("t-") and re.match(_THREAD_ID, run_id) is not None


def thread_run_id(agent: str, key: str, generation: int) -> str:
    """Return the id of the run of a thread."""
    digest = hashlib.sha256()
    for text in (agent, key):
        data = text.encode("utf-8", "surrogatepass")
        # With their lengths, no two pairs of texts are the same bytes.
        digest.update(b"%d:" % len(data))
        digest.update(data)
    slug = re.sub(_NOT_IN_SLUG, "-", agent.lower()).strip("-")[:_MAX_SLUG_CHARS]
    return f"t-{slug}-{digest.hexdigest()[:_DIGEST_DIGITS]}-{generation}"


def is_generation(run_id: object, agent: str, key: str) -> bool:
    """Return whether an id is that of a run of a thread, of any generation."""
    if not isinstance(run_id, str) or not is_thread_id(run_id):
        return False
    generation = run_id.rpartition("-")[2]
    return run_id == thread_run_id(agent, key, int(generation[:_MAX_DIGITS]))
