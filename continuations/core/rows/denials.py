"""Count how often the model of a frame repeats a call that is denied.

A person, a rule, a guardrail or a deadline denies a call, the model reads the denial,
and may make the same call again. The count is stored with the frame, so that it does
not depend on what messages say, and a suspension or a crash does not start it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.calls import Errored, Refused, Returned
from continuations.core.rows.frames import DenialCount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.rows.calls import CallRow

# The code of a frame that ended because its model repeated a denied call.
DENIALS_CODE = "max_denials"
# The code of a failure, or of the end of a call, because a guardrail tripped.
TRIPPED_CODE = "guardrail"
# Older denials are forgotten, so the row of a frame stays small.
_MAX_COUNTED = 32
_DIGEST_LENGTH = 32  # 128 bits
# `denied` is also the end of a call whose deadline denied it. `not_executed`: a person
# said so of an unknown outcome, and the call will not be repeated.
_REFUSAL_CODES = frozenset({"denied", "expired", "not_executed"})


def after_turn(
    counts: tuple[DenialCount, ...], rows: Sequence[CallRow]
) -> tuple[DenialCount, ...]:
    """Return the counts after a turn whose calls are closed, the newest denial last.

    Identical calls of one turn count once: the model had not read the denial. The count
    of a call that returned a result begins again.
    """
    denied = {_digest(row): row.tool for row in rows if _is_denied(row)}
    if not denied and not counts:
        return ()
    returned = {_digest(row) for row in rows if isinstance(row.state, Returned)}
    before = {each.digest: each.count for each in counts}
    kept = [
        each
        for each in counts
        if each.digest not in denied and each.digest not in returned
    ]
    new = [
        DenialCount(tool, digest, before.get(digest, 0) + 1)
        for digest, tool in denied.items()
    ]
    return (*kept, *new)[-_MAX_COUNTED:]


def count_of(counts: tuple[DenialCount, ...], row: CallRow) -> int:
    """Return in how many turns a closed call was denied, 0 if it is not denied now."""
    if not counts or not _is_denied(row):
        return 0
    digest = _digest(row)
    return next((each.count for each in counts if each.digest == digest), 0)


def reached(counts: tuple[DenialCount, ...], limit: int | None) -> DenialCount | None:
    """Return a call that was denied as often as the limit allows, or `None`."""
    if limit is None:
        return None
    return next((each for each in counts if each.count >= limit), None)


def repeat_text(count: int) -> str:
    """Return what the model reads about a denial of a call that was denied before."""
    return (
        f" The same call was denied in {count} turns. Do not repeat it: your task may "
        "end."
    )


def end_text(agent: str, denied: DenialCount) -> str:
    """Return the reason for a frame that ends."""
    return (
        f"{denied.tool} was denied in {denied.count} turns of agent {agent}, with the "
        "same arguments each time. Change the instructions or the policy of the tool, "
        "or raise max_denials."
    )


def _is_denied(row: CallRow) -> bool:
    match row.state:
        case Refused(code=code):
            return code in _REFUSAL_CODES
        case Errored(code=code):
            # A sub-agent that repeated a denied call has not learned more.
            return code in (DENIALS_CODE, TRIPPED_CODE)
        case _:
            return False


def _digest(row: CallRow) -> str:
    asked = row.original_arguments or row.arguments or row.raw_arguments
    return jsontext.digest(row.tool, asked)[:_DIGEST_LENGTH]
