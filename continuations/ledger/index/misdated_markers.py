"""Find and repair markers that a wrong clock dated too late.

A sweep looks only at due markers. A marker that is dated a year ahead would hide its
run for a year. Only the deadline of a wait and its reminders may be far away; every
other marker is due within a claim or a retry delay. Markers sort by their time, so one
listing after that time shows the wrong ones.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.ulid import NotUlid, milliseconds_of
from continuations.ledger import layout
from continuations.value_class import replace
from continuations.wire.fields import to_milliseconds
from continuations_storage.contract import PAGE_SIZE, is_last_page

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

# The longest claim and the longest retry delay are a day; clocks may differ by a
# quarter of a claim.
LONGEST_DELAY = timedelta(days=1, hours=7)
# The longest time to decide that an approval policy can have, and some days.
LONGEST_DEADLINE = timedelta(days=3660)
# Less than this is the time of the listing itself, or a small error of the clock.
_TOLERANCE = timedelta(minutes=1)
_MILLISECOND = timedelta(milliseconds=1)


async def redate_misdated(objects: Objects, clock: StoreClock, seed: str) -> int:
    """Date markers that are dated too late to now; return their number.

    One listing shows the markers after `LONGEST_DELAY`. If more follow its page, a
    second one begins at a random later time, so that repeated looks see all of them.

    Args:
        objects: The store.
        clock: The store's time.
        seed: A random text, new for each look.
    """
    begin = clock.now() + LONGEST_DELAY
    page = await _list_after(objects, clock, begin)
    corrected = clock.now() + LONGEST_DELAY
    if abs(corrected - begin) > _TOLERANCE:
        # The listing showed that the clock of this machine is wrong.
        page = await _list_after(objects, clock, corrected)
    if not is_last_page(page, PAGE_SIZE):
        share = random.Random(seed).random()  # noqa: S311 - not for secrets
        ratio = LONGEST_DEADLINE / LONGEST_DELAY
        later = clock.now() + LONGEST_DELAY * ratio**share
        page += await _list_after(objects, clock, later)
    count = 0
    for marker in _parsed(dict.fromkeys(page)):
        # Asked for each one: the first create may show that the clock is wrong here.
        if is_misdated(marker, clock.now()):
            await clock.create(objects, replace(marker, due_ms=layout.DUE_NOW).key)
            await objects.delete(marker.key)
            count += 1
    return count


def is_misdated(marker: Marker, now: datetime) -> bool:
    """Return whether a right clock cannot have dated a marker so late."""
    if marker.due_ms <= to_milliseconds(now + LONGEST_DELAY):
        return False
    if marker.reason not in ("e", "n") or marker.fruitless_looks:
        return True
    try:
        opened_ms = milliseconds_of(marker.target)
    except NotUlid:
        return True
    return marker.due_ms > opened_ms + LONGEST_DEADLINE // _MILLISECOND


async def _list_after(
    objects: Objects, clock: StoreClock, moment: datetime
) -> list[str]:
    after = layout.key_after_due_markers(to_milliseconds(moment))
    return await clock.list_keys(objects, layout.MARKERS_PREFIX, after)


def _parsed(keys: Iterable[str]) -> Iterable[Marker]:
    return filter(None, map(layout.parse_marker, keys))
