"""Typed views of the inbox: one row for each wait that people are asked about."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.present import wait_words
from continuations.present.times import left_text
from continuations.value_class import dataclass
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.wait_rules import KindWords
    from continuations.core.rows.waits import Wait
    from continuations.ledger.decisions.worklist import ListedWait

_SOON = timedelta(hours=6)
_MAX_FACT_CHARS = 80


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
        kind=wait.rules.words,
        title=wait_words.title(wait),
        facts=_facts(wait),
        due=left_text(left),
        due_at="" if wait.deadline is None else utc_text(wait.deadline),
        is_soon=left is not None and left < _SOON,
        then=_then(wait),
    )


def matches(wait: Wait, words: list[str]) -> bool:
    """Return whether each word is a part of what the row of a wait shows."""
    texts = (wait_words.title(wait), *wait.path, wait.tool, wait.run_id, *_facts(wait))
    text = "\n".join(texts).casefold()
    return all(word.casefold() in text for word in words)


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
    """Return the consequence of the deadline; the page of the wait has it whole."""
    if wait.deadline is None:
        return "run stands still" if wait.rules.may_have_run else ""
    return _short(f"then: {wait_words.at_deadline(wait)}")
