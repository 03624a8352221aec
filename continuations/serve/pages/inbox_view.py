"""Typed views of the inbox: one row for each wait that people are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.deadline_actions import Escalate
from continuations.core.decisions import Answer, Deny
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.waits import Wait
    from continuations.ledger.worklist import ListedWait

_SOON = timedelta(hours=6)
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_MAX_FACT_CHARS = 80


@dataclass(frozen=True, slots=True)
class KindWords:
    """How a kind of wait is shown: an icon, a word, and the class of its state."""

    icon: str
    word: str
    tone: str = ""


KINDS: Mapping[str, KindWords] = {
    "approval": KindWords("shield", "Approval", "is-wait"),
    "question": KindWords("ask", "Question"),
    "input": KindWords("shield", "Input", "is-wait"),
    "output": KindWords("shield", "Output", "is-wait"),
    "unknown": KindWords("warn", "Did it happen?", "is-odd"),
    "event": KindWords("ring", "Event"),
    "external": KindWords("ring", "Outside job"),
    "timer": KindWords("clock", "Timer"),
    "model": KindWords("clock", "Model"),
    "operator": KindWords("clock", "Paused"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One wait of the inbox.

    Attributes:
        wait_id: Id of the wait.
        kind: Its icon and word.
        title: The effect, as one sentence.
        facts: Two or three facts.
        due: The time that is left, or that there is no deadline.
        due_at: The deadline as ISO 8601 text; empty for none.
        is_soon: Whether little time is left.
        then: The consequence of the deadline.
    """

    wait_id: str
    kind: KindWords
    title: str
    facts: tuple[str, ...]
    due: str
    due_at: str
    is_soon: bool
    then: str


def inbox_row(row: ListedWait, now: datetime) -> InboxRow:
    """Return the view of a row of the worklist."""
    wait = row.wait
    left = None if wait.deadline is None else wait.deadline - now
    return InboxRow(
        wait_id=wait.id,
        kind=KINDS[wait.kind],
        title=wait_title(wait),
        facts=_facts(wait),
        due="no deadline" if left is None else due_words(left),
        due_at="" if wait.deadline is None else utc_text(wait.deadline),
        is_soon=left is not None and left < _SOON,
        then=_then(wait),
    )


def wait_title(wait: Wait) -> str:
    """Return the effect of a call as one sentence, or the question."""
    if wait.rules.judges_text:
        return wait.rules.question.format(tool=wait.tool)
    effect = wait.title or f"Run {wait.tool}"
    if wait.kind == "question":
        return wait.question or effect
    return f"{effect}: did it happen?" if wait.rules.may_have_run else effect


def matches(wait: Wait, words: list[str]) -> bool:
    """Return whether each word is a part of what the row of a wait shows."""
    texts = (wait_title(wait), *wait.path, wait.tool, wait.run_id, *_facts(wait))
    text = "\n".join(texts).casefold()
    return all(word.casefold() in text for word in words)


def due_words(left: timedelta) -> str:
    """Return how much time is left, in its two largest units."""
    seconds = int(left.total_seconds())
    if seconds <= 0:
        return "the deadline has passed"
    if seconds < _MINUTE:
        return "in less than a minute"
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    parts = ((days, "d"), (hours, "h"), (rest // _MINUTE, "min"))
    first = next(n for n, (count, _) in enumerate(parts) if count)
    shown = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return f"in {' '.join(shown)}"


def _facts(wait: Wait) -> tuple[str, ...]:
    facts: list[str] = []
    if wait.note:
        facts.append(wait.note)
    if wait.votes_needed > 1:
        voted = len({vote.by for vote in wait.votes if vote.kind != "deny"})
        count = f"{wait.votes_needed} votes needed"
        facts.append(f"{voted} of {wait.votes_needed} votes" if voted else count)
    edited = [vote.by for vote in wait.votes if vote.arguments is not None]
    if edited:
        facts.append(f"edited by {edited[-1]}")
    if wait.requester:
        facts.append(f"asked by {wait.requester}")
    facts.append(" \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ".join(wait.path))
    return tuple(_short(each) for each in facts)


def _short(fact: str) -> str:
    """Return a fact for a list; the page of the wait has it whole."""
    return fact if len(fact) <= _MAX_FACT_CHARS else f"{fact[: _MAX_FACT_CHARS - 1]}…"


def _then(wait: Wait) -> str:
    """Return what the deadline does, in a few words."""
    if wait.deadline is None:
        return "run stands still" if wait.rules.may_have_run else ""
    if wait.expiry_stops:
        return "then: the run stops"
    action = wait.on_deadline
    if isinstance(action, Answer):
        value = action.value
        shown = value if isinstance(value, str) else jsontext.canonical(value)
        return _short(f"then: {shown}")
    if isinstance(action, Escalate):
        return _short(f"then: asks {', '.join(action.to)}")
    if wait.rules.judges_text:
        return f"then: the {wait.kind} is refused"
    is_denied = isinstance(action, Deny) or (
        action is None and wait.rules.follows_policy
    )
    return "then: denied" if is_denied else "then: the call fails"
