"""The digest of the plan of a rewind: everything that the plan depends on.

    {newest version}-{digest of its bytes}-{digest of the rest}

The rest is the earlier version, and the keys of what was recorded for the open waits
since the newest version: decisions, votes, other deadlines, and revoked grants. No such
object ever changes, so its key is enough.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.errors import FormatError, InvalidInput, StaleRun
from continuations.ledger import layout
from continuations.ledger.versions import Versions
from continuations.wire.envelope import object_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.state import RunState
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects

_REST_CHARS = 32
_DIGEST = re.compile(r"([1-9][0-9]{0,9})-([0-9a-f]{32})-[0-9a-f]{32}\Z")


async def list_decided(objects: Objects, newest: LoadedVersion) -> list[str]:
    """Return the keys of what was recorded for the open waits, and of revocations."""
    run_id, waits = newest.state.run.id, newest.state.waits
    found: list[str] = []
    async for key in objects.all_keys(layout.arrivals_prefix(run_id)):
        slot = layout.parse_slot_key(key, run_id)
        wait_id = slot[0] if slot else layout.decided_wait_id(key, run_id)
        number = layout.number_in(layout.REVOCATION, key)
        if wait_id in waits or number is not None:
            found.append(key)
    return found


def decided_ids(keys: Sequence[str], state: RunState) -> tuple[str, ...]:
    """Return the ids of open waits that have a decision, in the order of the keys."""
    run_id = state.run.id
    ids = (layout.decided_wait_id(key, run_id) for key in keys)
    return tuple(each for each in ids if each is not None)


def plan_digest(
    newest: LoadedVersion, target: LoadedVersion, decided: Sequence[str]
) -> str:
    """Return the digest of a plan; `decided` is what `list_decided` returned."""
    parts = (str(target.number), _bytes_digest(target), *decided)
    rest = jsontext.digest("rewind plan", *parts)[:_REST_CHARS]
    return f"{newest.number}-{_bytes_digest(newest)}-{rest}"


async def check_shown(
    objects: Objects, newest: LoadedVersion, target: LoadedVersion, shown: object
) -> None:
    """Raise `StaleRun` unless a plan is as it was shown.

    Raises `InvalidInput` for a text that is the digest of no plan of the run.
    """
    run_id = newest.state.run.id
    if not isinstance(shown, str):
        msg = (
            f"run {run_id} was not rewound: shown must be a text or None, got "
            f"{type(shown).__name__}. Pass plan_rewind(...).digest."
        )
        raise InvalidInput(msg, run_id=run_id)
    decided = await list_decided(objects, newest)
    if shown == plan_digest(newest, target, decided):
        return
    if not await _names_a_version(objects, newest, shown):
        msg = (
            f"run {run_id} was not rewound: shown is the digest of no version of this "
            f"run, got {shown!r:.80}. Pass plan_rewind(...).digest."
        )
        raise InvalidInput(msg, run_id=run_id)
    msg = (
        f"run {run_id} was not rewound: it moved on since the plan that was shown, or "
        "something was decided for it, or the plan is for another version. The run "
        f"has version {newest.number} now. Make a new plan, and look at it."
    )
    raise StaleRun(msg, run_id=run_id)


async def _names_a_version(objects: Objects, newest: LoadedVersion, shown: str) -> bool:
    match = _DIGEST.match(shown)
    number = int(match[1]) if match else 0
    if match is None or number > newest.number:
        return False
    if number == newest.number:
        return match[2] == _bytes_digest(newest)
    with suppress(FormatError):
        data = await Versions(objects, newest.state.run.id).read(number)
        return match[2] == object_digest(data).hex()
    return False  # the version is damaged, and was given up by a repair


def _bytes_digest(version: LoadedVersion) -> str:
    return version.chain[-1].digest.hex()
