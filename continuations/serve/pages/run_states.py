"""The state of a run in words, the same in lists and on its page.

A suspended run says what ends its suspension: `Waits for kim`, `Sleeps until 10:48`,
`Unknown outcome`. The most urgent reason wins, in the order of `run_state`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core.changes.operator_changes import operator_waits
from continuations.core.rows.quorum import GROUP_PREFIX
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.present.times import (
    PageText,
    TimeView,
    clock_view,
    counted,
    plain_text,
    time_view,
)
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait

StateName: TypeAlias = Literal[
    "",
    "person",
    "unknown",
    "look",
    "paused",
    "model",
    "event",
    "external",
    "timer",
    "ready",
    "running",
    "suspended",
    "resting",
    "finished",
    "failed",
    "cancelled",
]


@dataclass(frozen=True, slots=True)
class StatePill:
    """A state with its icon and the class of its color.

    Attributes:
        icon: The name of the icon.
        words: The state in words.
        tone: The class of the color, or an empty text.
        name: The name by which lists filter; empty for something else than a run.
    """

    icon: str
    words: PageText
    tone: str = ""
    name: StateName = ""


# The words of a state stand in menus too.
_STATES: Mapping[StateName, StatePill] = {
    each.name: each
    for each in (
        StatePill("shield", "Waits for people", "is-wait", "person"),
        StatePill("warn", "Unknown outcome", "is-odd", "unknown"),
        StatePill("warn", "Needs a look", "is-danger", "look"),
        StatePill("lock", "Paused", "is-wait", "paused"),
        StatePill("clock", "Waits for its model", "", "model"),
        StatePill("ring", "Waits for an event", "", "event"),
        StatePill("ring", "Waits for another system", "", "external"),
        StatePill("clock", "Sleeps", "", "timer"),
        StatePill("ring", "Waits for a worker", "", "ready"),
        StatePill("ring", "Running", "", "running"),
        StatePill("clock", "Suspended", "is-wait", "suspended"),
        StatePill("ask", "Waits for a message", "", "resting"),
        StatePill("ok", "Finished", "is-ok", "finished"),
        StatePill("warn", "Failed", "is-danger", "failed"),
        StatePill("warn", "Cancelled", "", "cancelled"),
    )
}
_INTERRUPTED = StatePill("warn", "Interrupted", "is-odd", "look")
STATE_MENU: Mapping[str, str] = {
    name: plain_text(pill.words)
    for name, pill in _STATES.items()
    if name != "suspended"
}
"""The states by which a list of runs is filtered, with their words."""

# A run that can go on is taken by a worker within seconds, or by the next sweep.
_STALLED = timedelta(minutes=5)
# The time of day is enough for a moment so soon.
_CLEAR = timedelta(hours=12)
_SHOWN_NAMES = 2
_MAX_NOTE_CHARS = 60
_FAILED_ATTEMPT = " failed: "


def status_pill(status: str) -> StatePill:
    """Return a status in words, where the state of the run is not at hand."""
    if status == "unreadable":
        return replace(_STATES["look"], words="Unreadable")
    found = (pill for name, pill in _STATES.items() if name == status)
    return next(found, StatePill("ring", status))


def run_state(
    state: RunState,
    now: datetime,
    *,
    decided: Collection[str] = (),
    votes: Mapping[str, str] | None = None,
    changed_at: datetime | None = None,
    is_old: bool = False,
) -> StatePill:
    """Return the state of a run in words.

    Args:
        state: The run.
        now: The time of the report.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        votes: The votes of waits in words, such as `1 of 2 votes`, by wait id, as far
            as they are known. `None`: the waits have their votes.
        changed_at: The time of the version. A run that can go on, and that no worker
            took for five minutes since, needs a look.
        is_old: Whether it is an older version: its claim ended long ago, and that
            tells nothing.
    """
    run = state.run
    if run.status in ENDED_STATUSES:
        return status_pill(run.status)
    if run.claim is not None:
        is_gone = not is_old and now >= run.claim.until
        return _INTERRUPTED if is_gone else _STATES["running"]
    waits = sorted(
        (wait for wait in state.waits.values() if wait.id not in decided),
        key=lambda wait: (wait.deadline is None, wait.deadline or now, wait.id),
    )
    if operator_waits(state):
        return _STATES["paused"]
    if any(wait.rules.may_have_run for wait in waits):
        return _STATES["unknown"]
    if len(waits) < len(state.waits) or state.runnable or run.status == "running":
        is_stalled = changed_at is not None and now - changed_at >= _STALLED
        has_error = any(frame.model_error for frame in state.frames.values())
        return _STATES["look" if is_stalled or has_error else "ready"]
    return _waiting(waits, votes, now) or status_pill(run.status)


def state_until(
    pill: StatePill, state: RunState, changed_at: datetime
) -> datetime | None:
    """Return when the state in words changes although nothing is stored.

    The claim of a worker ends, or no process took the run for five minutes. `None`: it
    changes only with the run.

    Args:
        pill: The state in words.
        state: The run.
        changed_at: The time of the version.
    """
    claim = state.run.claim
    if claim is not None:
        return claim.until if pill.name == "running" else None
    return changed_at + _STALLED if pill.name == "ready" else None


def _waiting(
    waits: Sequence[Wait], votes: Mapping[str, str] | None, now: datetime
) -> StatePill | None:
    """Return the state of the most urgent kind of wait, the next deadline first."""
    people = [wait for wait in waits if wait.rules.asks_person]
    if people:
        return _awaited_people(people, votes)
    others = [wait for wait in waits if not wait.rules.asks_person]
    return _awaited_other(min(others, key=_rank), now) if others else None


def _rank(wait: Wait) -> int:
    """Return the place of a wait that needs no person: models, events, jobs, times."""
    rules = wait.rules
    kinds = (rules.may_wake, rules.takes_events, rules.has_known_id, True)
    return kinds.index(True)


def _awaited_people(
    waits: Sequence[Wait], votes: Mapping[str, str] | None
) -> StatePill:
    wait = waits[0]
    words = f"Waits for {awaited_people(wait)}"
    if wait.votes_needed > 1 and votes is None:
        voted = len({vote.by for vote in wait.votes if vote.kind != "deny"})
        votes = {wait.id: f"{voted} of {wait.votes_needed}"}
    if wait.votes_needed > 1 and votes and wait.id in votes:
        words += f" ({votes[wait.id].removesuffix(' votes')})"
    if len(waits) > 1:
        words += f", {len(waits) - 1} more"
    icon = wait.rules.words.icon
    return StatePill(icon, words, "is-wait", "person")


def awaited_people(wait: Wait) -> str:
    """Return who decides a wait: the first names, or the thing that is awaited."""
    names = [name.removeprefix(GROUP_PREFIX) for name in wait.approvers]
    if not names:
        return wait.rules.awaited
    rest = len(names) - _SHOWN_NAMES
    shown = " or ".join(names[:_SHOWN_NAMES])
    return f"{shown}, or {counted(rest, 'other')}" if rest > 0 else shown


def _awaited_other(wait: Wait, now: datetime) -> StatePill:
    """Return the state of a run that waits for something else than people."""
    if wait.rules.may_wake:
        note = (wait.note or "").rpartition(_FAILED_ATTEMPT)[2].rstrip(".")
        more = (f": {shorten(note, _MAX_NOTE_CHARS)}",) if note else ()
        words = ("Asks its model again", *_when("at", wait.deadline, now), *more)
        return replace(_STATES["model"], words=words)
    if wait.rules.takes_events:
        return replace(_STATES["event"], words=f"Waits for event {wait.event}")
    if wait.rules.has_known_id:
        job = shorten(wait.question or wait.tool, _MAX_NOTE_CHARS)
        return replace(_STATES["external"], words=f"Waits for {job}")
    words = ("Sleeps", *_when("until", wait.deadline, now))
    return replace(_STATES["timer"], words=words)


def _when(
    word: str, moment: datetime | None, now: datetime
) -> tuple[str | TimeView, ...]:
    """Return a word and a time, with its day unless it is clear."""
    if moment is None:
        return ()
    if now <= moment < now + _CLEAR:
        return f" {word} ", clock_view(moment)
    return f" {word} ", time_view(moment, now)
