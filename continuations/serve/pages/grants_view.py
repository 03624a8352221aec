"""The rows of the grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.pages.time_words import moment_text
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.grants import KeptGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """One grant.

    Attributes:
        grant: Its id.
        run_id: Id of its run.
        title: Title of its run.
        tool: Name of the tool.
        path: Names from the root agent down to the tool.
        arguments: JSON Schema of the arguments that it covers, or "" for all.
        until: When it ends, or "" if it ends with the run.
        given: The giver and the time.
        is_revoked: Whether it is revoked, and no worker has taken that in.
        may_revoke: Whether the person may revoke it.
    """

    grant: str
    run_id: str
    title: str
    tool: str
    path: str
    arguments: str
    until: str
    given: str
    is_revoked: bool
    may_revoke: bool


def grant_row(
    grant: KeptGrant, run_id: str, title: str, now: datetime, may_revoke: bool
) -> GrantRow:
    """Return the row of a grant."""
    at = moment_text(grant.at, now)
    return GrantRow(
        grant=grant.id,
        run_id=run_id,
        title=title,
        tool=grant.tool,
        path=" > ".join(grant.path),
        arguments=grant.arguments_json or "",
        until="" if grant.until is None else moment_text(grant.until, now),
        given=f"{grant.by}, {at}" if grant.by else at,
        is_revoked=grant.revoked,
        may_revoke=may_revoke and not grant.revoked,
    )
