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
from continuations.present.times import counted
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
        at: The time that follows the words, or `None`.
        more: The words after the time.
    """

    icon: str
    words: str
    tone: str = ""
    name: StateName = ""
    at: datetime | None = None
    more: str = ""


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
STATE_MENU: Mapping[str, str] = {
    name: pill.words for name, pill in _STATES.items() if name != "suspended"
}
"""The states by which a list of runs is filtered, with their words."""

# A run that can go on is taken by a worker within seconds, or by the next sweep.
_STALLED = timedelta(minutes=5)
_SHOWN_NAMES = 2
_MAX_NOTE_CHARS = 60
_FAILED_ATTEMPT = " failed: "


def status_pill(status: str, *, is_paused: bool = False) -> StatePill:
    """Return a status in words, where the state of the run is not at hand."""
    if is_paused and status == "suspended":
        return _STATES["paused"]
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
) -> StatePill:
    """Return the state of a run in words.

    Args:
        state: The run, whose waits may have their votes.
        now: The time of the report.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        votes: The votes of waits in words, such as `1 of 2 votes`, by wait id.
        changed_at: The time of the version. A run that can go on, and that no worker
            took for five minutes since, needs a look.
    """
    run = state.run
    if run.status in ENDED_STATUSES:
        return status_pill(run.status)
    if run.claim is not None:
        return _claimed(run.claim.until, now)
    waits = sorted(
        (wait for wait in state.waits.values() if wait.id not in decided),
        key=lambda wait: (wait.deadline is None, wait.deadline or now, wait.id),
    )
    if operator_waits(state):
        return _STATES["paused"]
    if any(wait.rules.may_have_run for wait in waits):
        return _STATES["unknown"]
    if len(waits) < len(state.waits) or state.runnable or run.status == "running":
        is_stalled = changed_at is not None and now - changed_at > _STALLED
        has_error = any(frame.model_error for frame in state.frames.values())
        return _STATES["look" if is_stalled or has_error else "ready"]
    return _waiting(waits, votes or {}) or status_pill(run.status)


def _claimed(until: datetime, now: datetime) -> StatePill:
    if now < until:
        return _STATES["running"]
    return StatePill("warn", "Interrupted", "is-odd", "look")


def _waiting(waits: Sequence[Wait], votes: Mapping[str, str]) -> StatePill | None:
    """Return the state of the most urgent kind of wait, the next deadline first."""
    people = [wait for wait in waits if wait.rules.asks_person]
    if people:
        return _awaited_people(people, votes)
    for name in ("model", "event", "external", "timer", "alarm"):
        found = [wait for wait in waits if wait.kind == name]
        if found:
            return _awaited_other(found[0])
    return None


def _awaited_people(waits: Sequence[Wait], votes: Mapping[str, str]) -> StatePill:
    wait = waits[0]
    words = f"Waits for {awaited_people(wait)}"
    vote = votes.get(wait.id) or votes_text(wait)
    if vote:
        words += f" ({vote.removesuffix(' votes')})"
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


def votes_text(wait: Wait) -> str:
    """Return how many votes a wait has, if it needs more than one: `1 of 2 votes`."""
    if wait.votes_needed == 1:
        return ""
    voted = len({vote.by for vote in wait.votes if vote.kind != "deny"})
    return f"{voted} of {wait.votes_needed} votes"


def _awaited_other(wait: Wait) -> StatePill:
    """Return the state of a run that waits for something else than people."""
    if wait.kind == "model":
        note = (wait.note or "").rpartition(_FAILED_ATTEMPT)[2].rstrip(".")
        more = f": {shorten(note, _MAX_NOTE_CHARS)}" if note else ""
        words = "Asks its model again at"
        return replace(_STATES["model"], words=words, at=wait.deadline, more=more)
    if wait.kind == "event":
        return replace(_STATES["event"], words=f"Waits for event {wait.event}")
    if wait.kind == "external":
        job = shorten(wait.question or wait.tool, _MAX_NOTE_CHARS)
        return replace(_STATES["external"], words=f"Waits for {job}")
    if wait.deadline is None:
        return _STATES["timer"]
    return replace(_STATES["timer"], words="Sleeps until", at=wait.deadline)
