"""The evidence of a waiting call, with the rows of the calls that found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present.wait_words import finding_text
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.waits import Wait
    from continuations.serve.pages.run_rows import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """The result of an earlier call of the same agent.

    Attributes:
        source: Name of the tool or agent that was called.
        text: Beginning of its result.
        key: Names its row in addresses; "" if the page does not have it.
        by_agent: Whether an agent wrote the result. Its words are not checked.
    """

    source: str
    text: str
    key: str
    by_agent: bool


def evidence_lines(row: RunRow, wait: Wait) -> tuple[EvidenceLine, ...]:
    """Return the evidence that a wait keeps, the oldest first."""
    earlier = [
        each
        for each in (row.parent.children if row.parent else ())
        if each.ended is not None and each is not row
    ]
    lines: list[EvidenceLine] = []
    for finding in reversed(wait.evidence):
        names = [each.name for each in earlier]
        key = ""
        if finding.source in names:
            place = len(names) - 1 - names[::-1].index(finding.source)
            key = earlier[place].key
            del earlier[place:]
        line = EvidenceLine(
            source=finding.source,
            text=finding_text(finding),
            key=key,
            by_agent=finding.by_agent,
        )
        lines.append(line)
    return tuple(reversed(lines))
