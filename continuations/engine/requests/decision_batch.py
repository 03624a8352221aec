"""Record decisions for several waits: each has a result of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from continuations.core.rows.decisions import Decision, Door, Verdict
    from continuations.core.rows.quorum import Vote

    Result: TypeAlias = Decision | Vote | Exception

MAX_DECISIONS = 1000
_AT_A_TIME = 20


async def decide_each(
    decide: Callable[..., Coroutine[Any, Any, Decision | Vote]],
    verdicts: Mapping[str, Verdict],
    door: Door,
    *,
    shown: Mapping[str, str | None] | None = None,
) -> dict[str, Result]:
    """Decide each wait; return its decision, vote or error by wait id.

    `shown` has the digests that the person saw. Raises `InvalidInput` if the verdicts
    are not a mapping of at most `MAX_DECISIONS`.
    """
    if not isinstance(cast("object", verdicts), Mapping):
        raise InvalidInput(
            "verdicts must be a mapping of wait ids to verdicts, got "
            f"{type(verdicts).__name__}. Pass {{wait.id: Approve()}}."
        )
    given: dict[str, Any] = dict(verdicts)
    if len(given) > MAX_DECISIONS:
        raise InvalidInput(
            f"verdicts has {len(given)} waits, and the maximum is {MAX_DECISIONS}. "
            "Nothing was recorded. Pass fewer waits in one call."
        )
    digests = shown or {}
    turn = asyncio.Semaphore(_AT_A_TIME)

    async def result(wait_id: str) -> Result:
        async with turn:
            try:
                return await decide(
                    wait_id, given[wait_id], shown=digests.get(wait_id), door=door
                )
            except Exception as error:  # noqa: BLE001 - also of `Runner(groups=...)`
                return error

    results = await asyncio.gather(*(result(wait_id) for wait_id in given))
    return dict(zip(given, results, strict=True))
