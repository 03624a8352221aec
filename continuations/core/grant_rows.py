"""The changes to the row of a run that keeps grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.grants import has_ended
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.grants import KeptGrant
    from continuations.core.run import RunRow

# The row of the run, with its grants, is stored in every version.
MAX_GRANTS = 20


def with_grant(run: RunRow, grant: KeptGrant) -> RunRow:
    """Return the row of a run that keeps one grant more.

    Grants whose time is over are dropped, and so is the oldest one above the limit. A
    grant that was revoked before it was kept is not kept.
    """
    if grant.id in run.revoked_grants:
        rest = tuple(each for each in run.revoked_grants if each != grant.id)
        return replace(run, revoked_grants=rest)
    kept = [each for each in run.grants if not has_ended(each, grant.at)]
    kept = [each for each in kept if each.id != grant.id]
    return replace(run, grants=(*kept, grant)[-MAX_GRANTS:])


def without_grants(run: RunRow, revoked: tuple[str, ...], last: int) -> RunRow:
    """Return the row of a run after revocations, up to number `last`.

    The decision that gives a grant may be read after its revocation. So the id of a
    grant that is not kept yet is remembered.
    """
    known = {grant.id for grant in run.grants}
    unknown = tuple(each for each in revoked if each not in known)
    return replace(
        run,
        grants=tuple(grant for grant in run.grants if grant.id not in revoked),
        revoked_grants=(*run.revoked_grants, *unknown),
        last_revocation_number=last,
    )
