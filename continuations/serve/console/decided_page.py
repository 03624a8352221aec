"""The page of decisions: by whom, when and how; also by rules and deadlines.

Decisions lie with their runs, so a page reads the records of a few runs: the live ones
first, then those that ended, by their days.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.errors import InvalidInput, RunErased, RunNotFound
from continuations.present.wait_words import DECISION_WORDS
from continuations.serve.console.inbox_page import tabs
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.http.cursors import read_page
from continuations.value_class import dataclass
from continuations.wire.fields import readable_time
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from continuations.core.reading.audit import AuditLine
    from continuations.serve.http.request_response import Response

# A page reads at most so many runs, also if it shows few of them.
_RUNS_SHOWN, _MAX_READ = 20, 500
_ICONS = {
    "approve": ("ok", "is-ok"),
    "deny": ("warn", "is-danger"),
    "fail": ("warn", "is-danger"),
    "expire": ("clock", ""),
    "cancel": ("warn", ""),
}
_OTHER_WORDS = {
    "vote approve": "Vote to approve",
    "vote answer": "Vote to answer",
    "revoke": "Grant revoked",
    "drop": "Signals dropped",
    "pause": "Paused",
    "unpause": "Pause ended",
    "escalate": "Escalated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedLine:
    """One line of the table.

    Attributes:
        at: The time for people.
        at_iso: The time for programs.
        icon: The icon of the verdict.
        tone: The class of the verdict.
        verdict: The verdict as a word.
        what: The subject of the decision.
        path: The page of the wait or the run.
        who: The person or rule.
        how: The door, and how it knew the person.
        reason: The reason, or an empty text.
    """

    at: str
    at_iso: str
    icon: str
    tone: str
    verdict: str
    what: str
    path: str
    who: str
    how: str
    reason: str


async def show(page: Page) -> Response:
    """Show the decisions of some runs, the newest first."""
    after = page.cursors.open(page.query.get("after", ""))
    try:
        runs = await read_page(
            page.runner.runs(after=after),
            limit=_RUNS_SHOWN,
            max_read=_MAX_READ,
            cursor_of=lambda each: each.cursor,
            is_shown=lambda each: page.can("view", each.run_id),
            seal=page.cursors.seal,
        )
    except InvalidInput as error:
        msg = "The address of this page is not complete. Open the inbox again."
        raise problems.malformed(msg) from error
    audits = await gather(*(_audit(page, each.run_id) for each in runs.rows))
    lines = [line for audit in audits for line in audit if line.verdict in _SHOWN]
    lines.sort(key=lambda line: line.at, reverse=True)
    return page.render(
        "decided.html",
        title="What was decided",
        tabs=tabs("decided"),
        lines=[_view(line) for line in lines],
        empty="Nothing was decided in these runs.",
        more=f"/inbox/decided?{urlencode({'after': runs.next})}" if runs.next else None,
    )


_WORDS_OF_KINDS: dict[str, str] = {
    kind: rules.words.word for kind, rules in WAIT_RULES.items()
}
_SHOWN = DECISION_WORDS.keys() | _OTHER_WORDS.keys()


async def _audit(page: Page, run_id: str) -> list[AuditLine]:
    try:
        return await page.runner.audit(run_id, past=False)
    except (RunErased, RunNotFound):
        return []  # erased since it was listed


def _view(line: AuditLine) -> DecidedLine:
    icon, tone = _ICONS.get(line.verdict, ("ring", ""))
    how = line.door or "not recorded"
    if line.authentication:
        how = f"{how}, by {line.authentication}"
    word = _WORDS_OF_KINDS.get(line.kind) or line.kind.capitalize()
    return DecidedLine(
        at=readable_time(line.at),
        at_iso=utc_text(line.at),
        icon=icon,
        tone=tone,
        verdict=DECISION_WORDS.get(line.verdict) or _OTHER_WORDS[line.verdict],
        what=f"{word} of {line.run}",
        path=f"/runs/{line.run}" if line.wait is None else f"/waits/{line.wait}",
        who=line.by or line.rule or "no person",
        how=f"{how}; {line.rule}" if line.by and line.rule else how,
        reason=line.reason or "",
    )


ROUTES = (PageRoute("/inbox/decided", show),)
