"""The rows of the listing of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.visible_text import shorten
from continuations.present.counted import counted
from continuations.serve.pages.run_view import StatePill, status_pill
from continuations.serve.pages.time_words import moment_text
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.ledger.run_listing import RunSummary

_SHOWN_WAITS = 2
_TITLE_CHARS = 120
STATUS_CHOICES = (
    ("", "All"),
    ("live", "Live"),
    ("suspended", "Suspended"),
    ("running", "Works"),
    ("ended", "Ended"),
    ("failed", "Failed"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsFilter:
    """The filters of the listing; an empty text is no filter."""

    agent: str
    status: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListRow:
    """One run of the listing.

    Attributes:
        run_id: Its id.
        title: Its title, or its id.
        state: Its state in words.
        agent: Its root agent, or "".
        requester: Its requester, or "".
        labels: Its labels, as `team=finance`.
        started: When it was started.
        changed: When its newest version was written.
        awaits: The first of its waits, in words.
        more_waits: How many waits `awaits` leaves out.
        messages: Number of messages that a thread has read, in words; or "".
    """

    run_id: str
    title: str
    state: StatePill
    agent: str
    requester: str
    labels: tuple[str, ...]
    started: str
    changed: str
    awaits: tuple[str, ...]
    more_waits: int
    messages: str


def list_row(summary: RunSummary, awaits: Sequence[str], now: datetime) -> RunListRow:
    """Return the row of a run.

    Args:
        summary: The run.
        awaits: All its waits, in words.
        now: The time of the report.
    """
    started, changed = summary.created_at, summary.updated_at
    title = summary.title or summary.thread or summary.run_id
    messages = ""
    if summary.thread is not None:
        messages = counted(summary.messages, "message")
    return RunListRow(
        run_id=summary.run_id,
        title=shorten(title, _TITLE_CHARS),
        state=status_pill(summary.status),
        agent=summary.agent,
        requester=summary.requester or "",
        labels=tuple(f"{name}={value}" for name, value in summary.labels.items()),
        started="" if started is None else moment_text(started, now),
        changed="" if changed is None else moment_text(changed, now),
        awaits=tuple(awaits[:_SHOWN_WAITS]),
        more_waits=max(len(awaits) - _SHOWN_WAITS, 0),
        messages=messages,
    )
